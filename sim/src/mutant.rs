//! Guards that can be switched off, each to prove that the invariants would notice.

use agent::core::io as agent_io;
use scheduler::core::io as scheduler_io;

/// One guard switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mutant {
    /// Agents obey orders of deposed leaders.
    NoFence,
    /// Agents acknowledge orders they do not keep on disk.
    NoLedger,
    /// The leader acts before its decision is stored.
    EffectsBeforeCommit,
    /// A command seen twice takes effect twice.
    NoDeduplication,
    /// A fresh leader calls silent nodes lost at once.
    NoFailoverGrace,
    /// A stopped engine plans, and a read-only one takes changes.
    NoBrakes,
    /// A group takes its stream ports, whoever has them.
    NoPortClaims,
    /// etcd stores commits without looking at the term.
    NoGuard,
    /// etcd stores a late copy of an earlier commit over a later one of the same leader.
    NoOrder,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NoFence,
        Self::NoLedger,
        Self::EffectsBeforeCommit,
        Self::NoDeduplication,
        Self::NoFailoverGrace,
        Self::NoBrakes,
        Self::NoPortClaims,
        Self::NoGuard,
        Self::NoOrder,
    ];

    /// What this means for agents.
    pub fn of_agent(self) -> Option<agent_io::Mutant> {
        match self {
            Self::NoFence => Some(agent_io::Mutant::NoFence),
            Self::NoLedger => Some(agent_io::Mutant::NoLedger),
            Self::EffectsBeforeCommit
            | Self::NoDeduplication
            | Self::NoFailoverGrace
            | Self::NoBrakes
            | Self::NoPortClaims
            | Self::NoGuard
            | Self::NoOrder => None,
        }
    }

    /// What this means for schedulers.
    pub fn of_scheduler(self) -> Option<scheduler_io::Mutant> {
        match self {
            Self::EffectsBeforeCommit => Some(scheduler_io::Mutant::EffectsBeforeCommit),
            Self::NoDeduplication => Some(scheduler_io::Mutant::NoDeduplication),
            Self::NoFailoverGrace => Some(scheduler_io::Mutant::NoFailoverGrace),
            Self::NoBrakes => Some(scheduler_io::Mutant::NoBrakes),
            Self::NoPortClaims => Some(scheduler_io::Mutant::NoPortClaims),
            Self::NoFence | Self::NoLedger | Self::NoGuard | Self::NoOrder => None,
        }
    }
}
