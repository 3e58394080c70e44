//! Deliberate faults ("mutants"): each switches one guard off, to prove that the simulator or a test notices.
//!
//! Only the cargo feature `mutants` and unit tests compile them. Without it [`Faults`] is empty, [`Faults::has`] is constantly
//! false and the compiler drops the faulty branches; `sim/tests/shipped.rs` searches the built programs for them.

#[cfg(not(any(test, feature = "mutants")))]
mod disabled;
#[cfg(any(test, feature = "mutants"))]
mod enabled;

#[cfg(not(any(test, feature = "mutants")))]
pub use disabled::Faults;
#[cfg(any(test, feature = "mutants"))]
pub use enabled::{Faults, PANIC_MESSAGE};

/// A guard that can be switched off to prove that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Effects leave before their commit is stored.
    EffectsBeforeCommit,
    /// A command seen twice takes effect twice.
    NoDeduplication,
    /// A new leader declares silent nodes lost immediately.
    NoFailoverGrace,
    /// A report on one pod of an instance counts for every pod of that instance.
    MixesUpPods,
    /// A stopped engine plans, and a read-only one accepts changes.
    IgnoresSwitches,
    /// A group takes its stream ports even if another group owns them.
    NoPortClaims,
    /// An instance is ordered elsewhere before the node it leaves confirmed that its pod is gone.
    MovesBeforeRemoval,
    /// An upgraded instance runs even if it was stopped.
    ForgetsStops,
    /// A drift takes the lock from a running operation.
    NoLock,
    /// A patch gets the version its client sent.
    TakesClientVersion,
    /// A rollback takes the number of the version it goes back to.
    VersionGoesBack,
    /// A new leader's orders hold no dependency pods.
    ForgetsDependencies,
    /// Instances that do not run need no dependency pods.
    IgnoresNeedsOfStopped,
    /// A rollout continues without being confirmed.
    SkipsConfirmations,
    /// The progress of a rollout is not stored with the instances it changed.
    ForgetsRollouts,
    /// A rollout surges by two pods more than allowed.
    ExceedsMaxSurge,
    /// A rollout makes two more instances unavailable than allowed.
    ExceedsMaxUnavailable,
    /// A pod is touched without being taken out of service.
    SkipsDrains,
    /// A rollback replaces every instance, also those with the target's content.
    SparesNothing,
    /// Agents do not spare orphans.
    RemovesOrphans,
    /// A new leader forgets which nodes are cordoned.
    ForgetsCordons,
    /// Reconciling a group or a dependency pod with an image called `panic…` panics, for tests of the quarantine.
    PanicsOnPurpose,
}
