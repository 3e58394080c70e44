//! Recreate rollouts: all old pods stop before the first new pod starts.
//!
//! The main pods of other revisions retire together; when no pod is terminating, each instance without a pod gets one. The
//! second half happens during a pause too: a pause must not keep a group down.

use super::decision::RolloutAction;
use super::draft::{Draft, count, pods};
use super::facts::Instance;
use crate::rollout::numbers::sum;
use crate::rollout::recreate::{self, OldSet, RecreateStep};

pub(super) fn recreate(draft: &mut Draft<'_>) {
    if draft.facts.is_blind {
        // Until all nodes have reported, no new pod may start; so no old pod stops either.
        return;
    }
    // Twice: after pods that were never created there is nothing to wait for.
    step(draft);
    step(draft);
}

fn step(draft: &mut Draft<'_>) {
    let old = count(draft.running().flat_map(pods).filter(|pod| draft.is_old(pod)));
    let new = count(draft.running().filter(|instance| draft.is_updated(instance)));
    let leaving = sum(draft.instances.iter().map(|instance| instance.leaving).chain([draft.terminating_removed]));
    let wanted = count(draft.running());
    match recreate::step(wanted, (new > 0).then_some(new), &[OldSet { spec: old, actual: leaving }]) {
        RecreateStep::ScaleOldToZero if !draft.state.is_held() => retire(draft),
        RecreateStep::CreateNew(_) | RecreateStep::ScaleNew(_) => fill(draft),
        RecreateStep::ScaleOldToZero | RecreateStep::WaitForOldPods | RecreateStep::Nothing => {}
    }
}

fn retire(draft: &mut Draft<'_>) {
    let instances: Vec<Instance> = draft.running().cloned().collect();
    for instance in instances {
        let next_is_old = instance.next.as_ref().map(|next| draft.is_old(&next.pod));
        let main_is_old = instance.main.as_ref().is_some_and(|main| draft.is_old(main));
        match next_is_old {
            Some(true) => draft.perform(RolloutAction::Drop(instance.number)),
            // The surge pod of an earlier rolling update already runs the target revision.
            Some(false) if main_is_old => draft.perform(RolloutAction::Promote(instance.number)),
            Some(false) | None => {}
        }
        if main_is_old && next_is_old != Some(false) {
            draft.perform(RolloutAction::Retire(instance.number));
        }
    }
}

fn fill(draft: &mut Draft<'_>) {
    let open: Vec<u32> =
        draft.running().filter(|instance| instance.main.is_none()).map(|instance| instance.number).collect();
    open.into_iter().for_each(|number| draft.fill(number));
}
