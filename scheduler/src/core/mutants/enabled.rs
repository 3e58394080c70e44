//! The faults of the feature `mutants`. `disabled` has the same functions without effect.

use std::borrow::Cow;

use contract::name::GroupName;
use contract::record::{GroupRecord, Instance};
use contract::rollout::Amount;
use contract::spec::PodSpec;
use contract::state::TargetState;
use planner::group::GroupPlan;

use super::Mutant;
use crate::core::observe::reports::ReportCache;
use crate::core::reconcile::input::ReportedPods;
use crate::core::state::{Group, pods_of};

/// The message of [`Mutant::PanicsOnPurpose`]. A program that contains it was built with the mutants.
pub const PANIC_MESSAGE: &str = "on purpose, by a mutant of the scheduler";

/// The mutant that is active, if any.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults(Option<Mutant>);

impl From<Option<Mutant>> for Faults {
    fn from(mutant: Option<Mutant>) -> Self {
        Self(mutant)
    }
}

impl Faults {
    pub fn of(mutant: Mutant) -> Self {
        Self(Some(mutant))
    }

    pub(in crate::core) fn has(self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }

    /// The record without the fields that one of the planner's guards depends on.
    pub(in crate::core) fn falsify_record(self, record: &GroupRecord) -> Cow<'_, GroupRecord> {
        let mut falsified = Cow::Borrowed(record);
        if self.has(Mutant::SkipsConfirmations)
            && let Some(strategy) = falsified.to_mut().spec.strategy.as_mut()
        {
            strategy.need_waiting_for_confirm = false;
        }
        if self.has(Mutant::ExceedsMaxSurge)
            && let Some(strategy) = falsified.to_mut().spec.strategy.as_mut()
        {
            let surge = strategy.max_surge.unwrap_or(Amount::Count(0));
            strategy.max_surge = Some(Amount::Count(surge.rounded_up(record.spec.num_instances) + 2));
        }
        if self.has(Mutant::ExceedsMaxUnavailable)
            && let Some(strategy) = falsified.to_mut().spec.strategy.as_mut()
        {
            let missing = strategy.max_unavailable.unwrap_or(Amount::Count(0));
            strategy.max_unavailable = Some(Amount::Count(missing.rounded_down(record.spec.num_instances) + 2));
        }
        if self.has(Mutant::SkipsDrains) {
            falsified.to_mut().spec.drain = None;
        }
        if self.has(Mutant::SparesNothing) {
            falsified.to_mut().equals.clear();
        }
        falsified
    }

    /// The plan without one of the planner's rules.
    pub(in crate::core) fn falsify_plan(self, before: &GroupRecord, mut plan: GroupPlan) -> GroupPlan {
        if self.has(Mutant::ForgetsStops) {
            let upgraded = plan
                .instances
                .iter_mut()
                .filter(|instance| instance.version > 0 && instance.version == before.spec.version);
            upgraded.for_each(|instance| instance.target = TargetState::Run);
        }
        if let Some(record) = plan.record.as_mut().filter(|_| self.0.is_some()) {
            // The fields that `falsify_record` changed are not stored.
            record.spec.strategy.clone_from(&before.spec.strategy);
            record.spec.drain.clone_from(&before.spec.drain);
        }
        if let Some((record, proven)) = plan.record.as_mut().zip(before.proven)
            && self.has(Mutant::VersionGoesBack)
            && record.spec.version > before.spec.version
        {
            (record.spec.version, record.spec.pod.version) = (proven, proven);
        }
        plan
    }

    /// The reported pods of a group; with [`Mutant::MixesUpPods`] any pod that the node reports of an instance.
    pub(in crate::core) fn reported_pods<'a>(
        self,
        reports: &'a ReportCache,
        name: &GroupName,
        group: &Group,
    ) -> ReportedPods<'a> {
        if !self.has(Mutant::MixesUpPods) {
            return ReportedPods::of(reports, name, group);
        }
        let facts_of = |number: u32, pod: Option<&Instance>| {
            let node = pod?.node.as_ref()?;
            reports.pods(node, pods_of(name, number..=number)).map(|(_, facts)| facts).next()
        };
        ReportedPods {
            seen: (1..).zip(group.instances()).map(|(number, instance)| facts_of(number, Some(instance))).collect(),
            beside: (1..)
                .zip(group.instances())
                .map(|(number, instance)| facts_of(number, instance.next.as_deref()))
                .collect(),
        }
    }

    /// Panics when an object is reconciled whose image requests it.
    pub(in crate::core) fn panic_on(self, pod: &PodSpec, is_removing: bool) {
        let asked = self.has(Mutant::PanicsOnPurpose) && !is_removing;
        assert!(!(asked && pod.images().any(|image| image.starts_with("panic"))), "{PANIC_MESSAGE}");
    }

    /// Panics while a command is applied or a report is folded, if `text` requests it.
    pub(in crate::core) fn panic_in(self, step: &str, text: &str) {
        let asked = self.has(Mutant::PanicsOnPurpose) && text.strip_prefix("panic-in-") == Some(step);
        assert!(!asked, "{PANIC_MESSAGE}");
    }
}
