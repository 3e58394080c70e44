//! Which version of the wire a reader must speak to understand a message.
//!
//! A message carries the lowest version that understands it, not the version of its sender: so a process that is one version
//! behind takes everything it knows from a newer one, and refuses only what it would misread. docs/wire.md says which changes
//! raise the version and what every kind of message does in between.

use crate::command::{Removal, Verb};

/// The newest version this build reads and writes.
pub const WIRE_VERSION: u32 = 2;

/// The first version; what says nothing speaks it.
pub const FIRST: u32 = 1;

impl Verb {
    /// The lowest version of the wire whose readers do what this asks for.
    pub fn wire(&self) -> u32 {
        match self {
            // A reader from before the choice would not see the word, and remove containers that were to stay.
            Self::RemoveGroup { removal: Removal::Background | Removal::Orphan, .. } => 2,
            // One from before would call it unreadable, and not say that it is too old for it.
            Self::Restore { .. } => 2,
            // Words a reader of the first version does not know.
            Self::Node { .. } => 2,
            Self::RemoveGroup { removal: Removal::Foreground, .. }
            | Self::CreateGroup { .. }
            | Self::Replica { .. }
            | Self::PatchSpec { .. }
            | Self::PatchStrategy { .. }
            | Self::Rollout { .. }
            | Self::SetGate { .. }
            | Self::Drained { .. }
            | Self::Operate { .. }
            | Self::Drift { .. }
            | Self::Evacuate { .. }
            | Self::CreateDependency { .. }
            | Self::UpdateDependency { .. }
            | Self::RemoveDependency { .. }
            | Self::AddCallback { .. }
            | Self::RemoveCallback { .. }
            | Self::Configure { .. }
            | Self::RunEngine { .. }
            | Self::Guard { .. }
            | Self::SetConstraint { .. }
            | Self::RemoveConstraint { .. } => FIRST,
        }
    }
}

/// Why a message that needs version `needed` is not taken by the process called `reader`; none when it can be.
///
/// Asked before the message is read: what a newer version means by a word we know may not be what we would do.
pub fn refusal(needed: u32, reader: &str) -> Option<String> {
    (needed > WIRE_VERSION).then(|| {
        format!(
            "it needs wire version {needed} and this {reader} speaks {WIRE_VERSION}: upgrade the {reader}s, then ask again"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_says_the_version_that_understands_it_and_no_newer_one() {
        let remove = |removal| Verb::RemoveGroup { name: "a.b.c".parse().expect("a name"), removal };
        assert_eq!(remove(Removal::Foreground).wire(), FIRST);
        assert_eq!((remove(Removal::Background).wire(), remove(Removal::Orphan).wire()), (2, 2));
        assert_eq!(Verb::RunEngine { running: true }.wire(), FIRST);
    }

    #[test]
    fn only_what_is_newer_is_refused_and_the_sentence_names_the_remedy() {
        assert_eq!(refusal(FIRST, "scheduler"), None);
        assert_eq!(refusal(WIRE_VERSION, "scheduler"), None);
        let sentence = refusal(WIRE_VERSION + 1, "scheduler").expect("refused");
        assert!(sentence.contains("upgrade the schedulers"), "{sentence}");
    }
}
