//! Mutants: each switches one guard off, to prove that an invariant notices.

use agent::core::io as agent_io;
use scheduler::core::io as scheduler_io;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mutant {
    /// Agents obey orders of deposed leaders.
    NoFence,
    /// Agents acknowledge orders they do not keep on disk.
    NoLedger,
    /// Agents acknowledge orders before they are on disk.
    AcknowledgesBeforeStoring,
    /// Agents apply a change of an order to whatever order they have.
    IgnoresDeltaBase,
    /// Agents list their containers once, and trust their memory after the engine was away.
    ListsOnce,
    /// Agents start an action while another one of the same instance is in flight.
    ActsTwice,
    /// The leader takes the report of one pod of an instance for all of its pods.
    MixesUpPods,
    /// The leader acts before its decision is stored.
    EffectsBeforeCommit,
    /// A command seen twice takes effect twice.
    NoDeduplication,
    /// A new leader considers silent nodes lost immediately.
    NoFailoverGrace,
    /// The leader schedules while scheduling is off, and accepts changes while the cluster is read-only.
    IgnoresSwitches,
    /// A group takes stream ports that another group owns.
    NoPortClaims,
    /// An instance starts on another node before its former node has removed it.
    MovesBeforeRemoval,
    /// An upgrade starts stopped instances.
    ForgetsStops,
    /// A move takes the lock of another operation.
    NoLock,
    /// A patch gets the version that its client sent.
    TakesClientVersion,
    /// A rollback takes the number of the version it returns to.
    VersionGoesBack,
    /// The orders of a new leader contain no dependency pods.
    ForgetsDependencies,
    /// Instances that do not run need no dependency pods.
    IgnoresNeedsOfStopped,
    /// An agent does not keep on disk that a restart was done.
    ForgetsRestarts,
    /// A rollout continues without a confirmation.
    SkipsConfirmations,
    /// The state of a rollout is not stored with the instances it changed.
    ForgetsRollouts,
    /// A rollout exceeds maxSurge by two.
    ExceedsMaxSurge,
    /// A rollout exceeds maxUnavailable by two.
    ExceedsMaxUnavailable,
    /// A rollout changes pods without draining them.
    SkipsDrains,
    /// A rollback also updates instances that already run its target.
    SparesNothing,
    /// Orders do not spare the containers of orphaned groups.
    RemovesOrphans,
    /// A new leader ignores cordons.
    ForgetsCordons,
    /// etcd stores commits without looking at the term.
    IgnoresTerms,
    /// etcd stores a late copy of an earlier commit over a later one of the same leader.
    StoresLateCommits,
}

impl Mutant {
    pub const ALL: [Self; 30] = [
        Self::NoFence,
        Self::NoLedger,
        Self::AcknowledgesBeforeStoring,
        Self::IgnoresDeltaBase,
        Self::ListsOnce,
        Self::ActsTwice,
        Self::MixesUpPods,
        Self::EffectsBeforeCommit,
        Self::NoDeduplication,
        Self::NoFailoverGrace,
        Self::IgnoresSwitches,
        Self::NoPortClaims,
        Self::MovesBeforeRemoval,
        Self::ForgetsStops,
        Self::NoLock,
        Self::TakesClientVersion,
        Self::VersionGoesBack,
        Self::ForgetsDependencies,
        Self::IgnoresNeedsOfStopped,
        Self::ForgetsRestarts,
        Self::SkipsConfirmations,
        Self::ForgetsRollouts,
        Self::ExceedsMaxSurge,
        Self::ExceedsMaxUnavailable,
        Self::SkipsDrains,
        Self::SparesNothing,
        Self::RemovesOrphans,
        Self::ForgetsCordons,
        Self::IgnoresTerms,
        Self::StoresLateCommits,
    ];

