//! `deployctl`: the command-line client of a cluster. `up` and `down` run a local cluster; all other commands use only the
//! HTTP API.

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
