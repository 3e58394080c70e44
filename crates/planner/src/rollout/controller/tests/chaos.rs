//! Everything at once: whatever happened before, when it is quiet again the group becomes what is wanted.
//!
//! The world asks twice after every decision, so this also says that no state makes two leaders disagree.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::plans::any_style;
use super::world::{World, units};
use crate::rollout::controller::{
    AutoReschedule, Control, FailBack, FailureAction, RolloutStatus, Style, Verdict, apply,
};
use crate::rollout::limits::PodReplacement;
use crate::rollout::numbers::Amount;
use crate::rollout::properties::property;

#[derive(Debug, Clone)]
enum Blow {
    Push { broken: bool },
    Undo,
    Replicas(i64),
    Wishes(Vec<Option<i64>>),
    Rotate(usize),
    Restyle(Style),
    Say(Control),
    Kill(usize),
    Crash(usize),
    Stop(usize),
    Start(usize),
    Stuck(usize),
    Pass(usize),
}

fn any_control() -> impl Strategy<Value = Control> {
    prop_oneof![
        Just(Control::Pause),
        Just(Control::Resume),
        (0..4u64).prop_map(Control::Confirm),
        (0..4u64).prop_map(Control::Skip),
        Just(Control::Abort),
        Just(Control::Freeze),
        Just(Control::Unfreeze),
    ]
}

fn any_blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        2 => any::<bool>().prop_map(|broken| Blow::Push { broken }),
        1 => Just(Blow::Undo),
        2 => (0..12i64).prop_map(Blow::Replicas),
        1 => prop::collection::vec(prop::option::of(1..6i64), 1..4).prop_map(Blow::Wishes),
        1 => (1..3usize).prop_map(Blow::Rotate),
        1 => any_style().prop_map(Blow::Restyle),
        3 => any_control().prop_map(Blow::Say),
        2 => (0..12usize).prop_map(Blow::Kill),
        1 => (0..12usize).prop_map(Blow::Crash),
        1 => (0..12usize).prop_map(Blow::Stop),
        1 => (0..12usize).prop_map(Blow::Start),
        1 => (0..12usize).prop_map(Blow::Stuck),
        6 => (1..8usize).prop_map(Blow::Pass),
    ]
}

fn suffer(world: &mut World, blow: Blow, latest: &mut u32) {
    let now = world.facts.now;
    let main = |world: &mut World, at: usize, how: &dyn Fn(&mut crate::rollout::controller::Pod)| {
        world.facts.slots.get_mut(at).and_then(|slot| slot.main.as_mut()).into_iter().for_each(how);
    };
    match blow {
        Blow::Push { broken } => {
            *latest += 1;
            world.broken.extend(broken.then_some(*latest));
            world.facts.equals.clear();
            world.facts.is_rollback = false;
            world.release(*latest);
        }
        Blow::Undo => {
            *latest += 1;
            world.facts.equals = BTreeSet::from([world.facts.proven.unwrap_or(1)]);
            world.facts.is_rollback = true;
            world.release(*latest);
        }
        Blow::Replicas(replicas) => world.facts.replicas = replicas,
        Blow::Wishes(wishes) => {
            world.facts.units = units(wishes.into_iter().map(|wish| wish.map(Amount::Count)));
        }
        Blow::Rotate(by) => world.rotate_units(by),
        Blow::Restyle(style) => world.facts.settings.style = style,
        Blow::Say(control) => {
            if let Ok(release) = apply(&world.facts.release, control, now) {
                world.facts.release = release;
            }
        }
        Blow::Kill(at) => world.kill(at),
        Blow::Crash(at) => main(world, at, &|pod| pod.signs.restarts = 3),
        Blow::Stop(at) => world.facts.slots.iter_mut().skip(at).take(1).for_each(|slot| slot.is_stopped = true),
        Blow::Start(at) => world.facts.slots.iter_mut().skip(at).take(1).for_each(|slot| slot.is_stopped = false),
        Blow::Stuck(at) => {
            for slot in world.facts.slots.iter_mut().skip(at).take(1) {
                let next = slot.next.as_mut().map(|next| &mut next.pod);
                let ordered = slot.main.as_mut().into_iter().chain(next).filter(|pod| pod.created.is_none());
                ordered.for_each(|pod| pod.unschedulable_since = Some(now));
            }
        }
        Blow::Pass(ticks) => (0..ticks).for_each(|_| world.pass()),
    }
}

