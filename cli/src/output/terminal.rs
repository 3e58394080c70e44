//! Everything that `deployctl` writes to a terminal passes through here, so that no text of the API can control it.
//!
//! Anybody who may deploy chooses causes, names, log lines and error texts. Raw, they could set the title of an operator's
//! terminal, hide lines or type into its input. Control characters are therefore shown as escapes: `\x1b]0;title\x07`.
//! The macros below replace `println!` and `eprintln!` in this crate. JSON gets the escapes of JSON.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::OnceLock;

use crate::args::Colour;

macro_rules! println {
    ($($text:tt)*) => { $crate::output::terminal::print(&format!($($text)*)) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::terminal::print_error(&format!($($text)*)) };
}

/// Prints a line to standard output.
pub fn print(text: &str) {
    std::println!("{}", lines(text));
}

/// Prints a line to standard error.
pub fn print_error(text: &str) {
    std::eprintln!("{}", lines(text));
}

/// Standard output as a terminal.
#[derive(Debug, Clone, Copy, Default)]
struct Display {
    /// Columns; none where output is not cut.
    width: Option<usize>,
    has_colours: bool,
}

/// Set once, before the first output. Unset, as in unit tests, output is neither cut nor coloured.
static DISPLAY: OnceLock<Display> = OnceLock::new();

/// Looks at the terminal, for the tables of this run.
pub(crate) fn prepare(colour: Colour) {
    let is_terminal = std::io::stdout().is_terminal();
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let has_colours = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => is_terminal && !wants_none && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    };
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok().filter(|_| is_terminal);
    let width = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    // A second call changes nothing.
    let _ = DISPLAY.set(Display { width, has_colours });
}

fn display() -> Display {
    DISPLAY.get().copied().unwrap_or_default()
}

/// The width that tables may have; none when standard output is not a terminal.
pub(crate) fn width() -> Option<usize> {
    display().width
}

/// How a part of a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Warning,
    Bad,
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) paint: Paint,
}

/// Prints a line with colours. Only these sequences of ours reach the terminal; those in the texts are shown as escapes.
pub(crate) fn print_spans(spans: &[Span]) {
    let has_colours = display().has_colours;
    let painted = |span: &Span| match (has_colours, span.paint) {
        (true, Paint::Bad) => format!("\x1b[31m{}\x1b[0m", inline(&span.text)),
        (true, Paint::Warning) => format!("\x1b[33m{}\x1b[0m", inline(&span.text)),
        (false, _) | (true, Paint::Plain) => inline(&span.text).into_owned(),
    };
    std::println!("{}", spans.iter().map(painted).collect::<String>());
}

/// Prints a question to standard error and leaves the cursor behind it.
pub(crate) fn prompt(text: &str) {
    std::eprint!("{}", lines(text));
}

/// Prints a line of a container's log behind `head`. Control characters are escaped for a terminal, except tabs, which only move to
/// the right. Programs get the line as the container wrote it.
pub(crate) fn print_log(head: &str, line: &str) {
    match std::io::stdout().is_terminal() {
        true => std::println!("{}{}", inline(head), inert_log(line)),
        false => std::println!("{head}{line}"),
    }
}

fn inert_log(line: &str) -> Cow<'_, str> {
    escape(line, |c| c != '\t' && is_control(c))
}

/// Prints a script that deployctl made itself, byte for byte: it holds no text of the API.
pub(crate) fn print_script(script: &str) {
    std::println!("{}", script.trim_end());
}

/// Prints JSON for other programs. A terminal may show it too, and JSON escapes only some control characters.
pub(crate) fn print_json(json: &str) {
    std::println!("{}", inert_json(json));
}

/// The same JSON with every control character as `\\u009b`. Outside strings there are only line breaks.
fn inert_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c != '\n' && is_control(c);
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let escaped = |c: char| if is_escaped(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(json.chars().map(escaped).collect())
}

/// A text of several lines with every control character but the line breaks escaped.
fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_control(c))
}

/// A text for a place that has one line: line breaks are escaped too, so that a text cannot look like further rows.
pub(crate) fn inline(text: &str) -> Cow<'_, str> {
    escape(text, is_control)
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let result = match (is_escaped(c), u32::from(c)) {
            (false, _) => escaped.write_char(c),
            (true, 0x0a) => escaped.write_str("\\n"),
            (true, code @ 0..=0xff) => write!(escaped, "\\x{code:02x}"),
            (true, code) => write!(escaped, "\\u{{{code:x}}}"),
        };
        result.expect("a String takes every text");
    }
    Cow::Owned(escaped)
}

/// C0, DEL and C1, line and paragraph separators, and the marks that change the direction of a text.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(lines("\x1b]0;owned\x07\x1b[2J"), "\\x1b]0;owned\\x07\\x1b[2J");
        assert_eq!(lines("a\u{9b}31m\u{7f}\rb\u{202e}c\u{2066}"), "a\\x9b31m\\x7f\\x0db\\u{202e}c\\u{2066}");
        assert_eq!(lines("two\nlines"), "two\nlines");
        assert_eq!(inline("two\nlines\t"), "two\\nlines\\x09");
        assert_eq!(inert_log("a\tb\x1b[0m\r\nc"), "a\tb\\x1b[0m\\x0d\\nc");
    }

    #[test]
    fn control_characters_in_json_are_escaped_and_the_value_stays() {
        let value = serde_json::json!({ "a\u{9b}b": ["\u{85}\u{9f}\u{7f}\u{202e}\x1b]0;x\x07", "wéb 部署\n"] });
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let printed = inert_json(&pretty);
        assert_eq!(printed.chars().find(|c| *c != '\n' && is_control(*c)), None, "{printed}");
        assert!(printed.contains("\\u009b") && printed.contains("wéb 部署"), "{printed}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }

    #[test]
    fn ordinary_texts_stay_as_they_are() {
        let text = "wéb 部署 🚀 \\x1b ä\n- ok";
        assert!(matches!(lines(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn only_this_file_prints_without_escapes() {
        let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else if !entry.ends_with("output/terminal.rs") {
                    let source = std::fs::read_to_string(&entry).unwrap();
                    // The macros of this file are not those of the program's main.rs.
                    let is_main = entry.ends_with("main.rs");
                    let mut raw = vec!["std::print", "std::eprint", " print!", " eprint!"];
                    raw.extend(is_main.then_some("println!("));
                    assert_eq!(raw.iter().find(|raw| source.contains(**raw)), None, "{} prints raw", entry.display());
                }
            }
        }
    }
}
