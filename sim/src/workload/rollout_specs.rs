//! Groups with a strategy, and changes of their specs.
//!
//! Most specs of one group differ only in image or limits, so that many changes can be made in place.

use contract::name::GroupName;
use contract::rollout::{
    Amount, AutoReschedule, Drain, FailBack, FailureAction, PodReplacement, Spread, Strategy, StrategyType, Topology,
    UnitType, UpdatePolicy,
};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::time::Timestamp;
use testkit::random::Random;

use crate::workload::specs;

/// No node is in the last unit.
const UNITS: [&str; 3] = ["a", "b", "c"];
pub const GATE: &str = "traffic";

pub fn unit_of(node: usize) -> &'static str {
    UNITS[node % 2]
}

/// The name of a group determines the part that its pod specs share.
pub fn names(count: usize, seed: u64) -> Vec<GroupName> {
    (0..count).filter_map(|number| format!("roll{number}{}.web.web", seed % 40).parse().ok()).collect()
}

pub fn group(name: &GroupName, at: Timestamp, random: &mut Random) -> Box<PodGroupSpec> {
    let pod = pod(name, 4, random);
    let spec = PodGroupSpec {
        name: name.to_string(),
        namespace: pod.namespace.clone(),
        num_instances: i64::try_from(random.between(1, 6)).unwrap_or(1),
        pod,
        ..fields(random)
    };
    Box::new(spec.for_creation(at))
}

/// The fields of a spec that describe rollouts; all others have their default.
pub fn fields(random: &mut Random) -> PodGroupSpec {
    let strategy = strategy(random);
    let is_grouped = matches!(strategy.kind, StrategyType::Batch | StrategyType::Beta);
    let topology = random.chance(45).then(|| topology(is_grouped, random));
    let is_gated = random.chance(15);
    let is_recreated = strategy.kind == StrategyType::Recreate;
    let policies = [UpdatePolicy::ReCreate, UpdatePolicy::InPlaceIfPossible, UpdatePolicy::InPlaceOnly];
    let in_place = if random.chance(40) { *random.pick(&policies).unwrap_or(&policies[0]) } else { policies[0] };
    let actions = [FailureAction::Hold, FailureAction::Rollback, FailureAction::Continue];
    let min_ready_seconds = random.chance(50).then(|| i64::try_from(random.below(5)).unwrap_or(0));
    PodGroupSpec {
        strategy: Some(strategy),
        topology,
        min_ready_seconds,
        // Shorter than the phase without faults, so that a stuck rollout fails before the end.
        progress_deadline_seconds: Some(i64::try_from(random.between(40, 120)).unwrap_or(60)),
        pod_replacement: random.chance(20).then_some(PodReplacement::Complete),
        update_policy: if is_recreated { UpdatePolicy::ReCreate } else { in_place },
        // With Rollback as the default action, half of the groups that roll back do not name it.
        failure_action: random
            .pick(&actions)
            .copied()
            .filter(|action| *action != FailureAction::Rollback || min_ready_seconds.is_some()),
        readiness_gates: if is_gated { vec![GATE.to_owned()] } else { Vec::new() },
        drain: random.chance(20).then(|| drain(random)),
        ..PodGroupSpec::default()
    }
}

fn strategy(random: &mut Random) -> Strategy {
    let amount = |random: &mut Random| match random.below(4) {
        0 => Amount::Count(1),
        1 => Amount::Count(2),
        2 => Amount::Percent(25),
        _ => Amount::Percent(50),
    };
    match random.below(10) {
        0..5 => {
            let none = random.below(3);
            let given = |is_none: bool, random: &mut Random| {
                if is_none { Some(Amount::Count(0)) } else { random.chance(80).then(|| amount(random)) }
            };
            Strategy {
                kind: StrategyType::RollingUpdate,
                max_surge: given(none == 0, random),
                max_unavailable: given(none == 1, random),
                ..Strategy::default()
            }
        }
        5 => Strategy { kind: StrategyType::Recreate, ..Strategy::default() },
        kind => {
            let batch_size = random.chance(80).then(|| amount(random));
            let need_waiting_for_confirm = random.chance(50);
            Strategy {
                kind: if kind < 8 { StrategyType::Batch } else { StrategyType::Beta },
                batch_size,
                need_waiting_for_confirm,
                confirm_first_deployment: need_waiting_for_confirm && batch_size.is_none(),
                window: random.chance(20).then_some(1),
                ..Strategy::default()
            }
        }
    }
}

fn topology(is_grouped: bool, random: &mut Random) -> Topology {
    // The unit has no nodes: the topology gives its share to other units.
    let is_short = random.chance(15);
    let mut values: Vec<String> = UNITS[..2].iter().map(|unit| (*unit).to_owned()).collect();
    if random.chance(30) {
        values.reverse();
    }
    if is_short {
        values.push(UNITS[2].to_owned());
    }
    let spreads = [Spread::Proportional, Spread::Even, Spread::Sequential];
    let spread = *random.pick(&spreads).unwrap_or(&spreads[0]);
    let back = if random.chance(50) { FailBack::Lazy } else { FailBack::Eager };
    let pinned = random.chance(25).then(|| (UNITS[0].to_owned(), Amount::Count(1)));
    Topology {
        unit_type: UnitType::Zone,
        values,
        unit_replicas: pinned.into_iter().collect(),
        auto_reschedule: is_short.then_some(AutoReschedule { enable: true, initial_delay_seconds: 5, fail_back: back }),
        spread: if is_grouped { spread } else { Spread::default() },
        ..Topology::default()
    }
}

fn drain(random: &mut Random) -> Drain {
    let needs_answer = random.chance(40);
    let timeout = i64::try_from(random.between(30, 90)).unwrap_or(60);
    Drain {
        grace_seconds: i64::try_from(random.below(6)).unwrap_or(0),
        needs_answer,
        timeout_seconds: needs_answer.then_some(timeout),
    }
}

/// A pod spec: mostly the shared part with another image or other limits, in 12 % of the cases any spec. `spoiled` percent are
/// not sound.
pub fn pod(name: &GroupName, spoiled: u64, random: &mut Random) -> PodSpec {
    if random.chance(12) {
        let mut pod = specs::pod(name, spoiled, random);
        pod.containers.iter_mut().for_each(|container| container.volumes.clear());
        return PodSpec { stateful: false, ..pod };
    }
    let mut make = make(name);
    let images = ["ill", "dying", "stubborn", "broken"];
    let word = if random.chance(spoiled) { random.pick(&images).copied() } else { None };
    for container in &mut make.containers {
        container.image = format!("{}:{}", word.unwrap_or("demo"), random.below(3));
        container.memory_limit = (64 << 20) * i64::try_from(random.between(1, 2)).unwrap_or(1);
    }
    make
}

/// The part that all pod specs of a group share.
fn make(name: &GroupName) -> PodSpec {
    let sum: u64 = name.as_str().bytes().map(u64::from).sum();
    let mut random = Random::new(sum);
    let pod = specs::pod(name, 0, &mut random);
    let containers = pod
        .containers
        .into_iter()
        .take(1)
        .map(|container| contract::spec::ContainerSpec { volumes: Vec::new(), ..container });
    PodSpec { stateful: false, annotation: String::new(), containers: containers.collect(), ..pod }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_would_accept_every_spec_with_a_strategy() {
        let name: GroupName = "roll0.web.web".parse().expect("a name");
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let spec = group(&name, Timestamp::from_millis(1), &mut random);
            assert_eq!(spec.validate(), Ok(()), "{spec:?}");
            assert!(spec.has_strategy());
        }
    }
}
