//! Checks each action of an agent against the order on its disk.
//!
//! Restarts count when the engine has performed them: an action that never reached the engine may be requested again.

use agent::core::io::{Action, Phase};
use contract::command::Removal;
use contract::digest::Digest;
use contract::labels::Identity;
use contract::pod_id::PodId;
use contract::record::Instance;
use contract::state::TargetState;
use testkit::engine::FakeEngine;
use testkit::store::FakeStore;

use crate::checks::checker::Checker;
use crate::checks::invariants::Invariant;
use crate::checks::model;
use crate::world::node_process::NodeProcess;

impl Checker {
    pub fn action_requested(&mut self, process: &NodeProcess, action: &Action, engine: &FakeEngine, store: &FakeStore) {
        let node = &process.owner.node;
        let is_to_stop = |pod: &PodId| {
            process.disk.order.pods.get(pod).is_some_and(|assignment| assignment.target == TargetState::Stop)
        };
        let id = match action {
            Action::Create { pod, .. } | Action::Replace { pod, .. } if is_to_stop(pod) => {
                return self.broken(Invariant::StoppedStaysStopped, format!("{node}: {action:?}"));
            }
            Action::Create { .. } | Action::ReadEnd { .. } => return,
            Action::Replace { old: id, .. }
            | Action::Update { id, .. }
            | Action::Start { id }
            | Action::Stop { id, .. }
            | Action::Remove { id, .. } => id,
        };
        let Some(container) = engine.containers.get(id) else { return };
        let Some(identity) = container.identity(&process.owner) else {
            return self
                .broken(Invariant::ForeignContainersUntouched, format!("{node}: {action:?} on {}", container.name()));
        };
        if let Some(detail) = touches_orphan(process, action, &identity, (store, self.ledger_is_old(process))) {
            return self.broken(Invariant::OrphansAreSpared, detail);
        }
        if matches!(action, Action::Update { .. }) {
            return;
        }
        if !matches!(action, Action::Start { .. }) {
            return self.check_stop(process, action, (id, &identity), (engine, store));
        }
        if is_to_stop(&identity.pod) {
            self.broken(Invariant::StoppedStaysStopped, format!("{node}: {action:?} on {}", identity.pod));
        }
    }

    /// The agent stops a container that the order wants running only for a restart, once per requested restart.
    fn check_stop(
        &mut self,
        process: &NodeProcess,
        action: &Action,
        (id, identity): (&str, &Identity),
        (engine, store): (&FakeEngine, &FakeStore),
    ) {
        let (node, order, pod) = (&process.owner.node, &process.disk.order, &identity.pod);
        let running = engine.containers.get(id).filter(|container| container.phase == Phase::Running);
        let (Some(container), Some(spec)) = (running, order.spec_of(pod)) else { return };
        let same = *container.limits_of == *Digest::of(spec.as_ref()).to_string();
        let is_live = order.pods.get(pod).is_some_and(|assignment| assignment.updated_to.is_some());
        let is_running = order.pods.get(pod).is_some_and(|assignment| assignment.target == TargetState::Run);
        if matches!(action, Action::Remove { .. } | Action::Replace { .. })
            && is_live
            && is_running
            && spec.containers.len() == 1
        {
            let detail = format!("{node}: {action:?} on {pod}, which is updated live");
            return self.broken(Invariant::LiveUpdatesKeepContainers, detail);
        }
        let wanted = order.pods.get(pod).filter(|assignment| same && assignment.target == TargetState::Run);
        let Some(requested) = wanted.map(|assignment| assignment.restarts_requested) else { return };
        let done = self.restarted.get(&(process.engine, id.to_owned())).copied().unwrap_or(0);
        if matches!(action, Action::Stop { .. }) && requested > done {
            return;
        }
        if matches!(action, Action::Stop { .. }) && requested == done && done > 0 {
            let detail = format!("{node}: {pod} ({id}) is ended once more for restart {done}");
            return self.broken(Invariant::OneRestartPerRequest, detail);
        }
        let duplicate = engine.inventory(&process.owner).iter().filter(|seen| seen.identity == *identity).count() > 1;
        if !duplicate && spec.containers.len() == 1 && model::is_placed(store, node, pod) {
            self.broken(Invariant::OrderedPodsAreNotStopped, format!("{node}: {action:?} on running {pod}"));
        }
    }

    /// The engine created or stopped a container: the restarts requested so far are done.
    pub fn action_done(&mut self, process: &NodeProcess, action: &Action, id: &str) {
        let place = (process.engine, id.to_owned());
        let pod = match action {
            Action::Create { pod, .. } | Action::Replace { pod, .. } => {
                // A late create of a dead agent finds the existing container and creates nothing.
                let is_new = self.pods_by_container.insert(place.clone(), pod.clone()).is_none();
                is_new.then_some(pod)
            }
            Action::Stop { .. } => self.pods_by_container.get(&place),
            Action::Update { .. } | Action::ReadEnd { .. } | Action::Start { .. } | Action::Remove { .. } => None,
        };
        let assignment = pod.and_then(|pod| process.disk.order.pods.get(pod));
        if let Some(assignment) = assignment.filter(|assignment| assignment.target == TargetState::Run) {
            self.restarted.insert(place, assignment.restarts_requested);
        }
    }
}

/// An action on a container of an orphaned group, known from the order on disk or from the store. An agent that lost its ledger is
/// excused until its next order.
fn touches_orphan(
    process: &NodeProcess,
    action: &Action,
    identity: &Identity,
    (store, ledger_is_old): (&FakeStore, bool),
) -> Option<String> {
    let (pod, node) = (&identity.pod, &process.owner.node);
    if process.disk.order.spared.contains(&pod.group) {
        return Some(format!("{node}: {action:?} on {pod}, which its order spares"));
    }
    let is_orphan = || {
        let record = store.group(&pod.group);
        record.is_some_and(|record| record.removal == Removal::Orphan)
    };
    let is_end = matches!(action, Action::Stop { .. } | Action::Remove { .. } | Action::Replace { .. });
    if !is_end || ledger_is_old || !is_orphan() {
        return None;
    }
    let placed = store.placement(&pod.group);
    let instance = placed.instances.get(usize::try_from(pod.instance).ok()?.checked_sub(1)?)?;
    let parked = |instance: &&Instance| {
        let is_it =
            (instance.named_version(), instance.drift, instance.node.as_ref()) == (pod.version, pod.drift, Some(node));
        is_it && instance.target == TargetState::Run && instance.restarts_requested == 0
    };
    instance.pods().find(parked).map(|_| format!("{node}: {action:?} on {pod}, which is an orphan"))
}
