//! The keys that control how a change reaches the instances.

use super::ChoiceValue::Word;
use super::KeyKind::{self, Amount, Amounts, Choice, Flag, Number as Count, Seconds, Section, Text, Words};
use super::{ShortKey, key};

const STRATEGY: KeyKind = Choice(&[
    ("rolling", Word("RollingUpdate")),
    ("batch", Word("Batch")),
    ("beta", Word("Beta")),
    ("recreate", Word("Recreate")),
    ("serial", Word("Serial")),
]);
const UNIT_TYPE: KeyKind = Choice(&[("cell", Word("Cell")), ("zone", Word("Zone")), ("none", Word("None"))]);
const SPREAD: KeyKind =
    Choice(&[("proportional", Word("Proportional")), ("even", Word("Even")), ("sequential", Word("Sequential"))]);
const FAIL_BACK: KeyKind = Choice(&[("lazy", Word("Lazy")), ("eager", Word("Eager"))]);
const FAILURE: KeyKind =
    Choice(&[("rollback", Word("Rollback")), ("hold", Word("Hold")), ("continue", Word("Continue"))]);
const REPLACEMENT: KeyKind = Choice(&[("started", Word("Started")), ("complete", Word("Complete"))]);
const UPDATE: KeyKind = Choice(&[
    ("recreate", Word("ReCreate")),
    ("in-place", Word("InPlaceIfPossible")),
    ("in-place-only", Word("InPlaceOnly")),
]);

