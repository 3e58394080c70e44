//! What `deployctl` prints: tables, pictures of rollouts and plans, progress lines.

#[macro_use]
pub mod terminal;

pub mod access;
pub mod difference;
pub mod event;
pub mod node;
pub mod plan;
pub mod progress;
pub mod question;
pub mod rollout;
pub mod screen;
pub mod table;
pub mod up;

use serde::Serialize;

use crate::args::Output;

/// Prints a value as the user chose: a table, or JSON.
pub(crate) fn show<T: Serialize>(output: Output, value: &T, table: impl FnOnce() -> String) {
    match output {
        Output::Table => println!("{}", table()),
        Output::Json => {
            terminal::print_json(
                &serde_json::to_string_pretty(value).expect("bodies of the API have string keys only"),
            );
        }
    }
}
