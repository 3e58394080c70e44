//! All faults together: after them the group converges.
//!
//! The cluster decides twice, so this also shows that no state makes two leaders disagree.

use proptest::prelude::*;

use super::dry_run::any_strategy;
use super::*;

#[derive(Debug, Clone)]
enum Blow {
    Push { broken: bool },
    Undo,
    Replicas(i64),
    Wishes(Vec<Option<i64>>),
    Rotate(usize),
    Restyle(RolloutStrategy),
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
        1 => any_strategy().prop_map(Blow::Restyle),
        3 => any_control().prop_map(Blow::Say),
        2 => (0..12usize).prop_map(Blow::Kill),
        1 => (0..12usize).prop_map(Blow::Crash),
        1 => (0..12usize).prop_map(Blow::Stop),
        1 => (0..12usize).prop_map(Blow::Start),
        1 => (0..12usize).prop_map(Blow::Stuck),
        6 => (1..8usize).prop_map(Blow::Pass),
    ]
}

fn suffer(cluster: &mut RolloutCluster, blow: Blow, latest: &mut u32) {
    let now = cluster.facts.now;
    let main = |cluster: &mut RolloutCluster, at: usize, how: &dyn Fn(&mut RolloutPod)| {
        cluster.facts.instances.get_mut(at).and_then(|instance| instance.main.as_mut()).into_iter().for_each(how);
    };
    match blow {
        Blow::Push { broken } => {
            *latest += 1;
            cluster.broken.extend(broken.then_some(*latest));
            cluster.facts.equals.clear();
            cluster.facts.is_rollback = false;
            cluster.roll_out(*latest);
        }
        Blow::Undo => {
            *latest += 1;
            cluster.facts.equals = BTreeSet::from([cluster.facts.proven.unwrap_or(1)]);
            cluster.facts.is_rollback = true;
            cluster.roll_out(*latest);
        }
        Blow::Replicas(replicas) => cluster.facts.replicas = replicas,
        Blow::Wishes(preferences) => {
            cluster.facts.units = units(preferences.into_iter().map(|preference| preference.map(Amount::Count)));
        }
        Blow::Rotate(by) => cluster.rotate_units(by),
        Blow::Restyle(strategy) => cluster.facts.settings.strategy = strategy,
        Blow::Say(control) => {
            if let Ok(state) = apply(&cluster.facts.state, control, now) {
                cluster.facts.state = state;
            }
        }
        Blow::Kill(at) => cluster.kill(at),
        Blow::Crash(at) => main(cluster, at, &|pod| pod.signs.restarts = 3),
        Blow::Stop(at) => {
            cluster.facts.instances.iter_mut().skip(at).take(1).for_each(|instance| instance.is_stopped = true)
        }
        Blow::Start(at) => {
            cluster.facts.instances.iter_mut().skip(at).take(1).for_each(|instance| instance.is_stopped = false)
        }
        Blow::Stuck(at) => {
            for instance in cluster.facts.instances.iter_mut().skip(at).take(1) {
                let next = instance.next.as_mut().map(|next| &mut next.pod);
                let ordered = instance.main.as_mut().into_iter().chain(next).filter(|pod| pod.created.is_none());
                ordered.for_each(|pod| pod.unschedulable_since = Some(now));
            }
        }
        Blow::Pass(ticks) => (0..ticks).for_each(|_| cluster.pass()),
    }
}

/// Ends the faults: pushes a good revision, resumes the rollout, gives all units room and confirms each batch.
fn calm(cluster: &mut RolloutCluster, latest: u32) {
    cluster.facts.equals.clear();
    cluster.facts.is_rollback = false;
    cluster.facts.state.is_frozen = false;
    cluster.roll_out(latest + 1).say(Control::Resume);
    for instance in &mut cluster.facts.instances {
        let next = instance.next.as_mut().map(|next| &mut next.pod);
        instance.main.as_mut().into_iter().chain(next).for_each(|pod| {
            pod.unschedulable_since = None;
            pod.signs.restarts = 0;
        });
    }
    let mut quiet = 0;
    for _ in 0..600 {
        let decision = cluster.decide_and_confirm();
        quiet = if decision.actions.is_empty() && decision.report.status == RolloutStatus::Complete {
            quiet + 1
        } else {
            0
        };
        if quiet > 4 {
            return;
        }
        cluster.pass();
    }
}

property! {
    fn after_any_faults_the_group_converges(
        strategy in any_strategy(), sizes in prop::collection::vec(0..5usize, 1..4),
        blows in prop::collection::vec(any_blow(), 0..40), started: bool,
        action in prop::sample::select(vec![FailureAction::Hold, FailureAction::Rollback, FailureAction::Continue]),
        reschedules in prop::option::of(prop::sample::select(vec![FailBack::Lazy, FailBack::Eager])),
    ) {
        let mut cluster = RolloutCluster::settled(strategy, &sizes);
        (cluster.start, cluster.end) = (1, 1);
        cluster.facts.settings.replacement = started.then_some(PodReplacement::Started);
        cluster.facts.settings.failure_action = action;
        cluster.facts.settings.deadline = Some(Duration::from_secs(20));
        let delay = Duration::from_secs(2);
        cluster.facts.settings.auto_reschedule = reschedules.map(|fail_back| AutoReschedule { delay, fail_back });
        let mut latest = 1;
        for blow in blows {
            suffer(&mut cluster, blow, &mut latest);
            let response = cluster.decide().response;
            if let FailureResponse::Rollback(_) = response {
                suffer(&mut cluster, Blow::Undo, &mut latest);
                cluster.decide();
            }
        }
        calm(&mut cluster, latest);
        let decision = cluster.decide();
        prop_assert_eq!(decision.report.status, RolloutStatus::Complete, "{:?} {:?}", cluster.facts.state, cluster.facts.instances);
        prop_assert_eq!(i64::try_from(cluster.facts.instances.len()).expect("few"), cluster.facts.replicas);
        prop_assert!(cluster.pods().all(|pod| pod.revision == latest + 1));
        prop_assert!(cluster.facts.instances.iter().all(|instance| instance.next.is_none() && instance.leaving == 0));
        let targets = cluster.facts.state.allotment.targets.clone();
        let in_unit = |at: usize| cluster.facts.instances.iter().filter(|instance| instance.unit == at).count();
        let there: Vec<i64> = (0..targets.len()).map(|at| i64::try_from(in_unit(at)).expect("few")).collect();
        prop_assert_eq!(there, targets);
    }

    fn a_leader_change_at_any_point_changes_nothing(
        strategy in any_strategy(), sizes in prop::collection::vec(0..5usize, 1..4),
        blows in prop::collection::vec(any_blow(), 0..20),
    ) {
        let mut worlds = [true, false].map(|is_led_by_one| {
            let mut cluster = RolloutCluster::settled(strategy, &sizes);
            (cluster.start, cluster.end, cluster.is_led_by_one) = (1, 1, is_led_by_one);
            (cluster, 1)
        });
        for blow in blows {
            let [one, many] = &mut worlds;
            for (cluster, latest) in [&mut *one, &mut *many] {
                suffer(cluster, blow.clone(), latest);
                cluster.decide();
            }
            prop_assert_eq!(&one.0.facts, &many.0.facts);
        }
        prop_assert_eq!(&worlds[0].0.history, &worlds[1].0.history);
    }
}
