//! One value of every message about rollouts; together they contain every optional field.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::{Decision, Refusal, Removal, RolloutAction, Verb};
use contract::order::{Assignment, Fetch, Order};
use contract::query::{Answer, Query};
use contract::record::{
    Draining, Fetching, GroupRecord, Instance, PlacementRecord, Presence, RevisionOutcome, RevisionRecord,
    RevisionsRecord,
};
use contract::report::{FetchState, Fetched, PodFacts};
use contract::rollout::{
    Amount, AutoReschedule, Drain, FailBack, FailureAction, PodReplacement, Spread, Strategy, StrategyType, Topology,
    UnitType, UpdatePolicy,
};
use contract::rollout_view::{
    InstanceChange, PlanAction, PlanStep, PlanView, RevisionView, RevisionsView, RolloutGroup, RolloutInstance,
    RolloutPhase, RolloutPod, RolloutStatus, RolloutUnit, RolloutView, Unplaced,
};
use contract::spec::PodGroupSpec;
use contract::time::Timestamp;

use crate::samples::{self, at, name, pod};

fn text(text: &str) -> String {
    text.to_owned()
}
fn by_unit(a: i64, b: i64) -> BTreeMap<String, i64> {
    BTreeMap::from([(text("a"), a), (text("b"), b)])
}

/// A group with all rollout fields.
pub(crate) fn spec() -> PodGroupSpec {
    PodGroupSpec {
        num_instances: 10,
        strategy: Some(Strategy {
            kind: StrategyType::Beta,
            batch_size: Some(Amount::Percent(40)),
            need_waiting_for_confirm: true,
            window: Some(2),
            ..Strategy::default()
        }),
        topology: Some(Topology {
            unit_type: UnitType::Zone,
            unit_label: text("zone"),
            values: vec![text("a"), text("b")],
            unit_replicas: BTreeMap::from([(text("a"), Amount::Count(4))]),
            auto_reschedule: Some(AutoReschedule {
                enable: true,
                initial_delay_seconds: 30,
                fail_back: FailBack::Eager,
            }),
            spread: Spread::Even,
        }),
        min_ready_seconds: Some(5),
        progress_deadline_seconds: Some(120),
        revision_history_limit: Some(3),
        paused: true,
        update_policy: UpdatePolicy::InPlaceIfPossible,
        failure_action: Some(FailureAction::Rollback),
        failure_threshold: Some(Amount::Count(1)),
        fail_fast_restarts: Some(2),
        readiness_gates: vec![text("lb/in-rotation")],
        drain: Some(Drain { grace_seconds: 10, needs_answer: true, timeout_seconds: Some(60) }),
        ..samples::spec()
    }
}

/// The fields that only a rolling update uses.
pub(crate) fn rolling_spec() -> PodGroupSpec {
    PodGroupSpec {
        strategy: Some(Strategy {
            kind: StrategyType::RollingUpdate,
            max_surge: Some(Amount::Percent(25)),
            max_unavailable: Some(Amount::Count(0)),
            ..Strategy::default()
        }),
        pod_replacement: Some(PodReplacement::Complete),
        ..samples::spec()
    }
}

/// The field that only a serial upgrade uses.
pub(crate) fn paused_spec() -> PodGroupSpec {
    PodGroupSpec { strategy: Some(Strategy { upgrade_pause: 10, ..Strategy::default() }), ..samples::spec() }
}

pub(crate) fn verbs() -> Vec<(&'static str, Verb)> {
    let group = || name("hello.web.web");
    let say = |action| Verb::Rollout { name: group(), release: Some(3), action };
    let fields = serde_json::json!({"Strategy": {"Type": "Batch", "BatchSize": "10%"}, "MinReadySeconds": null});
    let serde_json::Value::Object(fields) = fields else { unreachable!("it is written as an object") };
    vec![
        ("create-group-released", Verb::CreateGroup { spec: Box::new(spec()) }),
        ("create-group-rolling", Verb::CreateGroup { spec: Box::new(rolling_spec()) }),
        ("remove-group-background", Verb::RemoveGroup { name: group(), removal: Removal::Background }),
        ("remove-group-orphan", Verb::RemoveGroup { name: group(), removal: Removal::Orphan }),
        (
            "patch-spec-cause",
            Verb::PatchSpec { name: group(), pod: Box::new(samples::spec().pod), cause: text("ticket 7") },
        ),
        ("patch-strategy", Verb::PatchStrategy { name: group(), fields }),
        ("rollout-pause", Verb::Rollout { name: group(), release: None, action: RolloutAction::Pause }),
        ("rollout-resume", say(RolloutAction::Resume)),
        ("rollout-confirm", say(RolloutAction::Confirm { group: 1 })),
        ("rollout-skip", say(RolloutAction::Skip { group: 2 })),
        ("rollout-abort", say(RolloutAction::Abort)),
        ("rollout-undo", say(RolloutAction::Undo { revision: None, cause: String::new() })),
        ("rollout-undo-to", say(RolloutAction::Undo { revision: Some(1), cause: text("it leaks") })),
        ("rollout-freeze", say(RolloutAction::Freeze)),
        ("rollout-unfreeze", say(RolloutAction::Unfreeze)),
        (
            "set-gate",
            Verb::SetGate { name: group(), instance: 2, gate: text("lb/in-rotation"), is_true: true, version: Some(3) },
        ),
        ("drained", Verb::Drained { name: group(), instance: 2 }),
    ]
}

