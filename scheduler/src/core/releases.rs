//! Does what people say to a release: pause, confirm, skip, abort, undo and freeze it, set gates, and say what is drained.
//!
//! Saying a thing twice is saying it once: the second time is accepted and changes nothing. A pause is kept in the group's
//! spec, where it outlives the release; everything else is kept in the release or in the slots.

use contract::command::{Refusal, RolloutAction};
use contract::keys;
use contract::name::GroupName;
use contract::record::{Filling, Slot};
use planner::rollout::controller::{self, Control, RolloutState};

use super::commit::{self, Bundle};
use super::leader::Leading;
use super::milestones;
use super::revisions::Origin;
use super::state::Group;

/// Where the release of a group leads that was never planned: not to any of its revisions.
const NOWHERE: u32 = u32::MAX;

/// A gate somebody sets.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) instance: u32,
    pub(super) name: String,
    pub(super) is_true: bool,
    /// Only of the pod of this version.
    pub(super) version: Option<u32>,
}

impl Leading<'_> {
    /// Somebody says something to the release of a group.
    pub(super) fn rollout(
        &mut self,
        name: &GroupName,
        release: Option<u32>,
        action: RolloutAction,
        by: &str,
    ) -> Result<Bundle, Refusal> {
        let group = self.admission().present(name)?;
        let current = group.record.spec.version;
        if release.is_some_and(|release| release != current) {
            return Err(Refusal::ReleaseUnknown { release, current: Some(current) });
        }
        match action {
            RolloutAction::Undo { revision, cause } => {
                self.undo(name, revision, Origin { by: by.to_owned(), cause, ..Origin::default() })
            }
            RolloutAction::Pause => self.control(name, Control::Pause),
            RolloutAction::Resume => self.control(name, Control::Resume),
            RolloutAction::Confirm { group } => self.control(name, Control::Confirm(group)),
            RolloutAction::Skip { group } => self.control(name, Control::Skip(group)),
            RolloutAction::Abort => self.control(name, Control::Abort),
            RolloutAction::Freeze => self.control(name, Control::Freeze),
            RolloutAction::Unfreeze => self.control(name, Control::Unfreeze),
        }
    }

    fn undo(&mut self, name: &GroupName, revision: Option<u32>, origin: Origin) -> Result<Bundle, Refusal> {
        let back = self.admission().way_back(name, revision)?;
        if back.is_present {
            return Ok(Bundle::default());
        }
        let respec = self.admission().undone(name, &back)?;
        Ok(self.respecify(name, respec, Origin { copies: Some(back.number), ..origin }))
    }

    fn control(&mut self, name: &GroupName, control: Control) -> Result<Bundle, Refusal> {
        let group = self.admission().present(name)?;
        if !group.record.spec.has_strategy() {
            let reason = "the PodGroup names no Strategy other than Serial, so it has no release to say that to; undo works, \
                          and cmd=strategy gives it one";
            return Err(Refusal::Unfit { reason: reason.to_owned() });
        }
        let before = addressed(group, control);
        let refused = |refusal| refusal_of(refusal, control, &before);
        let after = controller::apply(&before, control, self.now.into()).map_err(refused)?;
        let paused = match control {
            Control::Pause => true,
            Control::Resume => false,
            Control::Confirm(_) | Control::Skip(_) | Control::Abort | Control::Freeze | Control::Unfreeze => {
                group.record.spec.paused
            }
        };
        let after = RolloutState { is_paused: paused, ..after };
        if after == before && paused == group.record.spec.paused {
            return Ok(Bundle::default());
        }
        let mut record = group.record.clone();
        record.spec.paused = paused;
        record.updated_at = self.now;
        let told = milestones::told(name, Some(&before), &after, self.now);
        let mut bundle = self.change_record(name, record);
        bundle.effects.extend(told);
        bundle.writes.push(commit::put(keys::release(name), &after));
        if let Some(group) = self.state.groups.get_mut(name) {
            group.release = Some(after);
        }
        Ok(bundle)
    }

    /// Sets a readiness gate of an instance.
    pub(super) fn set_gate(&mut self, name: &GroupName, gate: &Gate) -> Result<Bundle, Refusal> {
        let group = self.admission().present(name)?;
        let gates = &group.record.spec.readiness_gates;
        if !gates.contains(&gate.name) {
            let known = if gates.is_empty() { "none".to_owned() } else { gates.join(", ") };
            let reason = format!("the PodGroup has no readiness gate {:?}; its ReadinessGates are: {known}", gate.name);
            return Err(Refusal::Unfit { reason });
        }
        let now = self.now;
        let is_meant = |pod: &Slot| gate.version.is_none_or(|version| version == pod.version);
        if !slot_of(group, gate.instance)?.pods().any(is_meant) {
            let which = gate.version.map(|version| format!(" of version {version}")).unwrap_or_default();
            let reason = format!("instance {} has no pod{which} now", gate.instance);
            return Err(Refusal::Unfit { reason });
        }
        let set = |pod: &mut Slot| match (is_meant(pod), gate.is_true) {
            (false, _) => {}
            (true, true) => drop(pod.gates.entry(gate.name.clone()).or_insert(now)),
            (true, false) => {
                if pod.gates.remove(&gate.name).is_some() {
                    pod.gates_closed_at = now;
                }
            }
        };
        Ok(self.change_pods(name, gate.instance, set))
    }

    /// Somebody says that an instance is drained. Said of one that is not being taken out, it changes nothing: it may be
    /// the second time, and the pod it was said of may be gone.
    pub(super) fn drained(&mut self, name: &GroupName, instance: u32) -> Result<Bundle, Refusal> {
        slot_of(self.admission().present(name)?, instance)?;
        let answer = |pod: &mut Slot| {
            if let Some(draining) = &mut pod.draining {
                draining.is_answered = true;
            }
        };
        Ok(self.change_pods(name, instance, answer))
    }

    /// Changes what is kept with the pods of one instance.
    fn change_pods(&mut self, name: &GroupName, instance: u32, change: impl Fn(&mut Slot)) -> Bundle {
        let Some(group) = self.state.groups.get(name) else { return Bundle::default() };
        let mut slots = group.slots().to_vec();
        let index = usize::try_from(instance).unwrap_or(0).saturating_sub(1);
        if let Some(slot) = slots.get_mut(index) {
            change(slot);
            slot.next.as_deref_mut().map(change).unwrap_or_default();
        }
        if slots == group.slots() {
            return Bundle::default();
        }
        let effects = milestones::drained(name, group.slots(), &slots, self.now);
        let mut bundle = Bundle { effects, ..Bundle::default() };
        bundle.put_slots(name, &slots);
        self.state.set_slots(name, slots);
        self.lead.dirty.insert(name.clone());
        bundle
    }
}

