//! Plans match what happens: 1,000 pairs of specs are planned, then applied by the real scheduler and agents in a world without
//! faults.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use contract::command::{Decision, RolloutAction, Verb};
use contract::keys;
use contract::name::GroupName;
use contract::query::{Answer, Query};
use contract::rollout::{PodReplacement, StrategyType, UpdatePolicy};
use contract::rollout_view::{InstanceChange, PlanView};
use contract::spec::{HealthConfig, PodGroupSpec, PodSpec};
use planner::rollout::controller::RolloutState;
use planner::rollout::transition::RolloutPhase;
use sim::checks::rollout_changes::{self, RolloutStep};
use sim::workload::rollout_specs;
use sim::world::faultless::FaultlessWorld;
use testkit::random::Random;

use super::for_each_seed;

const PAIRS: u64 = 1_000;
/// A rollout of a few instances takes fewer steps of time.
const MOST_MOMENTS: u32 = 2_000;

struct Pair {
    before: PodGroupSpec,
    after: PodGroupSpec,
}

/// How precisely a plan must match the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// The same actions in the same steps.
    Steps,
    /// The same actions for the same instances in each batch. Pods that become ready one after another split a step.
    Groups,
    /// The same change of each instance. Which instance surges and which is replaced, and which new instances a batch takes, depends on
    /// which pod becomes ready or terminates first.
    Changes,
}

fn pair(name: &GroupName, seed: u64) -> Pair {
    let mut random = Random::new(seed).fork(5);
    let mut before = *rollout_specs::group(name, sim::world::event_queue::BEGINNING, &mut random);
    before.num_instances = i64::try_from(random.between(1, 12)).unwrap_or(1);
    before.pod = sound(rollout_specs::pod(name, 0, &mut random), seed);
    if let Some(topology) = &mut before.topology {
        // A unit without room is rescheduled only after a delay, which is not part of a plan.
        topology.values.retain(|unit| unit != "c");
        topology.auto_reschedule = None;
    }
    before.readiness_gates.clear();
    before.drain = None;
    before.update_policy = match before.update_policy {
        UpdatePolicy::InPlaceOnly => UpdatePolicy::InPlaceIfPossible,
        policy => policy,
    };
    if random.chance(70) {
        before.min_ready_seconds = Some(i64::try_from(random.between(1, 4)).unwrap_or(1));
    }
    let mut after = before.clone();
    let (changes_pod, changes_count) = match random.below(10) {
        0..7 => (true, false),
        7 => (false, true),
        _ => (true, true),
    };
    if changes_pod {
        after.pod = sound(rollout_specs::pod(name, 0, &mut random), seed);
    }
    if changes_count {
        after.num_instances = i64::try_from(random.between(0, 12)).unwrap_or(1);
    }
    Pair { before, after }
}

/// A sound pod with a health check, so that it becomes ready together with all others.
fn sound(pod: PodSpec, seed: u64) -> PodSpec {
    let health_config = HealthConfig { cmd: "check".to_owned(), ..pod.health_config };
    let containers = pod.containers.into_iter().map(|container| contract::spec::ContainerSpec {
        memory_limit: container.memory_limit.min(256 << 20),
        volumes: Vec::new(),
        ..container
    });
    let containers = containers.collect();
    let annotation = if seed.is_multiple_of(3) { pod.annotation } else { String::new() };
    PodSpec { health_config, containers, annotation, dependencies: Vec::new(), stateful: false, setup_time: 0, ..pod }
}

/// Runs until the rollout has completed, and confirms every batch.
fn play(world: &mut FaultlessWorld, name: &GroupName) -> Result<(), String> {
    for _ in 0..MOST_MOMENTS {
        let Some(release) = world.store.read::<RolloutState>(&keys::release(name)) else {
            world.pass();
            continue;
        };
        let record = world.store.group(name).ok_or("the group is gone")?;
        if release.phase == RolloutPhase::Completed
            && release.target == record.spec.version
            && is_still(world, &record.spec)
        {
            return Ok(());
        }
        if release.phase == RolloutPhase::WaitingForConfirm && release.confirmed != release.batch {
            let action = RolloutAction::Confirm { group: release.batch };
            world.command(Verb::Rollout { name: name.clone(), release: None, action });
        }
        world.pass();
    }
    Err(format!("the rollout does not complete: {:?}", world.snapshots.last()))
}

