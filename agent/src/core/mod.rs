//! Decides what the agent does.

pub mod io;
