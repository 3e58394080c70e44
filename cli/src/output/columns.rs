//! Tables as aligned columns. Pure, but for the width and the colours of the terminal.
//!
//! `grep` and `awk` take them: two blanks between columns, no lines, and piped output is never cut. On a terminal every row fits
//! the width: the last columns are the least important ones, so they are cut first, with `…`.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::terminal::{self, Paint, Span, inline};

const GAP: &str = "  ";
/// A cut column keeps this many characters, or its heading.
const SHORTEST: usize = 8;
const BAD: [&str; 13] = [
    "exited",
    "failed",
    "error",
    "lost",
    "missing",
    "inconsistent",
    "unhealthy",
    "down",
    "hung",
    "stuck",
    "held",
    "refused",
    "expired",
];
const WARNING: [&str; 10] =
    ["pending", "moving", "starting", "suspect", "cordoned", "draining", "paused", "unknown", "ready", "progressing"];

/// A table whose cells are one line each, whatever text the API gave.
#[derive(Debug, Clone, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A table with these headings.
pub fn plain(header: &[&str]) -> Table {
    Table { header: header.iter().map(|word| word.to_uppercase()).collect(), rows: Vec::new() }
}

/// The table as text without colours, as wide as the terminal at most.
pub fn text(table: &Table) -> String {
    let lines = table.lines(terminal::width(), false);
    let line = |spans: &Vec<Span>| spans.iter().map(|span| span.text.as_str()).collect::<String>();
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Table {
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| inline(&cell).into_owned()).collect());
    }

    /// Prints it to standard output, with bad states in colour where the terminal and the user allow it.
    pub fn print(&self) {
        self.lines(terminal::width(), true).iter().for_each(|line| terminal::print_spans(line));
    }

    /// Prints the rows of `changed` below an earlier table, in its columns.
    pub fn print_below(&self, changed: &Self) {
        let widths = self.widths(terminal::width());
        changed.rows.iter().for_each(|row| terminal::print_spans(&line(row, &self.header, &widths)));
    }

    fn lines(&self, width: Option<usize>, with_header_paint: bool) -> Vec<Vec<Span>> {
        let widths = self.widths(width);
        let header = line(&self.header, &[], &widths);
        let titles = if with_header_paint { self.header.as_slice() } else { &[] };
        std::iter::once(header).chain(self.rows.iter().map(|row| line(row, titles, &widths))).collect()
    }

    /// The width of each column, so that a row is at most `most` wide.
    fn widths(&self, most: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|title| title.width()).collect();
        for row in &self.rows {
            for (column, cell) in widths.iter_mut().zip(row) {
                *column = (*column).max(cell.width());
            }
        }
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(most.unwrap_or(usize::MAX));
        for (width, title) in widths.iter_mut().zip(&self.header).rev() {
            let spare = width.saturating_sub(SHORTEST.max(title.width())).min(excess);
            (*width, excess) = (*width - spare, excess - spare);
        }
        // A terminal that is too narrow even then loses whole columns.
        while excess > 0 && widths.len() > 1 {
            excess = excess.saturating_sub(widths.pop().unwrap_or(0) + GAP.len());
        }
        widths
    }
}

fn line(cells: &[String], titles: &[String], widths: &[usize]) -> Vec<Span> {
    let mut spans = Vec::new();
    let last = cells.iter().zip(widths).rposition(|(cell, _)| !cell.is_empty()).unwrap_or(0);
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate().take(last + 1) {
        let cell = fitted(cell, *width);
        let blanks = if index < last { width.saturating_sub(cell.width()) + GAP.len() } else { 0 };
        let paint = titles.get(index).map_or(Paint::Plain, |title| paint(title, &cell));
        spans.push(Span { text: cell, paint });
        spans.push(Span { text: " ".repeat(blanks), paint: Paint::Plain });
    }
    spans
}

