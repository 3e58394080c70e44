//! Rollouts of the fake leader: every group is at revision 3, whose batch 1 waits to be confirmed.

use std::collections::BTreeMap;

use contract::command::{Refusal, RolloutAction};
use contract::record::RevisionOutcome;
use contract::rollout::StrategyType;
use contract::rollout_view::{
    InstanceChange, PlanView, RevisionView, RevisionsView, RolloutInstance, RolloutPhase, RolloutPod, RolloutStatus,
    RolloutUnit, RolloutView,
};
use contract::spec::PodGroupSpec;
use contract::time::Timestamp;

const CURRENT: u32 = 3;

/// Whether an action is fine: group 1 waits, group 2 is not there yet, revisions 1 to 3 are kept.
pub(super) fn say(group: &PodGroupSpec, release: Option<u32>, action: &RolloutAction) -> Result<(), Refusal> {
    if release.is_some_and(|release| release != CURRENT) {
        return Err(Refusal::ReleaseUnknown { release, current: Some(CURRENT) });
    }
    match action {
        RolloutAction::Confirm { group: 1 } => Ok(()),
        RolloutAction::Confirm { group: 2 } => Err(Refusal::NotWaiting { release: CURRENT, group: 1 }),
        RolloutAction::Confirm { group } | RolloutAction::Skip { group } if *group > 1 => {
            Err(Refusal::OtherBatch { release: CURRENT, asked: *group, current: 1 })
        }
        RolloutAction::Undo { revision: Some(revision), .. } if *revision > CURRENT => {
            Err(Refusal::RevisionUnknown { revision: Some(*revision), kept: vec![1, 2, 3] })
        }
        RolloutAction::Abort if group.name.starts_with("over") => Err(Refusal::ReleaseOver { release: CURRENT }),
        RolloutAction::Pause
        | RolloutAction::Resume
        | RolloutAction::Confirm { .. }
        | RolloutAction::Skip { .. }
        | RolloutAction::Abort
        | RolloutAction::Undo { .. }
        | RolloutAction::Freeze
        | RolloutAction::Unfreeze => Ok(()),
    }
}

/// Whether the group has such a gate.
pub(super) fn has_gate(group: &PodGroupSpec, gate: &str) -> Result<(), Refusal> {
    if group.readiness_gates.iter().any(|known| known == gate) {
        return Ok(());
    }
    let reason = format!("the PodGroup has no readiness gate {gate:?}; it has: {}", group.readiness_gates.join(", "));
    Err(Refusal::Unfit { reason })
}

pub(super) fn rollout(group: &PodGroupSpec) -> Box<RolloutView> {
    let pod = RolloutPod {
        revision: CURRENT,
        node: Some("n1".parse().unwrap()),
        ready: true,
        available: true,
        draining: false,
        gates: group.readiness_gates.iter().map(|gate| (gate.clone(), true)).collect(),
        ips: vec!["172.20.0.1".to_owned()],
        node_ports: vec![30_000],
        containers: vec!["c1".to_owned()],
        why: String::new(),
    };
    Box::new(RolloutView {
        name: group.name.clone(),
        release: CURRENT,
        strategy: group.strategy_type(),
        is_rollback: false,
        phase: RolloutPhase::WaitingForConfirm,
        status: RolloutStatus::WaitingForConfirm,
        message: "group 1 is done and waits to be confirmed".to_owned(),
        since: Timestamp::from_millis(1_700_000_001_000),
        replicas: group.num_instances,
        min_available: 0,
        max_total: group.num_instances,
        group: 1,
        groups: Vec::new(),
        units: vec![RolloutUnit { target: group.num_instances, ..RolloutUnit::default() }],
        waits_for: Vec::new(),
        instances: vec![RolloutInstance { instance: 1, unit: String::new(), pods: vec![pod] }],
        is_paused: group.paused,
        is_frozen: false,
        warnings: Vec::new(),
    })
}

pub(super) fn revisions(group: &PodGroupSpec) -> Box<RevisionsView> {
    let revision = RevisionView {
        revision: CURRENT,
        at: Timestamp::from_millis(1_700_000_001_000),
        by: "api-1".to_owned(),
        cause: "ticket 7".to_owned(),
        outcome: RevisionOutcome::Open,
        ended_at: Timestamp::NEVER,
        copies: None,
        instances: 1,
        pod: group.pod.clone(),
    };
    Box::new(RevisionsView { name: group.name.clone(), current: CURRENT, revisions: vec![revision] })
}

/// What a spec would do to the group there is, if there is one.
pub(super) fn plan(spec: &PodGroupSpec, known: Option<&PodGroupSpec>) -> Result<Box<PlanView>, Refusal> {
    if spec.name.starts_with("removing") {
        return Err(Refusal::GroupRemoving);
    }
    if spec.name.starts_with("unfit") {
        return Err(Refusal::Unfit { reason: "InPlaceOnly, but Pod.Containers[0].Env changes".to_owned() });
    }
    let change = if known.is_some() { InstanceChange::Recreated } else { InstanceChange::Created };
    Ok(Box::new(PlanView {
        name: spec.name.clone(),
        release: if known.is_some() { CURRENT + 1 } else { 0 },
        strategy: StrategyType::RollingUpdate,
        is_new: known.is_none(),
        steps: Vec::new(),
        changes: BTreeMap::from([(1, change)]),
        peak_extra_pods: 1,
        peak_extra_memory: 0,
        peak_extra_cpu_millis: 0,
        min_available: BTreeMap::from([(String::new(), 1)]),
        unplaced: Vec::new(),
        completes: true,
        warnings: Vec::new(),
        notes: Vec::new(),
    }))
}
