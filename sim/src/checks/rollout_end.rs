//! How a release must have ended when everything has been calm for a while.

use contract::keys;
use contract::name::GroupName;
use contract::pod_id::PodId;
use contract::record::{Filling, GroupRecord, Slot};
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;

use crate::checks::convergence::MUCH;
use crate::workload::specs;
use crate::world::World;

impl World {
    /// A release that could have come to an end and did not, or did not end as it should.
    pub(crate) fn release_flaw(
        &self,
        name: &GroupName,
        record: &GroupRecord,
        instances: &[(u32, &Slot)],
    ) -> Option<String> {
        let Some(release) = self.store.read::<RolloutState>(&keys::release(name)) else {
            return Some(format!("{name} has no release"));
        };
        let is_at_target = |slot: &Slot| release.target == slot.version || record.equals.contains(&slot.version);
        let is_done =
            |(_, slot): &(u32, &Slot)| slot.filling == Filling::Pod && slot.next.is_none() && is_at_target(slot);
        let is_sound = specs::is_sound(&record.spec.pod) && record.spec.pod.memory() <= MUCH;
        let is_down = |(instance, slot): &(u32, &Slot)| {
            let may_be = |slot: &Slot| {
                let (node, version) = (slot.node.as_ref()?, slot.named_version());
                let pod = PodId { group: name.clone(), instance: *instance, version, drift: slot.drift };
                Some(self.may_be_down(node, &pod, record.spec.restart_policy))
            };
            slot.pods().filter_map(may_be).any(|may_be| may_be)
        };
        if release.target != record.spec.version {
            return Some(format!("{name} is at {} and its release leads to {}", record.spec.version, release.target));
        }
        match release.phase {
            RolloutPhase::Completed if instances.iter().all(is_done) => None,
            RolloutPhase::Completed => Some(format!("{name} is released and has {instances:?}")),
            RolloutPhase::Aborted => None,
            RolloutPhase::Idle | RolloutPhase::Running | RolloutPhase::WaitingForConfirm => {
                let is_free = is_sound && !instances.iter().any(is_down);
                is_free.then(|| format!("{name} is still being released: {release:?} {instances:?}"))
            }
        }
    }
}
