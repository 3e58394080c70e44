//! The exit codes of `deployctl`. The help prints this table.

use std::fmt::Write;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    /// The command line or a document is wrong.
    Usage = 2,
    NotFound = 3,
    Unreachable = 4,
    Deadline = 5,
    /// The outcome of a change is unknown.
    Unknown = 6,
    /// The API answered 401 or 403.
    Denied = 7,
    /// `plan`: something would change.
    Changes = 10,
    /// `plan`: something would change and would not be finished.
    Unfinished = 11,
    /// Ctrl-C: 128 and the number of the signal, as shells report it.
    Interrupted = 130,
    /// The reader of standard output is gone: 128 and the number of SIGPIPE.
    PipeClosed = 141,
}

impl Exit {
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Unreachable,
        Self::Deadline,
        Self::Unknown,
        Self::Denied,
        Self::Changes,
        Self::Unfinished,
        Self::Interrupted,
        Self::PipeClosed,
    ];

    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it means, in one line.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "it failed, a rollout failed, or `status` found something that is not well",
            Self::Usage => "the command line or a document is wrong; nothing was sent",
            Self::NotFound => "no such PodGroup, instance, node or other object",
            Self::Unreachable => {
                "the API cannot be reached, at once or until the deadline; or the cluster of --dir is stopped"
            }
            Self::Deadline => "the API answers, and the deadline passed before the work was finished",
            Self::Unknown => "a change was sent and its outcome is unknown; it may still be made",
            Self::Denied => {
                "not logged in (`deployctl login URL`), or not allowed by the roles of the token or the policy of the namespace"
            }
            Self::Changes => "`plan --detailed-exitcode`: something would change",
            Self::Unfinished => "`plan --detailed-exitcode`: something would change and would not be finished",
            Self::Interrupted => "Ctrl-C: deployctl stops watching a rollout or a drain, which continues",
            Self::PipeClosed => "the reader of standard output is gone",
        }
    }
}

/// The table as the help shows it.
pub fn table() -> String {
    let mut text = "Exit codes:".to_owned();
    for exit in Exit::ALL {
        let _ = write!(text, "\n  {:<4} {}", exit.code(), exit.meaning());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_meaning() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        assert_eq!(table().lines().count(), Exit::ALL.len() + 1);
        assert!(table().contains("\n  4    the API cannot be reached"), "{}", table());
    }
}