/// It is quiet: a good revision is pushed, nobody holds anything back, pods find room and whoever asks is answered.
fn calm(world: &mut World, latest: u32) {
    world.facts.equals.clear();
    world.facts.is_rollback = false;
    world.facts.release.is_frozen = false;
    world.release(latest + 1).say(Control::Resume);
    for slot in &mut world.facts.slots {
        let next = slot.next.as_mut().map(|next| &mut next.pod);
        slot.main.as_mut().into_iter().chain(next).for_each(|pod| {
            pod.unschedulable_since = None;
            pod.signs.restarts = 0;
        });
    }
    let mut quiet = 0;
    for _ in 0..600 {
        let decision = world.decide();
        if let RolloutStatus::WaitingForConfirm { group } = decision.report.status {
            world.say(Control::Confirm(group));
        }
        quiet = if decision.actions.is_empty() && decision.report.status == RolloutStatus::Complete {
            quiet + 1
        } else {
            0
        };
        if quiet > 4 {
            return;
        }
        world.pass();
    }
}

property! {
    fn whatever_happened_when_it_is_quiet_the_group_becomes_what_is_wanted(
        style in any_style(), sizes in prop::collection::vec(0..5usize, 1..4),
        blows in prop::collection::vec(any_blow(), 0..40), started: bool,
        action in prop::sample::select(vec![FailureAction::Hold, FailureAction::Rollback, FailureAction::Continue]),
        reschedules in prop::option::of(prop::sample::select(vec![FailBack::Lazy, FailBack::Eager])),
    ) {
        let mut world = World::settled(style, &sizes);
        (world.start, world.end) = (1, 1);
        world.facts.settings.replacement = started.then_some(PodReplacement::Started);
        world.facts.settings.failure_action = action;
        world.facts.settings.deadline = Some(Duration::from_secs(20));
        let delay = Duration::from_secs(2);
        world.facts.settings.auto_reschedule = reschedules.map(|fail_back| AutoReschedule { delay, fail_back });
        let mut latest = 1;
        for blow in blows {
            suffer(&mut world, blow, &mut latest);
            let verdict = world.decide().verdict;
            if let Verdict::Rollback(_) = verdict {
                suffer(&mut world, Blow::Undo, &mut latest);
                world.decide();
            }
        }
        calm(&mut world, latest);
        let decision = world.decide();
        prop_assert_eq!(decision.report.status, RolloutStatus::Complete, "{:?} {:?}", world.facts.release, world.facts.slots);
        prop_assert_eq!(i64::try_from(world.facts.slots.len()).expect("few"), world.facts.replicas);
        prop_assert!(world.pods().all(|pod| pod.revision == latest + 1));
        prop_assert!(world.facts.slots.iter().all(|slot| slot.next.is_none() && slot.leaving == 0));
        let targets = world.facts.release.allotment.targets.clone();
        let in_unit = |at: usize| world.facts.slots.iter().filter(|slot| slot.unit == at).count();
        let there: Vec<i64> = (0..targets.len()).map(|at| i64::try_from(in_unit(at)).expect("few")).collect();
        prop_assert_eq!(there, targets);
    }

    fn a_leader_change_at_any_point_changes_nothing(
        style in any_style(), sizes in prop::collection::vec(0..5usize, 1..4),
        blows in prop::collection::vec(any_blow(), 0..20),
    ) {
        let mut worlds = [true, false].map(|is_led_by_one| {
            let mut world = World::settled(style, &sizes);
            (world.start, world.end, world.is_led_by_one) = (1, 1, is_led_by_one);
            (world, 1)
        });
        for blow in blows {
            let [one, many] = &mut worlds;
            for (world, latest) in [&mut *one, &mut *many] {
                suffer(world, blow.clone(), latest);
                world.decide();
            }
            prop_assert_eq!(&one.0.facts, &many.0.facts);
        }
        prop_assert_eq!(&worlds[0].0.history, &worlds[1].0.history);
    }
}