    pub fn of_agent(self) -> Option<agent_io::Mutant> {
        match self {
            Self::NoFence => Some(agent_io::Mutant::NoFence),
            Self::NoLedger => Some(agent_io::Mutant::NoLedger),
            Self::ForgetsRestarts => Some(agent_io::Mutant::ForgetsRestarts),
            Self::AcknowledgesBeforeStoring => Some(agent_io::Mutant::AcknowledgesBeforeStoring),
            Self::IgnoresDeltaBase => Some(agent_io::Mutant::IgnoresDeltaBase),
            Self::ListsOnce => Some(agent_io::Mutant::ListsOnce),
            Self::ActsTwice => Some(agent_io::Mutant::ActsTwice),
            Self::MixesUpPods
            | Self::EffectsBeforeCommit
            | Self::NoDeduplication
            | Self::NoFailoverGrace
            | Self::IgnoresSwitches
            | Self::NoPortClaims
            | Self::MovesBeforeRemoval
            | Self::ForgetsStops
            | Self::NoLock
            | Self::TakesClientVersion
            | Self::VersionGoesBack
            | Self::ForgetsDependencies
            | Self::IgnoresNeedsOfStopped
            | Self::SkipsConfirmations
            | Self::ForgetsRollouts
            | Self::ExceedsMaxSurge
            | Self::ExceedsMaxUnavailable
            | Self::SkipsDrains
            | Self::SparesNothing
            | Self::RemovesOrphans
            | Self::ForgetsCordons
            | Self::IgnoresTerms
            | Self::StoresLateCommits => None,
        }
    }

    pub fn of_scheduler(self) -> Option<scheduler_io::Mutant> {
        match self {
            Self::MixesUpPods => Some(scheduler_io::Mutant::MixesUpPods),
            Self::EffectsBeforeCommit => Some(scheduler_io::Mutant::EffectsBeforeCommit),
            Self::NoDeduplication => Some(scheduler_io::Mutant::NoDeduplication),
            Self::NoFailoverGrace => Some(scheduler_io::Mutant::NoFailoverGrace),
            Self::IgnoresSwitches => Some(scheduler_io::Mutant::IgnoresSwitches),
            Self::NoPortClaims => Some(scheduler_io::Mutant::NoPortClaims),
            Self::MovesBeforeRemoval => Some(scheduler_io::Mutant::MovesBeforeRemoval),
            Self::ForgetsStops => Some(scheduler_io::Mutant::ForgetsStops),
            Self::NoLock => Some(scheduler_io::Mutant::NoLock),
            Self::TakesClientVersion => Some(scheduler_io::Mutant::TakesClientVersion),
            Self::VersionGoesBack => Some(scheduler_io::Mutant::VersionGoesBack),
            Self::ForgetsDependencies => Some(scheduler_io::Mutant::ForgetsDependencies),
            Self::IgnoresNeedsOfStopped => Some(scheduler_io::Mutant::IgnoresNeedsOfStopped),
            Self::SkipsConfirmations => Some(scheduler_io::Mutant::SkipsConfirmations),
            Self::ForgetsRollouts => Some(scheduler_io::Mutant::ForgetsRollouts),
            Self::ExceedsMaxSurge => Some(scheduler_io::Mutant::ExceedsMaxSurge),
            Self::ExceedsMaxUnavailable => Some(scheduler_io::Mutant::ExceedsMaxUnavailable),
            Self::SkipsDrains => Some(scheduler_io::Mutant::SkipsDrains),
            Self::SparesNothing => Some(scheduler_io::Mutant::SparesNothing),
            Self::RemovesOrphans => Some(scheduler_io::Mutant::RemovesOrphans),
            Self::ForgetsCordons => Some(scheduler_io::Mutant::ForgetsCordons),
            Self::NoFence
            | Self::NoLedger
            | Self::AcknowledgesBeforeStoring
            | Self::IgnoresDeltaBase
            | Self::ListsOnce
            | Self::ActsTwice
            | Self::ForgetsRestarts
            | Self::IgnoresTerms
            | Self::StoresLateCommits => None,
        }
    }
}
