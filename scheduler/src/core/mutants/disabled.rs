//! The functions of `enabled` without any fault, for the shipped programs.

use std::borrow::Cow;

use contract::name::GroupName;
use contract::record::GroupRecord;
use contract::spec::PodSpec;
use planner::group::GroupPlan;

use super::Mutant;
use crate::core::observe::reports::ReportCache;
use crate::core::reconcile::input::ReportedPods;
use crate::core::state::Group;

/// No fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults(());

impl Faults {
    #[inline(always)]
    pub(in crate::core) const fn has(self, _mutant: Mutant) -> bool {
        false
    }

    pub(in crate::core) fn falsify_record(self, record: &GroupRecord) -> Cow<'_, GroupRecord> {
        Cow::Borrowed(record)
    }

    pub(in crate::core) fn falsify_plan(self, _before: &GroupRecord, plan: GroupPlan) -> GroupPlan {
        plan
    }

    pub(in crate::core) fn reported_pods<'a>(
        self,
        reports: &'a ReportCache,
        name: &GroupName,
        group: &Group,
    ) -> ReportedPods<'a> {
        ReportedPods::of(reports, name, group)
    }

    pub(in crate::core) fn panic_on(self, _pod: &PodSpec, _is_removing: bool) {}

    pub(in crate::core) fn panic_in(self, _step: &str, _text: &str) {}
}
