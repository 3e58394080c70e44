//! Faults that the simulator injects around the planner, to prove that its checks find them. Never active outside it.

use std::borrow::Cow;

use contract::record::GroupRecord;
use contract::rollout::Amount;
use contract::state::TargetState;
use planner::group::GroupPlan;

use crate::core::io::Mutant;
use crate::core::leader::Leading;

/// The record without what one of the planner's guards goes by, for the simulator.
pub(super) fn falsify_record<'r>(leading: &Leading<'_>, record: &'r GroupRecord) -> Cow<'r, GroupRecord> {
    let mut falsify_record = Cow::Borrowed(record);
    if leading.has_mutant(Mutant::ConfirmsItself)
        && let Some(strategy) = falsify_record.to_mut().spec.strategy.as_mut()
    {
        strategy.need_waiting_for_confirm = false;
    }
    if leading.has_mutant(Mutant::SurgesMore)
        && let Some(strategy) = falsify_record.to_mut().spec.strategy.as_mut()
    {
        let surge = strategy.max_surge.unwrap_or(Amount::Count(0));
        strategy.max_surge = Some(Amount::Count(surge.rounded_up(record.spec.num_instances) + 2));
    }
    if leading.has_mutant(Mutant::TakesMore)
        && let Some(strategy) = falsify_record.to_mut().spec.strategy.as_mut()
    {
        let missing = strategy.max_unavailable.unwrap_or(Amount::Count(0));
        strategy.max_unavailable = Some(Amount::Count(missing.rounded_down(record.spec.num_instances) + 2));
    }
    if leading.has_mutant(Mutant::SkipsDrains) {
        falsify_record.to_mut().spec.drain = None;
    }
    if leading.has_mutant(Mutant::SparesNobody) {
        falsify_record.to_mut().equals.clear();
    }
    falsify_record
}

/// The plan without one of the planner's rules, for the simulator.
pub(super) fn falsify_plan(leading: &Leading<'_>, before: &GroupRecord, mut plan: GroupPlan) -> GroupPlan {
    if leading.has_mutant(Mutant::ForgetsStops) {
        let upgraded = plan.slots.iter_mut().filter(|slot| slot.version > 0 && slot.version == before.spec.version);
        upgraded.for_each(|slot| slot.target = TargetState::Run);
    }
    if let Some(record) = plan.record.as_mut().filter(|_| leading.settings.mutant.is_some()) {
        // What was misread is not written.
        record.spec.strategy.clone_from(&before.spec.strategy);
        record.spec.drain.clone_from(&before.spec.drain);
    }
    if let Some((record, proven)) = plan.record.as_mut().zip(before.proven)
        && leading.has_mutant(Mutant::VersionGoesBack)
        && record.spec.version > before.spec.version
    {
        (record.spec.version, record.spec.pod.version) = (proven, proven);
    }
    plan
}
