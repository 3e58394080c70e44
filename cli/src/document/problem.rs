//! Shows what is wrong with a document: line, column, field, problem and the line with a caret. Pure.

use std::fmt::Write as _;

use super::tree::TextPosition;

/// Problems shown at once; the first ones usually explain the others.
const MOST_SHOWN: usize = 20;
/// The widest part of a line that is shown.
const WIDEST: usize = 120;
/// Characters shown before the position when a line is cut.
const BEFORE: usize = 40;

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentProblem {
    pub(crate) position: Option<TextPosition>,
    /// Its path; empty for the whole document.
    pub(crate) field: String,
    /// The problem and the remedy.
    pub(crate) problem: String,
}

/// The problems one below the other, in the order of the text.
pub(crate) fn report(text: &str, mut problems: Vec<DocumentProblem>) -> String {
    problems.sort_by_key(|problem| problem.position.map_or((usize::MAX, 0), |at| (at.line, at.column)));
    let mut shown: Vec<String> = problems.iter().take(MOST_SHOWN).map(|problem| problem.shown(text)).collect();
    if problems.len() > MOST_SHOWN {
        shown.push(format!("and {} more", problems.len() - MOST_SHOWN));
    }
    shown.join("\n")
}

impl DocumentProblem {
    /// In one line, without the line of the text.
    pub(crate) fn line(&self) -> String {
        let Self { position, field, problem } = self;
        let what = if field.is_empty() { problem.clone() } else { format!("{field}: {problem}") };
        match position {
            Some(at) => format!("line {}, column {}: {what}", at.line, at.column),
            None => what,
        }
    }

    fn shown(&self, text: &str) -> String {
        let mut shown = self.line();
        let Some(at) = &self.position else { return shown };
        if let Some(line) = text.lines().nth(at.line - 1) {
            let _ = write!(shown, "\n{}", snippet(line, at));
        }
        shown
    }
}

/// The line, and below it carets under the position.
fn snippet(line: &str, at: &TextPosition) -> String {
    // A tab is as wide as the terminal likes; a blank keeps the caret in its column.
    let letters: Vec<char> = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let column = (at.column - 1).min(letters.len());
    let from = if letters.len() <= WIDEST { 0 } else { column.saturating_sub(BEFORE) };
    let to = letters.len().min(from + WIDEST);
    let part: String = letters[from..to].iter().collect();
    let carets = at.length.min((to - column).max(1));
    let number = at.line.to_string();
    let margin = " ".repeat(number.len());
    format!("    {number} | {}\n    {margin} | {}{}", part.trim_end(), " ".repeat(column - from), "^".repeat(carets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: usize, column: usize, length: usize) -> DocumentProblem {
        let position = Some(TextPosition { line, column, length });
        DocumentProblem { position, field: "port".to_owned(), problem: "is odd".to_owned() }
    }

    #[test]
    fn a_problem_is_shown_with_its_line_and_a_caret_in_the_order_of_the_text() {
        let text = "name: web\n\tport: abc";
        let shown = report(text, vec![problem(2, 8, 3), problem(1, 1, 4)]);
        let expected = "line 1, column 1: port: is odd\n    1 | name: web\n      | ^^^^\n\
                        line 2, column 8: port: is odd\n    2 |  port: abc\n      |        ^^^";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_line_is_cut_around_the_position_and_a_caret_stays_on_the_line() {
        let text = format!("{}port: abc{}", "x".repeat(500), "y".repeat(500));
        let shown = report(&text, vec![problem(1, 507, 900)]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].chars().count(), 8 + WIDEST);
        assert_eq!(lines[1].find("abc"), lines[2].find('^'));
        assert_eq!(lines[2].chars().count(), lines[1].chars().count());
        let beyond = report("a", vec![problem(1, 9, 5), problem(7, 1, 1)]);
        assert!(
            beyond.contains("    1 | a\n      |  ^") && beyond.ends_with("line 7, column 1: port: is odd"),
            "{beyond}"
        );
    }
}
