//! What must hold after every event, whatever went wrong. Each rule has a name and says why it is one.

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// Nothing is stored under a term that is over: a deposed leader would undo what its successor decided.
    NoStaleWrite,
    /// No agent accepts a fence below one it ever accepted, restarts included: the order of a deposed leader would
    /// start what its successor stopped.
    NoStaleOrder,
    /// A leader sends different content under different, growing fences: agents tell orders apart by nothing else.
    FencesGrow,
    /// A placement leaves a node only when that node was silent for `lost_after`: a failover alone moves nothing.
    NothingMovesByFailover,
    /// No instance runs on two connected nodes for longer than the bound.
    NobodyRunsTwice,
    /// Every command is in effect exactly once, in stream order, and what is stored equals the replay of the stream.
    CommandsHoldOnce,
    /// The outcome of a command is decided once.
    OutcomesStand,
    /// The cursor only moves forward: what lies behind it would be decided again.
    CursorMovesForward,
    /// A container without our labels, or of another node, is never touched.
    ForeignersUntouched,
    /// An agent acknowledges an order only when it, and nothing else, is on disk: the scheduler will not send it again.
    AcknowledgedIsKept,
    /// One commit at a time, below etcd's limit: two could be stored in the other order.
    OneCommitAtATime,
    /// Nobody is told, and no agent is ordered, what is not stored: the next leader would know nothing of it.
    EffectsFollowCommits,
    /// An answer that is not marked stale shows every change its asker knows to be accepted.
    ReadYourWrites,
    /// A stream port belongs to one group, which keeps it until it is removed; who waits for one runs nothing.
    PortsHaveOneOwner,
    /// A container that is wanted where it runs is not stopped.
    WantedIsLeftAlone,
    /// A stopped engine places nothing and moves nothing.
    StoppedMeansStopped,
    /// Nothing new is placed on a cordoned node, but for who is bound to it.
    CordonsHold,
    /// Revisions of groups and slots, and drift counts, never go down: clients and agents know containers by them.
    CountsGrow,
    /// Every version an instance or a dependency pod has is known: nobody could make it anew otherwise.
    VersionsHaveSpecs,
    /// Each accepted start, stop and restart reaches its instances exactly once; who is stopped stays so until started.
    AsksHoldOnce,
    /// A drift is queued once for each time it was asked for, and over when nothing it means is left behind.
    DriftsMove,
    /// What an operation ran into is shown until the next one.
    ErrorsStick,
    /// An operation gives its lock back in time.
    LocksAreReleased,
    /// Nothing is ordered where an instance is to go before the node it leaves has let go of it.
    NotBeforeLetGo,
    /// An instance that is bound to its data changes its node only by force.
    StatefulStays,
    /// An instance that is bound to its data never runs twice.
    StatefulRunsOnce,
    /// Upgrades, restarts and drifts take one instance of a group down at a time.
    OneAtATime,
    /// A container is restarted at most once for each time somebody asked.
    RestartedOncePerAsk,
    /// An agent asks its engine for one step of an instance at a time: two would start a container twice, or end what the other
    /// just made.
    OneStepAtATime,
    /// No agent starts what it is ordered to keep stopped.
    StoppedStaysStopped,
    /// A dependency pod is planned wherever a placed instance needs it.
    NeedsAreMet,
    /// One pod per dependency, node and namespace.
    OnePairPerPlace,
    /// An instance has one pod, or a second one beside it that is another: nobody could tell them apart otherwise.
    TwoPodsAtMost,
    /// A release orders no more pods than its budget has, those that are still going included where the group says so.
    TotalIsKept,
    /// A release takes nothing out of service when fewer than the minimum would be left to serve.
    MinimumServes,
    /// A pod of a unit is placed on nodes of that unit.
    UnitsAreKept,
    /// Under Recreate nothing new is ordered while anything old is there.
    OldGoesFirst,
    /// A release by groups brings no more instances to its revision than the groups that were started have, and starts none
    /// before the one before was confirmed, where somebody has to.
    GroupsAreStarted,
    /// While a release is frozen no instance changes.
    FrozenIsFrozen,
    /// A release back leaves instances alone that run what it goes back to.
    RollbackSpares,
    /// An instance that serves is taken out of service before it is touched, for as long as its group says.
    DrainedBeforeTouched,
    /// A gate is open because somebody opened it, and an instance drained because somebody said so.
    GatesAreSaid,
    /// A container that is updated live stays the container it is.
    LiveUpdatesKeepContainers,
    /// Containers of an orphaned group are left as they are.
    OrphansAreSpared,
    /// Revisions are kept with what became of them, and that is decided once.
    RevisionsTellTheTruth,
    /// A core that asks to be woken again and again without time passing would burn a process.
    NoBusyLoop,
    /// When nothing goes wrong for a while, everything is as users asked.
    Converges,
    /// A core never panics.
    NoPanic,
    /// One seed is one history.
    Deterministic,
}

/// A breach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub invariant: Invariant,
    /// What happened.
    pub detail: String,
}
