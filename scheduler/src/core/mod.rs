//! Decides what the scheduler does.

pub mod io;