pub(crate) fn decisions() -> Vec<(&'static str, Decision)> {
    [
        ("release-unknown", Refusal::ReleaseUnknown { release: Some(2), current: Some(3) }),
        ("release-over", Refusal::ReleaseOver { release: 3 }),
        ("not-waiting", Refusal::NotWaiting { release: 3, group: 1 }),
        ("other-group", Refusal::OtherBatch { release: 3, asked: 1, current: 2 }),
        ("revision-unknown", Refusal::RevisionUnknown { revision: Some(1), kept: vec![2, 3] }),
        ("unfit", Refusal::Unfit { reason: text("the PodGroup has no readiness gate \"x\"; it has: lb/in-rotation") }),
    ]
    .into_iter()
    .map(|(name, refusal)| (name, Decision::Refused(refusal)))
    .collect()
}

/// One pod updated in place, one with reserved addresses, and one that will be replaced.
pub(crate) fn in_place_order() -> Order {
    let (before, _) = samples::orders();
    let (live, same) = (pod("hello.web.web.v0-i1-d0"), pod("hello.web.web.v1-i2-d0"));
    let outdated = pod("hello.web.web.v0-i3-d0");
    let updated = Assignment { updated_to: Some(1), ..Assignment::default() };
    let leased = Assignment { addresses: vec![text("172.20.0.2")], ..Assignment::default() };
    let fetch = Fetch { version: 1, images: BTreeSet::from([text("hello:v2")]) };
    let replaced = Assignment { fetch: Some(fetch), ..Assignment::default() };
    let pods = BTreeMap::from([(live, updated), (same, leased), (outdated, replaced)]);
    Order { pods, specs: BTreeMap::new(), ..before }
}

pub(crate) fn pod_facts() -> PodFacts {
    PodFacts { healthy_since: at(4), image_is_hopeless: true, fetched: Some(fetched()), ..samples::running() }
}

fn fetched() -> Fetched {
    Fetched { version: 1, state: FetchState::Hopeless, error: text("manifest unknown") }
}

pub(crate) fn queries() -> Vec<(&'static str, Query)> {
    vec![
        ("rollout", Query::Rollout { name: name("hello.web.web") }),
        ("revisions", Query::Revisions { name: name("hello.web.web") }),
        ("plan", Query::Plan { spec: Box::new(spec()), within_millis: None }),
        ("plan-within", Query::Plan { spec: Box::new(spec()), within_millis: Some(3_000) }),
    ]
}

pub(crate) fn answers() -> Vec<(&'static str, Answer)> {
    vec![
        ("rollout", Answer::Rollout(Some(Box::new(rollout_view())))),
        ("rollout-unknown", Answer::Rollout(None)),
        ("revisions", Answer::Revisions(Some(Box::new(revisions_view())))),
        ("revisions-unknown", Answer::Revisions(None)),
        ("plan", Answer::Plan(Ok(Box::new(plan_view())))),
        ("plan-refused", Answer::Plan(Err(Refusal::GroupRemoving))),
    ]
}

pub(crate) fn rollout_view() -> RolloutView {
    let serves = RolloutPod {
        revision: 2,
        node: Some(name("node1")),
        ready: true,
        available: true,
        draining: true,
        gates: BTreeMap::from([(text("lb/in-rotation"), true)]),
        ips: vec![text("172.20.0.2")],
        node_ports: vec![32_768],
        containers: vec![text("c680afaba34e")],
        why: String::new(),
    };
    let comes = RolloutPod {
        revision: 3,
        node: None,
        ready: false,
        available: false,
        draining: false,
        gates: BTreeMap::from([(text("lb/in-rotation"), false)]),
        ips: Vec::new(),
        node_ports: Vec::new(),
        containers: Vec::new(),
        why: text("no node fits: node1: memory 1 MiB short"),
    };
    let group = |ordinal, kind: &str, state: &str| RolloutGroup {
        ordinal,
        kind: text(kind),
        state: text(state),
        units: by_unit(1, 1),
    };
    RolloutView {
        name: text("hello.web.web"),
        release: 3,
        strategy: StrategyType::Beta,
        is_rollback: false,
        phase: RolloutPhase::WaitingForConfirm,
        status: RolloutStatus::WaitingForConfirm,
        message: text("group 1 of release 3 is done and waits to be confirmed"),
        since: at(9),
        replicas: 10,
        min_available: 0,
        max_total: 10,
        group: 1,
        groups: vec![group(1, "Beta", "Done"), group(2, "Batch", "ToCome")],
        units: vec![RolloutUnit {
            name: text("a"),
            target: 4,
            committed: 1,
            updated: 1,
            updated_available: 1,
            available: 4,
            unplaced: 1,
        }],
        waits_for: vec![2],
        instances: vec![RolloutInstance { instance: 1, unit: text("a"), pods: vec![serves, comes] }],
        is_paused: true,
        is_frozen: true,
        warnings: vec![text("unit a gets fewer than it wants")],
    }
}

