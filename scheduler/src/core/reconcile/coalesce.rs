//! Decides which reports of a group that comes up lead to a plan: the last one, and whatever was not expected.
//!
//! A plan looks at every instance, so a thousand of them are not all looked at for each one that runs. A look in between is for
//! whoever is missing. The surprise: it is put off while the group gets on, because a cluster that is made all at once has
//! thousands of groups that are neither there nor stuck, and looking at all of them again and again would be most of its work.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::Operation;
use contract::name::GroupName;
use contract::report::PodFacts;
use contract::state::RunState;

use crate::core::leader::Leading;
use crate::core::observe::reports::PodChange;
use crate::core::state::Group;
use crate::core::timers::Timer;

/// A group that is coming up is looked at so often if it does not get on.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// It gets on when this part of its instances came to something since the last look, so a look is put off as often at most.
const PARTS: usize = 10;

/// How many instances of a group had come to something when it was last to be looked at.
pub(in crate::core) type Coalesced = BTreeMap<GroupName, usize>;

/// A node reported a pod. One more of a group that is coming up, as was expected, leads to nothing before the last of
/// them is there.
pub(in crate::core) fn pod_reported(leading: &mut Leading<'_>, change: &PodChange) {
    let name = change.pod.group.clone();
    match leading.state.groups.get(&name) {
        Some(group) if is_starting(group) && is_expected(change) => {
            if leading.reports.arrived(&name) < group.slots().len() {
                return leading.lead.timers.set_once(Timer::Coalesced(name), leading.now + LOOK_EVERY);
            }
        }
        Some(_) | None => {}
    }
    leading.reconcile_soon(name);
}

/// The time has come to look at a group that was coming up.
pub(in crate::core) fn check_coalesced(leading: &mut Leading<'_>, name: GroupName) {
    let Some(group) = leading.state.groups.get(&name).filter(|group| is_starting(group)) else {
        leading.lead.coalesced.remove(&name);
        return;
    };
    let (arrived, instances) = (leading.reports.arrived(&name), group.slots().len());
    let before = leading.lead.coalesced.insert(name.clone(), arrived).unwrap_or(0);
    leading.lead.timers.set_once(Timer::Coalesced(name.clone()), leading.now + LOOK_EVERY);
    if arrived.saturating_sub(before).saturating_mul(PARTS) < instances {
        leading.lead.to_reconcile.insert(name);
    }
}

/// All its instances are made or scaled at once, and nothing of it waits for one of them.
fn is_starting(group: &Group) -> bool {
    let at_once = match group.record.operation.as_ref().map(|operation| operation.kind) {
        Some(Operation::Deploying | Operation::Scheduling) => true,
        Some(
            Operation::Upgrading
            | Operation::Drifting
            | Operation::Starting
            | Operation::Stopping
            | Operation::Restarting
            | Operation::Removing,
        )
        | None => false,
    };
    at_once && !group.record.spec.has_strategy()
}

/// A pod is to be made, or runs for the first time: no plan was waiting for that alone.
fn is_expected(change: &PodChange) -> bool {
    let is_new = change.before.as_ref().is_none_or(|before| before.state == RunState::Pending);
    let is_well = |after: &PodFacts| matches!(after.state, RunState::Pending | RunState::Success);
    is_new && change.after.as_ref().is_some_and(|after| is_well(after) && !after.leaving && after.last_error.is_empty())
}
