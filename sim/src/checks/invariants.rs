//! The invariants, which must hold after every event, whatever faults occur.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// etcd stores nothing of an old term: a deposed leader would undo the decisions of its successor.
    NoStaleWrite,
    /// No agent accepts a fence below one it accepted before, restarts included: a deposed leader's order would start what its successor
    /// stopped.
    NoStaleOrder,
    /// A leader sends different content under different, growing fences: agents tell orders apart by nothing else.
    FencesGrow,
    /// An instance leaves a node only if the node was silent for `lost_after`: a failover alone moves nothing.
    NothingMovesByFailover,
    /// No instance runs on two connected nodes for longer than 75 s.
    NoInstanceRunsTwice,
    /// Every accepted command has its effect exactly once, in the sequence of the stream; the stored state equals the replay.
    CommandsTakeEffectOnce,
    /// The outcome of a command is decided once.
    OutcomesAreFinal,
    /// The cursor only moves forward: otherwise commands would be decided again.
    CursorMovesForward,
    /// No agent touches a container without our labels or of another node.
    ForeignContainersUntouched,
    /// An agent acknowledges an order only when exactly that order is on disk: the scheduler does not send it again.
    AcknowledgedIsKept,
    /// One commit at a time, below the limit of etcd: two could be stored in the wrong sequence.
    OneCommitAtATime,
    /// No outcome and no order leaves before its commit is stored: the next leader would not know of it.
    EffectsFollowCommits,
    /// An answer that is not marked stale shows every change that its user knows to be accepted.
    ReadYourWrites,
    /// A stream port belongs to one group until that is removed; a group that waits for a port runs nothing.
    PortsHaveOneOwner,
    /// No agent stops a container that is placed on its node.
    OrderedPodsAreNotStopped,
    /// With scheduling off the leader places and moves nothing.
    SchedulingOffPlacesNothing,
    /// No new pod is placed on a cordoned node, except stateful pods of that node.
    CordonsHold,
    /// Versions and drift counts never decrease: clients and agents identify containers by them.
    CountsGrow,
    /// The spec of every version in use is stored: otherwise it could not be recreated.
    VersionsHaveSpecs,
    /// Each accepted start, stop and restart reaches its instances exactly once; a stopped instance stays stopped until started.
    RequestsTakeEffectOnce,
    /// A move is queued once per command and ends when it has left no instance behind.
    MovesComplete,
    /// The error of an operation is shown until the next operation.
    ErrorsStayUntilNextOperation,
    /// An operation releases its lock in time.
    LocksAreReleased,
    /// An instance is ordered to another node only when its former node has removed it.
    MovesAfterRemoval,
    /// A stateful instance changes its node only by force.
    StatefulStays,
    /// A stateful instance never runs twice.
    StatefulRunsOnce,
    /// Upgrades, restarts and moves take one instance of a group down at a time.
    OneAtATime,
    /// A container is restarted at most once per requested restart.
    OneRestartPerRequest,
    /// An agent has one action per instance in flight: two could start a container twice.
    OneActionPerInstance,
    /// No agent starts an instance that its order stops.
    StoppedStaysStopped,
    /// A dependency pod is planned wherever a placed instance needs it.
    DependenciesArePlaced,
    /// One pod per dependency, node and namespace.
    OneDependencyPodPerPlace,
    /// An instance has a current pod and at most one surge pod with another name.
    TwoPodsAtMost,
    /// A rollout orders no more pods than its budget allows; with pod replacement Complete, terminating pods count.
    TotalIsKept,
    /// A rollout takes no pod out of service when fewer than the minimum would stay available.
    MinimumStaysAvailable,
    /// A pod of a unit is placed on nodes of that unit.
    UnitsAreKept,
    /// Under Recreate no new pod is ordered while an old one exists.
    RecreateStopsOldFirst,
    /// A batched rollout updates no more instances than its started batches have, and starts a batch only when the previous one is
    /// confirmed, if confirmations are required.
    OnlyStartedBatchesUpdate,
    /// While a rollout is frozen no instance changes.
    FrozenIsFrozen,
    /// A rollback leaves instances alone that already run its target.
    RollbackSpares,
    /// An available instance is drained before it is changed, for the configured grace.
    DrainedBeforeTouched,
    /// A gate opens and a drain is answered only by command.
    GatesOpenByCommandOnly,
    /// A live update keeps the container.
    LiveUpdatesKeepContainers,
    /// Containers of an orphaned group are left as they are.
    OrphansAreSpared,
    /// Stored revisions ascend, the last one has the spec of the group, and an outcome never changes.
    RevisionsMatchTheGroup,
    /// No core requests wakes in a loop without time passing.
    NoBusyLoop,
    /// After a phase without faults the cluster is as users requested.
    Converges,
    /// A core never panics.
    NoPanic,
    /// Two runs of a seed are identical.
    Deterministic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub detail: String,
}
