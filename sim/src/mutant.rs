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
    /// Agents acknowledge orders before they are on disk.
    AcknowledgesFirst,
    /// Agents apply a change of an order to whatever order they have.
    AnyBase,
    /// Agents list their containers once, and trust their memory after the engine was away.
    ListsOnce,
    /// Agents ask for a step while another of the same instance is under way: a container is started twice.
    WorksTwice,
    /// What is reported of one pod of an instance is taken for true of each.
    CountsByName,
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
    /// An instance starts elsewhere before the node it leaves has let go of it.
    NoLettingGo,
    /// An upgraded instance runs, whatever was wanted of it.
    ForgetsStops,
    /// A drift takes the lock from whoever has it.
    NoLock,
    /// A patch gets the version its client sent.
    ClientsVersion,
    /// A rollback takes the number of the version it goes back to.
    VersionGoesBack,
    /// A new leader's orders hold no dependency pods.
    ForgetsPairs,
    /// Instances that do not run need no dependency pods.
    NeedsOfRunning,
    /// An agent does not keep on disk that a restart was done.
    ForgetsRestarts,
    /// A release goes on without being confirmed.
    ConfirmsItself,
    /// How far a release is is not stored with the instances it changed.
    ForgetsReleases,
    /// A release surges by two more than it may.
    SurgesMore,
    /// A release takes two more out of service than it may.
    TakesMore,
    /// A pod is touched without being taken out of service.
    SkipsDrains,
    /// A way back renews every instance, those that run what it goes back to too.
    SparesNobody,
    /// Nodes are not told to spare orphans.
    SweepsOrphans,
    /// A new leader does not know which nodes are cordoned.
    ForgetsCordons,
    /// etcd stores commits without looking at the term.
    NoGuard,
    /// etcd stores a late copy of an earlier commit over a later one of the same leader.
    NoOrder,
}

impl Mutant {
    /// All of them.
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

    /// What this means for agents.
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

    /// What this means for schedulers.
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
