//! Coalesces the reports of a group that starts: only the last one, and an unexpected one, lead to a plan.
//!
//! A plan reads every instance, so 1,000 starting instances must not cause 1,000 plans. In between, the group is checked every
//! [`CHECK_EVERY`], in case an instance is missing. The plan is skipped while the group makes progress, because a cluster that
//! starts everywhere has thousands of groups in that state and planning them again and again would be most of the leader's work.
//!
//! Example: of 100 instances 30 run at one check and 45 at the next. 15 is more than a tenth of 100, so the group makes progress
//! and is not planned.

use std::time::Duration;

use contract::command::Operation;
use contract::name::GroupName;
use contract::report::PodFacts;
use contract::state::RunState;

use crate::core::leader::Leading;
use crate::core::observe::reports::PodChange;
use crate::core::state::Group;
use crate::core::timers::Timer;

/// Interval of the checks of a group that starts.
const CHECK_EVERY: Duration = Duration::from_secs(20);
/// A group makes progress if at least a tenth of its instances changed state since the last check, so at most ten plans are
/// skipped.
const PARTS: usize = 10;

/// A node reported a pod. The expected start of one more instance leads to a plan only when it is the last one.
pub(in crate::core) fn pod_reported(leading: &mut Leading<'_>, change: &PodChange) {
    let name = change.pod.group.clone();
    match leading.state.groups.get(&name) {
        Some(group) if is_starting(group) && is_expected(change) => {
            if leading.reports.arrived(&name) < group.instances().len() {
                return leading.lead.timers.set_once(Timer::Coalesced(name), leading.now + CHECK_EVERY);
            }
        }
        Some(_) | None => {}
    }
    leading.reconcile_soon(name);
}

/// The timer of a group whose reports are coalesced fired.
pub(in crate::core) fn check_coalesced(leading: &mut Leading<'_>, name: GroupName) {
    let Some(group) = leading.state.groups.get(&name).filter(|group| is_starting(group)) else {
        leading.lead.queue.forget_arrived(&name);
        return;
    };
    let (arrived, instances) = (leading.reports.arrived(&name), group.instances().len());
    let more = leading.lead.queue.note_arrived(&name, arrived);
    leading.lead.timers.set_once(Timer::Coalesced(name.clone()), leading.now + CHECK_EVERY);
    if more.saturating_mul(PARTS) < instances {
        leading.lead.queue.mark(name);
    }
}

/// The group starts all its instances together, and no step of it waits for one of them.
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

/// A pod is created, or runs for the first time. No plan waits for that alone.
fn is_expected(change: &PodChange) -> bool {
    let is_new = change.before.as_ref().is_none_or(|before| before.state == RunState::Pending);
    let is_well = |after: &PodFacts| matches!(after.state, RunState::Pending | RunState::Success);
    is_new && change.after.as_ref().is_some_and(|after| is_well(after) && !after.leaving && after.last_error.is_empty())
}