/// As many instances as requested, each with one pod.
fn is_still(world: &FaultlessWorld, spec: &PodGroupSpec) -> bool {
    let instances = world.snapshots.last().map_or(&[][..], |snapshot| &snapshot.instances);
    let present = instances.iter().filter(|instance| instance.presence != contract::record::Presence::Free);
    let is_single = instances.iter().all(|instance| instance.next.is_none() && instance.leaves.is_none());
    i64::try_from(present.count()).unwrap_or(0) == spec.num_instances && is_single
}

fn apply(world: &mut FaultlessWorld, name: &GroupName, pair: &Pair) -> Result<(), String> {
    // Scheduling is off until all commands have arrived: a plan covers the whole change.
    let mut verbs = vec![Verb::RunEngine { running: false }];
    if pair.after.num_instances != pair.before.num_instances {
        let num_instances = u32::try_from(pair.after.num_instances).unwrap_or(0);
        verbs.push(Verb::Replica { name: name.clone(), num_instances, restart_policy: None });
    }
    if !pair.after.pod.asks_the_same(&pair.before.pod) {
        let pod = Box::new(pair.after.pod.clone());
        verbs.push(Verb::PatchSpec { name: name.clone(), pod, cause: String::new() });
    }
    verbs.push(Verb::RunEngine { running: true });
    for outcome in world.commands(verbs) {
        if outcome.decision != Decision::Accepted {
            return Err(format!("{outcome:?}"));
        }
    }
    Ok(())
}

fn comparison(pair: &Pair, plan: &PlanView) -> Comparison {
    let is_live = plan.changes.values().any(|change| *change == InstanceChange::InPlace)
        && pair.after.update_policy != UpdatePolicy::ReCreate;
    let is_counted_gone = pair.before.pod_replacement == Some(PodReplacement::Complete);
    let is_timed = pair.before.min_ready_seconds.is_some_and(|seconds| seconds > 0);
    let is_together = is_timed && !is_live && !is_counted_gone;
    let is_rolling = pair.before.strategy_type() == StrategyType::RollingUpdate;
    let is_grown = pair.before.num_instances != pair.after.num_instances;
    match (is_together, is_rolling || is_grown) {
        (true, _) => Comparison::Steps,
        (false, false) => Comparison::Groups,
        (false, true) => Comparison::Changes,
    }
}

/// The same actions in the same steps, but of other instances.
const OTHER_INSTANCES: &str = "other instances in the same steps";

/// Which instance comes next depends on the nodes of the others, and a terminating pod counts for a moment that a plan does not
/// know. So a few of 1,000 plans may name other instances.
const MOST_OTHER_INSTANCES: usize = 3;

/// The actions of each step, without their instances.
fn kinds(steps: &[RolloutStep]) -> Vec<Vec<String>> {
    let kinds = |step: &RolloutStep| {
        let mut kinds: Vec<String> = step.actions.iter().map(|(_, kind, unit)| format!("{kind} {unit}")).collect();
        kinds.sort();
        kinds
    };
    steps.iter().map(kinds).collect()
}

fn difference(plan: &PlanView, world: &FaultlessWorld, comparison: Comparison) -> Option<String> {
    let (planned, observed) = (rollout_changes::planned(plan), rollout_changes::steps(&world.snapshots));
    let show = |steps: &[RolloutStep]| steps.iter().map(|step| format!("\n    {step:?}")).collect::<String>();
    let differs = |what: &str| Some(format!("{what}\n  planned:{}\n  observed:{}", show(&planned), show(&observed)));
    if comparison == Comparison::Steps && planned != observed {
        return differs(if kinds(&planned) == kinds(&observed) { OTHER_INSTANCES } else { "other steps" });
    }
    if comparison == Comparison::Groups && rollout_changes::by_group(&planned) != rollout_changes::by_group(&observed) {
        return differs("other groups");
    }
    let (first, last) = (world.snapshots.first()?, world.snapshots.last()?);
    let changes = rollout_changes::changes(first, last);
    if changes != plan.changes {
        return differs(&format!("other changes: planned {:?}, observed {changes:?}", plan.changes));
    }
    None
}

