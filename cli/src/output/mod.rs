//! What `deployctl` prints: tables, pictures of rollouts and plans, progress lines.

#[macro_use]
pub mod terminal;

pub mod access;
pub mod columns;
pub(crate) mod describe;
pub mod difference;
pub mod event;
pub(crate) mod list;
pub(crate) mod lists;
pub mod log;
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

/// Prints a value as the user chose: text, YAML or JSON.
pub(crate) fn show<T: Serialize>(output: Output, value: &T, table: impl FnOnce() -> String) {
    match output {
        Output::Table => println!("{}", table()),
        Output::Json => print_json(value),
        Output::Yaml => print_yaml(value),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json<T: Serialize>(value: &T) {
    terminal::print_json(&serde_json::to_string_pretty(value).expect("bodies of the API have string keys only"));
}

/// Prints a value as YAML; it reads like the JSON.
pub(crate) fn print_yaml<T: Serialize>(value: &T) {
    let text = serde_saphyr::to_string(value).expect("bodies of the API have string keys only");
    println!("{}", text.trim_end());
}