pub(crate) fn revisions_view() -> RevisionsView {
    let revision = RevisionView {
        revision: 3,
        at: at(9),
        by: text("api-1"),
        cause: text("ticket 7"),
        outcome: RevisionOutcome::Open,
        ended_at: Timestamp::NEVER,
        copies: Some(1),
        instances: 2,
        pod: samples::spec().pod,
    };
    RevisionsView { name: text("hello.web.web"), current: 3, revisions: vec![revision] }
}

pub(crate) fn plan_view() -> PlanView {
    let action = |instance, action: &str| PlanAction { instance, action: text(action), unit: text("a") };
    let step = PlanStep {
        group: 1,
        kind: text("Beta"),
        actions: vec![action(1, "Surge"), action(1, "Promote")],
        available: by_unit(4, 6),
    };
    let changes = [
        InstanceChange::Untouched,
        InstanceChange::InPlace,
        InstanceChange::Recreated,
        InstanceChange::Moved,
        InstanceChange::Created,
        InstanceChange::Removed,
    ]
    .into_iter();
    let reasons = BTreeMap::from([(name("node1"), vec![text("memory 1 MiB short")])]);
    PlanView {
        name: text("hello.web.web"),
        release: 3,
        strategy: StrategyType::Beta,
        is_new: false,
        steps: vec![step],
        changes: (1..).zip(changes).collect(),
        peak_extra_pods: 1,
        peak_extra_memory: 33_554_432,
        peak_extra_cpu_millis: 500,
        min_available: by_unit(3, 6),
        unplaced: vec![Unplaced { instance: 5, unit: text("a"), nodes: reasons }],
        completes: true,
        warnings: vec![text("unit a gets fewer than it wants")],
        notes: Vec::new(),
    }
}

pub(crate) fn orphan_record() -> GroupRecord {
    GroupRecord { removal: Removal::Orphan, operation: None, ..samples::group_record() }
}

/// Every state of an instance during a rollout.
pub(crate) fn placement_record() -> PlacementRecord {
    let next = Instance { version: 3, node: Some(name("node2")), ..Instance::default() };
    let surging = Instance {
        version: 2,
        node: Some(name("node1")),
        unit: text("a"),
        gates: BTreeMap::from([(text("lb/in-rotation"), at(8))]),
        draining: Some(Draining { since: at(9), is_answered: true, is_final: true }),
        next: Some(Box::new(next)),
        ..Instance::default()
    };
    let live = Instance { version: 3, created_from: Some(2), node: Some(name("node1")), ..Instance::default() };
    let leased = Instance {
        version: 3,
        reserved_addresses: vec![text("172.20.0.2")],
        unplaced_since: at(9),
        ..Instance::default()
    };
    let fetching = Fetching { version: 3, since: at(9) };
    let fetching = Instance { version: 2, node: Some(name("node1")), fetching: Some(fetching), ..Instance::default() };
    let retired = Instance { presence: Presence::Vacant, ..Instance::default() };
    let nothing = Instance { presence: Presence::Free, ..Instance::default() };
    PlacementRecord { instances: vec![surging, live, leased, fetching, retired, nothing, Instance::default()] }
}

pub(crate) fn revisions_record() -> RevisionsRecord {
    let first = RevisionRecord {
        number: 0,
        at: at(1),
        by: text("api-1"),
        cause: String::new(),
        pod: samples::spec().pod,
        copies: None,
        outcome: RevisionOutcome::Completed,
        ended_at: at(5),
    };
    let outcomes = [RevisionOutcome::RolledBack, RevisionOutcome::Superseded, RevisionOutcome::Aborted];
    let mut revisions = vec![first.clone()];
    revisions.extend((1..).zip(outcomes).map(|(number, outcome)| RevisionRecord { number, outcome, ..first.clone() }));
    revisions.push(RevisionRecord {
        number: 4,
        by: String::new(),
        cause: text("it leaks"),
        copies: Some(0),
        outcome: RevisionOutcome::Open,
        ended_at: Timestamp::NEVER,
        ..first
    });
    RevisionsRecord { revisions }
}

/// The names that the samples cover.
pub(crate) fn said(spec: &PodGroupSpec) -> BTreeSet<String> {
    match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(members)) => members.keys().cloned().collect(),
        other => panic!("a spec is an object: {other:?}"),
    }
}