fn compare(seed: u64) -> Result<Comparison, String> {
    let name: GroupName = format!("roll{}.web.web", seed % 20).parse().map_err(|error| format!("{error:?}"))?;
    let pair = pair(&name, seed);
    let mut world = FaultlessWorld::new(4, &name);
    let is_new = seed.is_multiple_of(10);
    let wanted = if is_new { &pair.before } else { &pair.after };
    if !is_new {
        let outcome = world.command(Verb::CreateGroup { spec: Box::new(pair.before.clone()) });
        if outcome.decision != Decision::Accepted {
            return Err(format!("{outcome:?}"));
        }
        play(&mut world, &name)?;
    }
    world.rest();
    world.forget();
    let Answer::Plan(plan) = world.ask(Query::Plan { spec: Box::new(wanted.clone()), within_millis: None }) else {
        return Err("the answer is not a plan".to_owned());
    };
    let plan = plan.map_err(|refusal| format!("refused: {refusal:?}"))?;
    if is_new {
        world.command(Verb::CreateGroup { spec: Box::new(pair.before.clone()) });
    } else {
        apply(&mut world, &name, &pair)?;
    }
    play(&mut world, &name)?;
    let comparison = comparison(&pair, &plan);
    let strategy = serde_json::to_string(&wanted.strategy).unwrap_or_default();
    match difference(&plan, &world, comparison) {
        None => Ok(comparison),
        Some(difference) => {
            let (from, to) = (pair.before.num_instances, pair.after.num_instances);
            let rest = format!("{:?} {:?} {:?}", wanted.topology, wanted.update_policy, wanted.pod_replacement);
            Err(format!("{from} to {to} by {strategy} {rest} {:?}: {difference}", wanted.min_ready_seconds))
        }
    }
}

#[test]
fn plans_match_what_happens() {
    let (failed, counts) = (Mutex::new(Vec::new()), [const { AtomicU64::new(0) }; 3]);
    for_each_seed(PAIRS, |seed| {
        match compare(seed) {
            Ok(comparison) => drop(counts[comparison as usize].fetch_add(1, Ordering::Relaxed)),
            Err(wrong) => failed.lock().unwrap().push((seed, wrong)),
        }
        true
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort();
    let counts = counts.map(AtomicU64::into_inner);
    println!("{} pairs compared by steps, {} by batches, {} by changes", counts[0], counts[1], counts[2]);
    let (renamed, failed): (Vec<_>, Vec<_>) =
        failed.into_iter().partition(|(_, wrong)| wrong.contains(OTHER_INSTANCES));
    let shown: Vec<String> = renamed.iter().map(|(seed, wrong)| format!("pair {seed}: {wrong}")).collect();
    assert!(renamed.len() <= MOST_OTHER_INSTANCES, "{}", shown.join("\n"));
    let shown: Vec<String> = failed.iter().take(8).map(|(seed, wrong)| format!("pair {seed}: {wrong}")).collect();
    assert!(failed.is_empty(), "{} of {PAIRS} plans differ from what happened\n{}", failed.len(), shown.join("\n"));
    assert!(counts[0] > PAIRS / 2, "too few were compared step by step: {counts:?}");
}

#[test]
fn a_plan_without_changes_is_empty() {
    let name: GroupName = "roll0.web.web".parse().unwrap();
    for seed in 0..20 {
        let pair = pair(&name, seed);
        let mut world = FaultlessWorld::new(4, &name);
        world.command(Verb::CreateGroup { spec: Box::new(pair.before.clone()) });
        play(&mut world, &name).unwrap();
        let Answer::Plan(Ok(plan)) =
            world.ask(Query::Plan { spec: Box::new(pair.before.clone()), within_millis: None })
        else {
            panic!("seed {seed}: no plan");
        };
        assert!(plan.steps.is_empty(), "seed {seed}: {:?}", plan.steps);
        assert!(
            plan.changes.values().all(|change| *change == InstanceChange::Untouched),
            "seed {seed}: {:?}",
            plan.changes
        );
    }
}
