//! Deliberate faults ("mutants"): each disables one safety rule, to prove that the simulator or a test notices.
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

/// A safety rule that the simulator can disable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Accepts orders of deposed leaders.
    NoFence,
    /// Acknowledges orders without writing them to disk.
    NoLedger,
    /// Does not store that a restart was done.
    ForgetsRestarts,
    /// Acknowledges orders before they are on disk.
    AcknowledgesBeforeStoring,
    /// Applies a delta to any base.
    IgnoresDeltaBase,
    /// Takes one inventory and trusts the cache from then on.
    ListsOnce,
    /// Starts a second action while one is in progress.
    ActsTwice,
    /// Panics on instances of groups named `panic…`, to test that the others are still reconciled.
    PanicsOnPurpose,
}
