//! Names, ids, times, and the names of subjects, streams and labels.

pub mod backoff;
pub mod bus;
pub mod labels;
pub mod name;
pub mod pod_id;
pub mod streams;
pub mod subjects;
pub mod time;
pub mod wire;
