//! Whether what an agent asks its engine for is right, given the order on its disk.
//!
//! What an engine did is noted when it is done: a step that never reached it may be asked for again.

use agent::core::io::{Phase, Step};
use contract::digest::Digest;
use contract::labels::{self, Identity};
use contract::pod_id::PodId;
use contract::state::TargetState;

use crate::engine::Engine;
use crate::invariants::{Invariant, Watch};
use crate::machine::Machine;
use crate::model;
use crate::store::Store;

impl Watch {
    /// An agent asks its engine for a step.
    pub fn working(&mut self, machine: &Machine, step: &Step, engine: &Engine, store: &Store) {
        let node = &machine.owner.node;
        let is_to_stop = |pod: &PodId| {
            machine.disk.order.pods.get(pod).is_some_and(|assignment| assignment.target == TargetState::Stop)
        };
        let id = match step {
            Step::Create { pod, .. } if is_to_stop(pod) => {
                return self.broken(Invariant::StoppedStaysStopped, format!("{node}: {step:?}"));
            }
            Step::Create { .. } => return,
            Step::Start { id } | Step::Stop { id, .. } | Step::Remove { id, .. } => id,
        };
        let Some(container) = engine.containers.get(id) else { return };
        let Some(identity) = labels::identify(&machine.owner, |key| container.labels.get(key).map(String::as_str))
        else {
            return self.broken(Invariant::ForeignersUntouched, format!("{node}: {step:?} on {}", container.name));
        };
        if !matches!(step, Step::Start { .. }) {
            return self.ending(machine, step, (id, &identity), (engine, store));
        }
        if is_to_stop(&identity.pod) {
            self.broken(Invariant::StoppedStaysStopped, format!("{node}: {step:?} on {}", identity.pod));
        }
    }

    /// A container that is wanted as it is ends only for a restart, and only once for each.
    fn ending(
        &mut self,
        machine: &Machine,
        step: &Step,
        (id, identity): (&str, &Identity),
        (engine, store): (&Engine, &Store),
    ) {
        let (node, order, pod) = (&machine.owner.node, &machine.disk.order, &identity.pod);
        let running = engine.containers.get(id).filter(|container| container.phase == Phase::Running);
        let (Some(container), Some(spec)) = (running, order.specs.get(&pod.spec_key())) else { return };
        let same = container.labels.get(labels::SPEC_DIGEST) == Some(&Digest::of(spec.as_ref()).to_string());
        let wanted = order.pods.get(pod).filter(|assignment| same && assignment.target == TargetState::Run);
        let Some(asked) = wanted.map(|assignment| assignment.restarts_asked) else { return };
        let done = self.restarted.get(&(machine.engine, id.to_owned())).copied().unwrap_or(0);
        if matches!(step, Step::Stop { .. }) && asked > done {
            return;
        }
        if matches!(step, Step::Stop { .. }) && asked == done && done > 0 {
            let detail = format!("{node}: {pod} ({id}) is ended once more for restart {done}");
            return self.broken(Invariant::RestartedOncePerAsk, detail);
        }
        let twin = engine.inventory(&machine.owner).iter().filter(|seen| seen.identity == *identity).count() > 1;
        if !twin && spec.containers.len() == 1 && model::is_placed(store, node, pod) {
            self.broken(Invariant::WantedIsLeftAlone, format!("{node}: {step:?} on running {pod}"));
        }
    }

    /// An engine made or ended a container as its agent asked: what was asked of its restarts until now is done.
    pub fn worked(&mut self, machine: &Machine, step: &Step, id: &str) {
        let place = (machine.engine, id.to_owned());
        let pod = match step {
            Step::Create { pod, .. } => {
                self.pods_by_container.insert(place.clone(), pod.clone());
                Some(pod)
            }
            Step::Stop { .. } => self.pods_by_container.get(&place),
            Step::Start { .. } | Step::Remove { .. } => None,
        };
        let assignment = pod.and_then(|pod| machine.disk.order.pods.get(pod));
        if let Some(assignment) = assignment.filter(|assignment| assignment.target == TargetState::Run) {
            self.restarted.insert(place, assignment.restarts_asked);
        }
    }
}
