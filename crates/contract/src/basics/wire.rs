//! The wire version that a reader needs to understand a message.
//!
//! A message carries the lowest version that understands it, not the version of its sender. A process that is one
//! version behind therefore accepts everything it knows from a newer one and refuses only what it would misread.
//! docs/wire.md describes which changes raise the version, and the handling of each kind of message.

use crate::command::{Removal, Verb};

/// The newest version that this build reads and writes.
pub const WIRE_VERSION: u32 = 2;

/// The first version; a message without a version has it.
pub const FIRST: u32 = 1;

impl Verb {
    /// The lowest wire version whose readers handle this verb correctly.
    pub fn wire(&self) -> u32 {
        match self {
            // An older reader would ignore the field and remove containers that must stay.
            Self::RemoveGroup { removal: Removal::Background | Removal::Orphan, .. } => 2,
            // An older reader would report it as malformed instead of naming the version.
            Self::Restore { .. } => 2,
            // Unknown to readers of version 1.
            Self::Node { .. }
            | Self::SetPolicy { .. }
            | Self::RemovePolicy { .. }
            | Self::ReportRefused { .. }
            | Self::CreateToken { .. }
            | Self::RevokeToken { .. }
            | Self::CreateJoinToken { .. }
            | Self::RevokeJoinToken { .. }
            | Self::Join { .. }
            | Self::EnforceAccess { .. } => 2,
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

/// The error for a message that needs version `needed`, read by a process called `reader`; none when it is supported.
///
/// Check it before decoding: a newer version may give a known word another meaning.
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
    fn a_verb_requires_the_lowest_version_that_understands_it() {
        let remove = |removal| Verb::RemoveGroup { name: "a.b.c".parse().expect("a name"), removal };
        assert_eq!(remove(Removal::Foreground).wire(), FIRST);
        assert_eq!((remove(Removal::Background).wire(), remove(Removal::Orphan).wire()), (2, 2));
        assert_eq!(Verb::RunEngine { running: true }.wire(), FIRST);
    }

    #[test]
    fn only_newer_versions_are_refused_and_the_error_names_the_remedy() {
        assert_eq!(refusal(FIRST, "scheduler"), None);
        assert_eq!(refusal(WIRE_VERSION, "scheduler"), None);
        let sentence = refusal(WIRE_VERSION + 1, "scheduler").expect("refused");
        assert!(sentence.contains("upgrade the schedulers"), "{sentence}");
    }
}
