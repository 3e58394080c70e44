//! What a run came to: a table for people, JSON for programs.

use std::path::Path;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table};

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// Its name in the JSON; it ends with its unit.
    pub(crate) key: &'static str,
    /// What it is, for people.
    pub(crate) words: &'static str,
    pub(crate) value: f64,
}

/// A count.
#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
pub(crate) fn count(key: &'static str, words: &'static str, value: u64) -> Figure {
    Figure { key, words, value: value as f64 }
}

/// A time in seconds.
pub(crate) fn seconds(key: &'static str, words: &'static str, value: Duration) -> Figure {
    Figure { key, words, value: value.as_secs_f64() }
}

/// A time in milliseconds.
pub(crate) fn milliseconds(key: &'static str, words: &'static str, value: Duration) -> Figure {
    Figure { key, words, value: value.as_secs_f64() * 1000.0 }
}

/// So much of each of so many.
#[expect(clippy::cast_precision_loss, reason = "bytes of one run are far below 2^52")]
pub(crate) fn each(key: &'static str, words: &'static str, sum: u64, of: u32) -> Figure {
    Figure { key, words, value: sum as f64 / f64::from(of.max(1)) }
}

/// The part of a span that was used, in percent of one core.
pub(crate) fn share(key: &'static str, words: &'static str, used: Duration, span: Duration) -> Figure {
    Figure { key, words, value: 100.0 * used.as_secs_f64() / span.as_secs_f64().max(0.001) }
}

/// The figures as a table.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for figure in figures {
        table.add_row([figure.words.to_owned(), shown(figure.value)]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Writes the figures as one JSON object.
pub(crate) fn store(figures: &[Figure], path: &Path) -> std::io::Result<()> {
    let object: serde_json::Map<String, serde_json::Value> =
        figures.iter().map(|figure| (figure.key.to_owned(), figure.value.into())).collect();
    std::fs::write(path, serde_json::to_vec_pretty(&object)?)
}