pub(super) const ROLLOUT: [ShortKey; 32] = [
    key("strategy", "Strategy", Section(Some("type")), "How a change is rolled out: a word, or a mapping with its settings.")
        .absent("`rolling`; a group that exists keeps its own if the other settings allow it")
        .example("{type: batch, size: 2}")
        .also(&["updateStrategy", "update_config"]),
    key("strategy.type", "Strategy.Type", STRATEGY, "`rolling`: within `maxSurge` and `maxUnavailable`. `batch`: batch by batch. `beta`: the same, and the first batch is one instance of every unit. `recreate`: all old pods stop first. `serial`: one instance after the other.")
        .absent("`rolling`")
        .example("batch")
        .also(&["kind"]),
    key("strategy.maxSurge", "Strategy.MaxSurge", Amount, "Pods above the desired number during a rollout.")
        .absent("25%; 0 when the pod keeps data")
        .rules("`rolling` only; not above 0 when the pod keeps data")
        .example("1"),
    key("strategy.maxUnavailable", "Strategy.MaxUnavailable", Amount, "Pods of the desired number that may be unavailable during a rollout.")
        .absent("25%")
        .rules("`rolling` only; at most 100%; not 0 where there is no surge")
        .example("25%"),
    key("strategy.size", "Strategy.BatchSize", Amount, "Instances of a batch.")
        .absent("1")
        .rules("`batch` and `beta` only; from 1, or 1% to 100%")
        .example("2")
        .also(&["batchSize"]),
    key("strategy.confirm", "Strategy.NeedWaitingForConfirm", Flag, "The rollout waits for `deployctl rollout confirm` after each batch but the last.")
        .absent("false")
        .rules("`batch` and `beta` only")
        .example("true")
        .also(&["needWaitingForConfirm", "approve"]),
    key("strategy.confirmFirst", "Strategy.ConfirmFirstDeployment", Flag, "With `confirm`, the first deployment waits too.")
        .absent("false")
        .example("true")
        .also(&["confirmFirstDeployment"]),
    key("strategy.window", "Strategy.Window", Count, "Updated pods of one unit that may be not yet available.")
        .absent("no limit")
        .rules("`batch` and `beta` only")
        .example("2"),
    key("strategy.pause", "Strategy.UpgradePause", Seconds, "The time between the end of an old pod and the start of the new one.")
        .absent("0s")
        .rules("`serial` only")
        .example("10s")
        .also(&["upgradePause"]),
    key("minReady", "MinReadySeconds", Seconds, "How long an instance must be ready to count as available.")
        .absent("10s, at most half of `progressDeadline`")
        .rules("needs another `strategy` than `serial`")
        .example("5s")
        .also(&["minReadySeconds"]),
    key("progressDeadline", "ProgressDeadlineSeconds", Seconds, "How long a rollout may make no progress before it has failed.")
        .absent("10m")
        .rules("more than `minReady`; needs another `strategy` than `serial`")
        .example("5m")
        .also(&["progressDeadlineSeconds", "deadline"]),
    key("onFailure", "FailureAction", FAILURE, "What happens after a rollout failed: back to the last revision that completed, pause, or continue without the failed pods.")
        .absent("`rollback`")
        .rules("needs another `strategy` than `serial`, but for `hold`")
        .example("hold")
        .also(&["failureAction", "failure_action"]),
    key("failureThreshold", "FailureThreshold", Amount, "Pods of a batch that may be unavailable at the deadline.")
        .absent("0")
        .rules("at most 100%; needs another `strategy` than `serial`")
        .example("10%"),
    key("failFastRestarts", "FailFastRestarts", Count, "Restarts after which a new pod has failed.")
        .absent("3")
        .rules("needs another `strategy` than `serial`")
        .example("5"),
    key("revisionHistory", "RevisionHistoryLimit", Count, "Earlier revisions to keep.")
        .absent("10")
        .example("20")
        .also(&["revisionHistoryLimit"]),
    key("updatePolicy", "UpdatePolicy", UPDATE, "Whether a pod is replaced, changed in place where that is possible, or changed in place only.")
        .absent("`recreate`")
        .rules("in place with `rolling`, `batch` and `beta` only")
        .example("in-place"),
    key("podReplacement", "PodReplacement", REPLACEMENT, "When a terminating pod stops to count: as soon as it terminates, or when it is gone.")
        .absent("`complete` without surge, else `started`")
        .rules("`started` with `rolling` only")
        .example("complete"),
    key("readinessGates", "ReadinessGates", Words, "Names of booleans that an external system sets. An instance is ready only when all of them are true.")
        .absent("none")
        .rules("at most 16; needs another `strategy` than `serial`")
        .example("[load-balancer]")
        .also(&["gates"]),
    key("drain", "Drain", Section(None), "How an instance is drained before its pod is replaced or removed.")
        .absent("it is not drained")
        .rules("needs another `strategy` than `serial`")
        .example("{grace: 10s}"),
    key("drain.grace", "Drain.GraceSeconds", Seconds, "How long the instance is reported as not ready before its pod stops.")
        .absent("0s")
        .example("10s")
        .also(&["graceSeconds"]),
    key("drain.confirm", "Drain.NeedsAnswer", Flag, "The rollout waits for `deployctl drained`.")
        .absent("false")
        .example("true")
        .also(&["needsAnswer"]),
    key("drain.timeout", "Drain.TimeoutSeconds", Seconds, "How long the rollout waits for it before it fails.")
        .absent("5m, at most half of `progressDeadline`")
        .rules("with `drain.confirm` or `readinessGates` only")
        .example("2m")
        .also(&["timeoutSeconds"]),
    key("units", "Topology", Section(None), "The deployment units that the instances are divided over, such as cells or zones.")
        .absent("none")
        .rules("needs another `strategy` than `serial`")
        .example("{label: cell, values: [cell-a, cell-b]}")
        .also(&["topology"]),
    key("units.label", "Topology.UnitLabel", Text, "The node label whose value names the unit.").absent("`cell`").example("zone"),
    key("units.type", "Topology.UnitType", UNIT_TYPE, "What a unit is. `label` alone is enough.")
        .absent("`zone` for the label `zone`, else `cell`")
        .example("zone"),
    key("units.values", "Topology.Values", Words, "The units; their order breaks ties.")
        .absent("required")
        .rules("1 to 64, none twice")
        .example("[cell-a, cell-b]"),
    key("units.replicas", "Topology.UnitReplicas", Amounts, "Instances of single units; the other units share the rest.")
        .absent("even shares")
        .rules("only units of `values`, at most 100% each")
        .example("{cell-a: 2, cell-b: 50%}"),
    key("units.spread", "Topology.Spread", SPREAD, "How the instances of a batch are divided over units.")
        .absent("`proportional`")
        .rules("another than the default with `batch` and `beta` only")
        .example("even"),
    key("units.reschedule", "Topology.AutoReschedule", Section(None), "Whether instances move to another unit when theirs has no room.")
        .absent("they do not move")
        .example("{enable: true, after: 1m}")
        .also(&["autoReschedule"]),
    key("units.reschedule.enable", "Topology.AutoReschedule.Enable", Flag, "Turns it on.").absent("false").example("true"),
    key("units.reschedule.after", "Topology.AutoReschedule.InitialDelaySeconds", Seconds, "How long a pod must be unschedulable.")
        .absent("0s")
        .example("1m")
        .also(&["initialDelay"]),
    key("units.reschedule.failBack", "Topology.AutoReschedule.FailBack", FAIL_BACK, "When they return: with the next rollout or scaling, or as soon as there is room.")
        .absent("`lazy`")
        .example("eager"),
];