/// The text in at most `width` columns, with `…` where it was cut.
fn fitted(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |letter: &char| {
        let needed = letter.width().unwrap_or(0);
        let has_room = needed <= left;
        left = left.saturating_sub(needed);
        has_room
    };
    format!("{}…", text.chars().take_while(fits).collect::<String>().trim_end())
}

/// The colour of a cell: states by their words, `1/3` when something is missing.
fn paint(title: &str, cell: &str) -> Paint {
    match title {
        "STATE" | "STATUS" | "ENGINE" | "OUTCOME" => {
            let words: Vec<&str> = cell.split(|letter: char| !letter.is_alphabetic()).collect();
            let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
            if has(&BAD) {
                Paint::Bad
            } else if has(&WARNING) {
                Paint::Warning
            } else {
                Paint::Plain
            }
        }
        "READY" => match cell.split_once('/') {
            Some((ready, wanted)) if ready == wanted => Paint::Plain,
            Some(("0", _)) => Paint::Bad,
            Some(_) => Paint::Warning,
            None if cell == "no" => Paint::Bad,
            None => Paint::Plain,
        },
        _ => Paint::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = plain(&["podgroup", "ready", "state", "image", "age", "error"]);
        let rows = [
            ["shop.web.web", "1/3", "running", "registry.example/shop/web:1.2.3", "4d", "instance 2: no such file"],
            ["shop.db.db", "1/1", "running", "postgres:17", "12s", ""],
        ];
        rows.iter().for_each(|row| table.add_row(row.map(str::to_owned)));
        table
    }
    fn lines(width: Option<usize>) -> Vec<String> {
        let joined = |line: Vec<Span>| line.into_iter().map(|span| span.text).collect::<String>();
        table().lines(width, true).into_iter().map(joined).collect()
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_without_a_terminal() {
        let expected = [
            "PODGROUP      READY  STATE    IMAGE                            AGE  ERROR",
            "shop.web.web  1/3    running  registry.example/shop/web:1.2.3  4d   instance 2: no such file",
            "shop.db.db    1/1    running  postgres:17                      12s",
        ];
        assert_eq!(lines(None), expected);
        assert_eq!(text(&table()), expected.join("\n"));
    }

    #[test]
    fn a_row_fits_the_terminal_and_the_last_columns_are_cut_first() {
        let expected = [
            "PODGROUP      READY  STATE    IMAGE                            AGE  ERROR",
            "shop.web.web  1/3    running  registry.example/shop/web:1.2.3  4d   instance 2:…",
            "shop.db.db    1/1    running  postgres:17                      12s",
        ];
        assert_eq!(lines(Some(80)), expected);
        let expected = [
            "PODGROUP      READY  STATE    IMAGE          AGE  ERROR",
            "shop.web.web  1/3    running  registry.exa…  4d   instanc…",
            "shop.db.db    1/1    running  postgres:17    12s",
        ];
        assert_eq!(lines(Some(58)), expected);
        for width in 20..100 {
            assert!(lines(Some(width)).iter().all(|line| line.width() <= width), "{width}: {:#?}", lines(Some(width)));
        }
    }

    #[test]
    fn bad_states_and_missing_instances_are_coloured() {
        let cases = [
            ("STATE", "exited", Paint::Bad),
            ("STATE", "running (unhealthy)", Paint::Bad),
            ("STATE", "running (starting)", Paint::Warning),
            ("STATUS", "alive,cordoned", Paint::Warning),
            ("STATUS", "alive", Paint::Plain),
            ("READY", "0/3", Paint::Bad),
            ("READY", "2/3", Paint::Warning),
            ("READY", "0/0", Paint::Plain),
            ("ERROR", "failed", Paint::Plain),
        ];
        for (title, cell, expected) in cases {
            assert_eq!(paint(title, cell), expected, "{title} {cell}");
        }
    }

    #[test]
    fn wide_letters_count_twice() {
        assert_eq!(fitted("部署部署", 6), "部署…");
        assert_eq!(fitted("部署", 4), "部署");
    }
}
