//! `deployctl`: the command-line client of a cluster. `up`, `down` and `clear` work on this machine, `health` checks
//! any URL, and all other commands use only the HTTP API.

pub mod api;
pub mod args;
pub mod commands;
pub mod document;
pub mod endpoint;
pub mod error;
pub mod exit;
pub mod output;

pub use commands::run;
pub use error::Error;
