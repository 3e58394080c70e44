//! `deployctl`: the command-line client of a cluster. `up`, `down` and `clear` work on this machine, `health` checks
//! any URL, and all other commands use only the HTTP API.

#[macro_use]
pub mod output;

pub mod api;
pub mod args;
pub mod commands;
pub mod contexts;
pub mod credential;
pub mod document;
pub mod endpoint;
pub mod error;
pub mod exit;
pub mod private_file;
pub mod short;

pub use commands::run;
pub use error::Error;
