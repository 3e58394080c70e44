//! Prepares the plan of a spec: the record it would lead to, made as the commands make it, and the facts of its group.
//!
//! Nothing is changed. A spec that names a group that is there stands for what its author would ask: the strategy first,
//! then the number of instances, then the pod.

use std::collections::BTreeMap;

use contract::command::Refusal;
use contract::name::GroupName;
use contract::spec::PodGroupSpec;
use planner::group::GroupFacts;

use super::admission::{Admission, malformed};
use super::dry_run::DryRun;
use super::planning::Sight;
use super::queries::Library;
use super::respec::Respec;
use super::scene::Scene;
use super::state::Group;
use super::strategy::past_new_gates;

impl Library<'_> {
    /// What to compute the plan of a spec from, or why the spec would be refused.
    pub(super) fn dry_run(&self, spec: PodGroupSpec) -> Result<DryRun, Refusal> {
        let unnamed = |error: contract::name::Error| Refusal::Malformed { reason: format!("Name: {error}") };
        let name: GroupName = spec.name.parse().map_err(unnamed)?;
        let present = self.state.groups.get(&name).filter(|group| group.is_present());
        let group = match present {
            Some(group) => self.changed(&name, group, spec)?,
            None => {
                let (created, cores) = (self.admission().created(spec)?, self.settings.quota_cores);
                match self.state.groups.get(&name).filter(|_| created.adopts) {
                    Some(adopted) => adopted.with_record(created.record, cores),
                    None => Group::new(created.record, cores),
                }
            }
        };
        let is_new = present.is_none();
        Ok(self.with_facts(&name, &group, |facts| DryRun::of(facts, self.now, is_new)))
    }

    pub(super) fn admission(&self) -> Admission<'_> {
        Admission { state: self.state, settings: self.settings, now: self.now }
    }

    /// The group after what its author would ask: each request is judged on what the ones before lead to.
    fn changed(&self, name: &GroupName, group: &Group, spec: PodGroupSpec) -> Result<Group, Refusal> {
        spec.validate().map_err(|flaws| malformed(&flaws))?;
        let admission = self.admission();
        let cores = self.settings.quota_cores;
        let mut group = group.clone();
        if let Some(record) = admission.with_strategy_of(&group, &spec)? {
            let before = group.record.spec.clone();
            group = group.with_record(record, cores);
            group = past_new_gates(&group, &before).map_or_else(|| group.clone(), |slots| group.with_slots(slots));
        }
        let wanted = u32::try_from(spec.num_instances).unwrap_or(0);
        let asked = (spec.num_instances, spec.restart_policy);
        if asked != (group.record.spec.num_instances, group.record.spec.restart_policy)
            && let Some(record) = admission.resized(&group, wanted, Some(spec.restart_policy))?
        {
            group = group.with_record(record, cores);
        }
        let is_new = !group.record.spec.pod.patched(spec.pod.clone(), self.now).asks_the_same(&group.record.spec.pod);
        if is_new {
            group = match admission.patched(name, &group, spec.pod)? {
                Respec::Next(record) => group.with_record(*record, cores),
                Respec::Not(reason) => return Err(Refusal::Unfit { reason }),
            };
        }
        Ok(group)
    }

    /// Looks at a group as the planner does, with what anybody knows who hears reports.
    pub(super) fn with_facts<T>(&self, name: &GroupName, group: &Group, look: impl FnOnce(&GroupFacts<'_>) -> T) -> T {
        let surplus = self.surplus(name, group);
        let scene = Scene {
            state: self.state,
            settings: self.settings,
            sight: Sight::of(self.ears, name, group),
            surplus: &surplus,
            vacated: group.slots().iter().map(|slot| slot.leaves.is_none()).collect(),
            lingers: false,
            known: &BTreeMap::new(),
            standings: None,
        };
        scene.look(group, &group.record, look)
    }
}
