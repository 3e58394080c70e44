//! Exits that deployd did not request: reported by agents, shown by the API, rendered as one line for people.

use serde::{Deserialize, Serialize};

use crate::time::{Timestamp, rfc3339};

/// Longest last log line that is reported, in bytes.
pub const LONGEST_LINE: usize = 200;

/// An exit that deployd did not request, as the agent reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExitFacts {
    /// Exit code.
    #[serde(skip_serializing_if = "is_default")]
    pub code: i64,
    /// The kernel killed it because it used more memory than its limit.
    #[serde(skip_serializing_if = "is_default")]
    pub out_of_memory: bool,
    /// When it exited, by the node's clock.
    pub at: Timestamp,
    /// Last log line, at most [`LONGEST_LINE`] bytes; empty when there is none or it cannot be read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_line: String,
}

/// The last exit of an instance that is down, as `GET /api/podgroups` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Exit {
    /// Exit code.
    pub code: i64,
    /// The kernel killed it because it used more memory than its limit.
    pub out_of_memory: bool,
    /// When it exited.
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    /// Restarts in the current restart window, or since the crash loop began.
    pub restarts: u32,
    /// When the agent will start it again; absent when that is now or never.
    #[serde(with = "rfc3339", skip_serializing_if = "has_not_happened")]
    pub next_attempt: Timestamp,
    /// Last log line; empty when there is none or it cannot be read.
    pub last_line: String,
}

impl Exit {
    /// One line for people: `exited (3) 12 s ago, 5 restarts, next attempt in 8 s: cannot open /etc/app.conf`.
    pub fn describe(&self, now: Timestamp) -> String {
        let ago = format!(" {} ago", span(now.since(self.at).as_secs()));
        let next = now_or_later(self.next_attempt, now).map(|wait| format!(", next attempt in {wait}"));
        self.text(&ago, &next.unwrap_or_default())
    }

    /// The same line without times, for records and messages that must not change while nothing happens.
    pub fn summary(&self) -> String {
        self.text("", "")
    }

    fn text(&self, ago: &str, next: &str) -> String {
        let memory = if self.out_of_memory { ", out of memory" } else { "" };
        let restarts = match self.restarts {
            0 => String::new(),
            1 => ", 1 restart".to_owned(),
            many => format!(", {many} restarts"),
        };
        let line = if self.last_line.is_empty() { String::new() } else { format!(": {}", self.last_line) };
        format!("exited ({}{memory}){ago}{restarts}{next}{line}", self.code)
    }
}

fn now_or_later(time: Timestamp, now: Timestamp) -> Option<String> {
    (time > now).then(|| span(time.since(now).as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)))
}

/// A duration in one unit: `12 s`, `3 min`, `2 h`, `4 d`.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The last non-empty line without control characters and surrounding space, at most [`LONGEST_LINE`] bytes.
pub fn clean_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut kept = String::new();
    for letter in last.trim().chars().map(|letter| if letter == '\t' { ' ' } else { letter }) {
        if letter.is_control() {
            continue;
        }
        if kept.len() + letter.len_utf8() > LONGEST_LINE {
            break;
        }
        kept.push(letter);
    }
    kept
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn has_not_happened(time: &Timestamp) -> bool {
    !time.happened()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }

    #[test]
    fn an_exit_is_one_line_with_code_time_restarts_next_attempt_and_last_log_line() {
        let exit = Exit {
            code: 3,
            at: at(0),
            restarts: 5,
            next_attempt: at(20),
            last_line: "cannot open /etc/app.conf".to_owned(),
            ..Exit::default()
        };
        let text = "exited (3) 12 s ago, 5 restarts, next attempt in 8 s: cannot open /etc/app.conf";
        assert_eq!(exit.describe(at(12)), text);
        assert_eq!(exit.describe(at(300)), "exited (3) 5 min ago, 5 restarts: cannot open /etc/app.conf");
        assert_eq!(exit.summary(), "exited (3), 5 restarts: cannot open /etc/app.conf");
        let killed = Exit { code: 137, out_of_memory: true, at: at(0), restarts: 1, ..Exit::default() };
        assert_eq!(killed.describe(at(1)), "exited (137, out of memory) 1 s ago, 1 restart");
    }

    #[test]
    fn the_exit_is_serialised_with_the_names_that_clients_read() {
        let exit = Exit { code: 3, at: at(0), restarts: 5, next_attempt: at(20), ..Exit::default() };
        let text = serde_json::to_string(&exit).expect("serialises");
        let names = "Code OutOfMemory At Restarts NextAttempt LastLine";
        for name in names.split(' ') {
            assert!(text.contains(&format!("\"{name}\":")), "{name}: {text}");
        }
        assert_eq!(serde_json::from_str::<Exit>(&text).expect("reads"), exit);
        let never = serde_json::to_string(&Exit::default()).expect("serialises");
        assert!(!never.contains("NextAttempt"), "{never}");
    }

    #[test]
    fn a_log_line_is_shown_without_control_characters_and_cut_at_a_character() {
        assert_eq!(clean_line(b"first\n\x1b[31mno\tfile\x1b[0m\r\n\n"), "[31mno file[0m");
        assert_eq!(clean_line(b"\n \n"), "");
        let long = clean_line("ä".repeat(200).as_bytes());
        assert_eq!(long.len(), LONGEST_LINE);
        assert_eq!(clean_line(&[0xff; 300]).len(), 198, "whole characters only");
    }
}
