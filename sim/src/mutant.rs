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
    AcknowledgesFirst,
    /// Agents apply a change of an order to whatever order they have.
    AnyBase,
    /// Agents list their containers once, and trust their memory after the engine was away.
    ListsOnce,
    /// Agents start an action while another one of the same instance is in flight.
    WorksTwice,
    /// The leader takes the report of one pod of an instance for all of its pods.
    CountsByName,
    /// The leader acts before its decision is stored.
    EffectsBeforeCommit,
    /// A command seen twice takes effect twice.
    NoDeduplication,
    /// A new leader considers silent nodes lost immediately.
    NoFailoverGrace,
    /// The leader schedules while scheduling is off, and accepts changes while the cluster is read-only.
    NoBrakes,
    /// A group takes stream ports that another group owns.
    NoPortClaims,
    /// An instance starts on another node before its former node has removed it.
    NoLettingGo,
    /// An upgrade starts stopped instances.
    ForgetsStops,
    /// A move takes the lock of another operation.
    NoLock,
    /// A patch gets the version that its client sent.
    ClientsVersion,
    /// A rollback takes the number of the version it returns to.
    VersionGoesBack,
    /// The orders of a new leader contain no dependency pods.
    ForgetsPairs,
    /// Instances that do not run need no dependency pods.
    NeedsOfRunning,
    /// An agent does not keep on disk that a restart was done.
    ForgetsRestarts,
    /// A rollout continues without a confirmation.
    ConfirmsItself,
    /// The state of a rollout is not stored with the instances it changed.
    ForgetsReleases,
    /// A rollout exceeds maxSurge by two.
    SurgesMore,
    /// A rollout exceeds maxUnavailable by two.
    TakesMore,
    /// A rollout changes pods without draining them.
    SkipsDrains,
    /// A rollback also updates instances that already run its target.
    SparesNobody,
    /// Orders do not spare the containers of orphaned groups.
    SweepsOrphans,
    /// A new leader ignores cordons.
    ForgetsCordons,
    /// etcd stores commits without looking at the term.
    NoGuard,
    /// etcd stores a late copy of an earlier commit over a later one of the same leader.
    NoOrder,
}

impl Mutant {
    pub const ALL: [Self; 30] = [
        Self::NoFence,
        Self::NoLedger,
        Self::AcknowledgesFirst,
        Self::AnyBase,
        Self::ListsOnce,
        Self::WorksTwice,
        Self::CountsByName,
        Self::EffectsBeforeCommit,
        Self::NoDeduplication,
        Self::NoFailoverGrace,
        Self::NoBrakes,
        Self::NoPortClaims,
        Self::NoLettingGo,
        Self::ForgetsStops,
        Self::NoLock,
        Self::ClientsVersion,
        Self::VersionGoesBack,
        Self::ForgetsPairs,
        Self::NeedsOfRunning,
        Self::ForgetsRestarts,
        Self::ConfirmsItself,
        Self::ForgetsReleases,
        Self::SurgesMore,
        Self::TakesMore,
        Self::SkipsDrains,
        Self::SparesNobody,
        Self::SweepsOrphans,
        Self::ForgetsCordons,
        Self::NoGuard,
        Self::NoOrder,
    ];

    pub fn of_agent(self) -> Option<agent_io::Mutant> {
        match self {
            Self::NoFence => Some(agent_io::Mutant::NoFence),
            Self::NoLedger => Some(agent_io::Mutant::NoLedger),
            Self::ForgetsRestarts => Some(agent_io::Mutant::ForgetsRestarts),
            Self::AcknowledgesFirst => Some(agent_io::Mutant::AcknowledgesFirst),
            Self::AnyBase => Some(agent_io::Mutant::AnyBase),
            Self::ListsOnce => Some(agent_io::Mutant::ListsOnce),
            Self::WorksTwice => Some(agent_io::Mutant::WorksTwice),
            Self::CountsByName
            | Self::EffectsBeforeCommit
            | Self::NoDeduplication
            | Self::NoFailoverGrace
            | Self::NoBrakes
            | Self::NoPortClaims
            | Self::NoLettingGo
            | Self::ForgetsStops
            | Self::NoLock
            | Self::ClientsVersion
            | Self::VersionGoesBack
            | Self::ForgetsPairs
            | Self::NeedsOfRunning
            | Self::ConfirmsItself
            | Self::ForgetsReleases
            | Self::SurgesMore
            | Self::TakesMore
            | Self::SkipsDrains
            | Self::SparesNobody
            | Self::SweepsOrphans
            | Self::ForgetsCordons
            | Self::NoGuard
            | Self::NoOrder => None,
        }
    }

    pub fn of_scheduler(self) -> Option<scheduler_io::Mutant> {
        match self {
            Self::CountsByName => Some(scheduler_io::Mutant::CountsByName),
            Self::EffectsBeforeCommit => Some(scheduler_io::Mutant::EffectsBeforeCommit),
            Self::NoDeduplication => Some(scheduler_io::Mutant::NoDeduplication),
            Self::NoFailoverGrace => Some(scheduler_io::Mutant::NoFailoverGrace),
            Self::NoBrakes => Some(scheduler_io::Mutant::NoBrakes),
            Self::NoPortClaims => Some(scheduler_io::Mutant::NoPortClaims),
            Self::NoLettingGo => Some(scheduler_io::Mutant::NoLettingGo),
            Self::ForgetsStops => Some(scheduler_io::Mutant::ForgetsStops),
            Self::NoLock => Some(scheduler_io::Mutant::NoLock),
            Self::ClientsVersion => Some(scheduler_io::Mutant::ClientsVersion),
            Self::VersionGoesBack => Some(scheduler_io::Mutant::VersionGoesBack),
            Self::ForgetsPairs => Some(scheduler_io::Mutant::ForgetsPairs),
            Self::NeedsOfRunning => Some(scheduler_io::Mutant::NeedsOfRunning),
            Self::ConfirmsItself => Some(scheduler_io::Mutant::ConfirmsItself),
            Self::ForgetsReleases => Some(scheduler_io::Mutant::ForgetsReleases),
            Self::SurgesMore => Some(scheduler_io::Mutant::SurgesMore),
            Self::TakesMore => Some(scheduler_io::Mutant::TakesMore),
            Self::SkipsDrains => Some(scheduler_io::Mutant::SkipsDrains),
            Self::SparesNobody => Some(scheduler_io::Mutant::SparesNobody),
            Self::SweepsOrphans => Some(scheduler_io::Mutant::SweepsOrphans),
            Self::ForgetsCordons => Some(scheduler_io::Mutant::ForgetsCordons),
            Self::NoFence
            | Self::NoLedger
            | Self::AcknowledgesFirst
            | Self::AnyBase
            | Self::ListsOnce
            | Self::WorksTwice
            | Self::ForgetsRestarts
            | Self::NoGuard
            | Self::NoOrder => None,
        }
    }
}
