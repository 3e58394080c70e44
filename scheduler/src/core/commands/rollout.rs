//! Commands about a rollout: pause, resume, confirm, skip, abort, undo, freeze; readiness gates; drained instances.
//!
//! A repeated command is accepted and changes nothing. A pause is stored in the group's spec and outlives the rollout;
//! everything else is stored with the rollout or the instances.

use contract::command::{Refusal, RolloutAction};
use contract::keys;
use contract::name::GroupName;
use contract::record::{Instance, Presence};
use planner::rollout::controller::{self, Control, RolloutState};

use crate::core::commit::{self, Bundle};
use crate::core::events;
use crate::core::leader::Leading;
use crate::core::state::Group;
use crate::core::state::revisions::Origin;

use super::spec;

/// Target of a rollout that was never planned: no revision.
const NOWHERE: u32 = u32::MAX;

/// A change of a readiness gate.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) instance: u32,
    pub(super) name: String,
    pub(super) is_true: bool,
    /// Set the gate only if the instance's pod has this revision.
    pub(super) version: Option<u32>,
}

/// Controls the rollout of a group.
pub(super) fn rollout(
    leading: &mut Leading<'_>,
    name: &GroupName,
    release: Option<u32>,
    action: RolloutAction,
    by: &str,
) -> Result<Bundle, Refusal> {
    let group = leading.admission().present(name)?;
    let current = group.record.spec.version;
    if release.is_some_and(|release| release != current) {
        return Err(Refusal::ReleaseUnknown { release, current: Some(current) });
    }
    match action {
        RolloutAction::Undo { revision, cause } => {
            undo(leading, name, revision, Origin { by: by.to_owned(), cause, ..Origin::default() })
        }
        RolloutAction::Pause => control(leading, name, Control::Pause),
        RolloutAction::Resume => control(leading, name, Control::Resume),
        RolloutAction::Confirm { group } => control(leading, name, Control::Confirm(group)),
        RolloutAction::Skip { group } => control(leading, name, Control::Skip(group)),
        RolloutAction::Abort => control(leading, name, Control::Abort),
        RolloutAction::Freeze => control(leading, name, Control::Freeze),
        RolloutAction::Unfreeze => control(leading, name, Control::Unfreeze),
    }
}

fn undo(leading: &mut Leading<'_>, name: &GroupName, revision: Option<u32>, origin: Origin) -> Result<Bundle, Refusal> {
    let back = leading.admission().rollback_target(name, revision)?;
    if back.is_present {
        return Ok(Bundle::default());
    }
    let respec = leading.admission().undone(name, &back)?;
    Ok(spec::change_spec(leading, name, respec, Origin { copies: Some(back.number), ..origin }))
}

fn control(leading: &mut Leading<'_>, name: &GroupName, control: Control) -> Result<Bundle, Refusal> {
    let group = leading.admission().present(name)?;
    if !group.record.spec.has_strategy() {
        let reason = "the PodGroup has no Strategy (or Serial), so its upgrade cannot be paused, resumed, confirmed, skipped, \
                      aborted or frozen; undo works, and cmd=strategy sets a Strategy";
        return Err(Refusal::Unfit { reason: reason.to_owned() });
    }
    let before = addressed(group, control);
    let refused = |refusal| refusal_of(refusal, control, &before);
    let after = controller::apply(&before, control, leading.now.into()).map_err(refused)?;
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
    record.updated_at = leading.now;
    let told = events::rollout::between(name, Some(&before), &after, leading.now);
    let mut bundle = leading.change_record(name, record);
    bundle.effects.extend(told);
    bundle.writes.push(commit::put(keys::release(name), &after));
    if let Some(group) = leading.state.groups.get_mut(name) {
        group.release = Some(after);
    }
    Ok(bundle)
}

