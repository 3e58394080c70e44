//! How a rollout must end when there have been no faults for a while.

use contract::keys;
use contract::name::GroupName;
use contract::pod_id::PodId;
use contract::record::{GroupRecord, Instance, Presence};
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;

use crate::checks::convergence::LARGE;
use crate::workload::specs;
use crate::world::World;

impl World {
    /// A rollout that could have completed and did not, or ended in the wrong state.
    pub(crate) fn rollout_flaw(
        &self,
        name: &GroupName,
        record: &GroupRecord,
        instances: &[(u32, &Instance)],
    ) -> Option<String> {
        let Some(release) = self.store.read::<RolloutState>(&keys::release(name)) else {
            return Some(format!("{name} has no rollout"));
        };
        let is_at_target =
            |instance: &Instance| release.target == instance.version || record.equals.contains(&instance.version);
        let is_done = |(_, instance): &(u32, &Instance)| {
            instance.presence == Presence::Pod && instance.next.is_none() && is_at_target(instance)
        };
        let is_sound = specs::is_sound(&record.spec.pod) && record.spec.pod.memory() <= LARGE;
        let is_down = |(number, instance): &(u32, &Instance)| {
            let may_be = |instance: &Instance| {
                let (node, version) = (instance.node.as_ref()?, instance.named_version());
                let pod = PodId { group: name.clone(), instance: *number, version, drift: instance.drift };
                Some(self.may_be_down(node, &pod, record.spec.restart_policy))
            };
            instance.pods().filter_map(may_be).any(|may_be| may_be)
        };
        if release.target != record.spec.version {
            return Some(format!("{name} is at {} and its rollout leads to {}", record.spec.version, release.target));
        }
        match release.phase {
            RolloutPhase::Completed if instances.iter().all(is_done) => None,
            RolloutPhase::Completed => Some(format!("{name} completed its rollout and has {instances:?}")),
            RolloutPhase::Aborted => None,
            RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm => {
                let is_free = is_sound && !instances.iter().any(is_down);
                is_free.then(|| format!("{name} still has an open rollout: {release:?} {instances:?}"))
            }
        }
    }
}