/// What something is said to. A pause and a freeze are the group's, and are handed on from release to release; the rest is
/// said to the release toward the present revision, which before its first plan is one nothing was done for.
fn addressed(group: &Group, control: Control) -> RolloutState {
    let target = group.record.spec.version;
    let known = group.release.as_ref();
    match control {
        Control::Pause | Control::Resume | Control::Freeze | Control::Unfreeze => {
            known.cloned().unwrap_or_else(|| RolloutState::toward(NOWHERE))
        }
        Control::Confirm(_) | Control::Skip(_) | Control::Abort => match known {
            Some(release) if release.target == target => release.clone(),
            Some(RolloutState { is_paused, is_frozen, sized, .. }) => RolloutState {
                is_paused: *is_paused,
                is_frozen: *is_frozen,
                sized: *sized,
                ..RolloutState::toward(target)
            },
            None => RolloutState::toward(target),
        },
    }
}

/// An instance that is there.
fn slot_of(group: &Group, instance: u32) -> Result<&Slot, Refusal> {
    let instances = u32::try_from(group.record.spec.num_instances).unwrap_or(0);
    let index = usize::try_from(instance).unwrap_or(0).checked_sub(1);
    let slot = index.and_then(|index| group.slots().get(index));
    let is_there = |slot: &&Slot| slot.filling != Filling::Nothing;
    slot.filter(is_there).ok_or(Refusal::InstanceUnknown { instance, instances })
}

fn refusal_of(refusal: controller::Refusal, control: Control, release: &RolloutState) -> Refusal {
    let (target, group) = (release.target, release.batch);
    match (refusal, control) {
        (controller::Refusal::NotWaiting, _) => Refusal::NotWaiting { release: target, group },
        (controller::Refusal::OtherBatch { current }, Control::Confirm(asked) | Control::Skip(asked)) => {
            Refusal::OtherGroup { release: target, asked, current }
        }
        (controller::Refusal::OtherBatch { .. } | controller::Refusal::Over, _) => {
            Refusal::ReleaseOver { release: target }
        }
    }
}