/// Sets a readiness gate of an instance.
pub(super) fn set_gate(leading: &mut Leading<'_>, name: &GroupName, gate: &Gate) -> Result<Bundle, Refusal> {
    let group = leading.admission().present(name)?;
    let gates = &group.record.spec.readiness_gates;
    if !gates.contains(&gate.name) {
        let known = if gates.is_empty() { "none".to_owned() } else { gates.join(", ") };
        let reason = format!("the PodGroup has no readiness gate {:?}; its ReadinessGates are: {known}", gate.name);
        return Err(Refusal::Unfit { reason });
    }
    let now = leading.now;
    let is_meant = |pod: &Instance| gate.version.is_none_or(|version| version == pod.version);
    if !instance_of(group, gate.instance)?.pods().any(is_meant) {
        let which = gate.version.map(|version| format!(" of version {version}")).unwrap_or_default();
        let reason = format!("instance {} has no pod{which} now", gate.instance);
        return Err(Refusal::Unfit { reason });
    }
    let set = |pod: &mut Instance| match (is_meant(pod), gate.is_true) {
        (false, _) => {}
        (true, true) => drop(pod.gates.entry(gate.name.clone()).or_insert(now)),
        (true, false) => {
            if pod.gates.remove(&gate.name).is_some() {
                pod.gates_closed_at = now;
            }
        }
    };
    Ok(change_pods(leading, name, gate.instance, set))
}

/// An instance is drained. For an instance that is not being drained this changes nothing: the command may be a repetition, and
/// the pod may be gone.
pub(super) fn drained(leading: &mut Leading<'_>, name: &GroupName, instance: u32) -> Result<Bundle, Refusal> {
    instance_of(leading.admission().present(name)?, instance)?;
    let answer = |pod: &mut Instance| {
        if let Some(draining) = &mut pod.draining {
            draining.is_answered = true;
        }
    };
    Ok(change_pods(leading, name, instance, answer))
}

/// Changes the stored fields of the pods of one instance.
fn change_pods(leading: &mut Leading<'_>, name: &GroupName, instance: u32, change: impl Fn(&mut Instance)) -> Bundle {
    let Some(group) = leading.state.groups.get(name) else { return Bundle::default() };
    let mut instances = group.instances().to_vec();
    let index = usize::try_from(instance).unwrap_or(0).saturating_sub(1);
    if let Some(instance) = instances.get_mut(index) {
        change(instance);
        instance.next.as_deref_mut().map(change).unwrap_or_default();
    }
    if instances == group.instances() {
        return Bundle::default();
    }
    let effects = events::rollout::drained(name, group.instances(), &instances, leading.now);
    let mut bundle = Bundle { effects, ..Bundle::default() };
    bundle.put_instances(name, &instances);
    leading.state.set_instances(name, instances);
    leading.lead.queue.mark(name.clone());
    bundle
}

/// The rollout that a command addresses. A pause and a freeze belong to the group and pass from rollout to rollout; everything
/// else addresses the rollout to the current revision, which before its first plan is an empty one.
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

/// The instance, or a refusal if the group has none with that number.
fn instance_of(group: &Group, number: u32) -> Result<&Instance, Refusal> {
    let instances = u32::try_from(group.record.spec.num_instances).unwrap_or(0);
    let index = usize::try_from(number).unwrap_or(0).checked_sub(1);
    let instance = index.and_then(|index| group.instances().get(index));
    let is_there = |instance: &&Instance| instance.presence != Presence::Free;
    instance.filter(is_there).ok_or(Refusal::InstanceUnknown { instance: number, instances })
}

fn refusal_of(refusal: controller::Refusal, control: Control, release: &RolloutState) -> Refusal {
    let (target, group) = (release.target, release.batch);
    match (refusal, control) {
        (controller::Refusal::NotWaiting, _) => Refusal::NotWaiting { release: target, group },
        (controller::Refusal::OtherBatch { current }, Control::Confirm(asked) | Control::Skip(asked)) => {
            Refusal::OtherBatch { release: target, asked, current }
        }
        (controller::Refusal::OtherBatch { .. } | controller::Refusal::Over, _) => {
            Refusal::ReleaseOver { release: target }
        }
    }
}
