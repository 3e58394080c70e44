//! The experiments by name: faults, number of clusters and time limit.
//!
//! The supervisor restarts processes with a growing back-off, hence several clusters for many kills in a short time.

use std::time::Duration;
use testkit::random::Random;

use crate::chaos::docker_proxy::{EngineCall, KillMoment, KillPoint};
use crate::chaos::fault::{Fault, any_kills};
use crate::chaos::scenario::engine_loss::EngineFault;
use crate::chaos::scenario::node_cut::Cut;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Short,
    Usual,
    Long,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trial {
    Kills(Vec<Fault>),
    NodeCut { cuts: Vec<Cut> },
    EngineLoss { faults: Vec<EngineFault> },
    AgentSteps { points: Vec<KillPoint> },
    StreamLoss { times: usize },
    StoreStop { lasting: Duration },
    Malformed { each: usize },
}

#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) trials: Vec<Trial>,
    /// Time limit of each pair of clusters.
    pub(crate) limit: Duration,
    /// Goal for accepted commands, shown beside their number.
    pub(crate) accepted: Option<&'static str>,
}

pub(crate) const NAMES: [&str; 9] = [
    "leader-kill",
    "any-kill",
    "leader-stop",
    "node-cut",
    "engine-loss",
    "agent-steps",
    "stream-loss",
    "store-stop",
    "malformed",
];
/// In the short form: some faults of the first three experiments on one cluster.
const KILLS: &str = "kills";
/// Three times what a pair of clusters takes on an idle machine.
const LIMIT: Duration = Duration::from_secs(420);

pub(crate) fn experiments(size: Size, only: Option<&str>, seed: u64) -> Vec<Experiment> {
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    let mut names = NAMES.as_slice();
    if size == Size::Short && only.is_none() {
        let mut faults = vec![Fault::KillLeader, Fault::StopLeader, Fault::TermLeader];
        faults.extend(any_kills(8, &mut random));
        all.push(Experiment { name: KILLS, trials: vec![Trial::Kills(faults)], limit: LIMIT, accepted: None });
        names = &NAMES[3..];
    }
    for name in names.iter().filter(|name| only.is_none_or(|only| only == **name)) {
        let trials = (0..clusters(name, size)).map(|_| trial(name, size, &mut random)).collect();
        let accepted = (size == Size::Long && *name == "any-kill").then_some(">= 10,000");
        all.push(Experiment { name, trials, limit: LIMIT, accepted });
    }
    all
}

fn clusters(name: &str, size: Size) -> usize {
    match (size, name) {
        (Size::Short, _) => 1,
        (Size::Usual, "leader-kill" | "any-kill" | "leader-stop" | "node-cut") => 2,
        (Size::Usual, _) => 1,
        (Size::Long, "leader-kill" | "any-kill" | "leader-stop" | "node-cut") => 10,
        (Size::Long, _) => 5,
    }
}

fn trial(name: &str, size: Size, random: &mut Random) -> Trial {
    let short = size == Size::Short;
    match name {
        "leader-kill" => {
            let mut faults = vec![Fault::KillLeader; if short { 2 } else { 10 }];
            faults.push(Fault::TermLeader);
            Trial::Kills(faults)
        }
        "any-kill" => Trial::Kills(any_kills(if short { 8 } else { 30 }, random)),
        "leader-stop" => Trial::Kills(vec![Fault::StopLeader; if short { 1 } else { 5 }]),
        "node-cut" if short => Trial::NodeCut { cuts: vec![Cut::Below, Cut::Beyond] },
        "node-cut" => Trial::NodeCut { cuts: vec![Cut::Below, Cut::Below, Cut::Beyond] },
        "engine-loss" if short => Trial::EngineLoss { faults: vec![EngineFault::KillLosing, EngineFault::Stop] },
        "engine-loss" => {
            let all = [EngineFault::KillKeeping, EngineFault::KillLosing, EngineFault::Stop];
            Trial::EngineLoss { faults: random.shuffled([all, all].concat()) }
        }
        "agent-steps" if short => Trial::AgentSteps { points: one_moment_each(random) },
        "agent-steps" => Trial::AgentSteps { points: random.shuffled(KillPoint::all()) },
        "stream-loss" => Trial::StreamLoss { times: if short { 1 } else { 3 } },
        "store-stop" => Trial::StoreStop { lasting: Duration::from_secs(if short { 12 } else { 60 }) },
        _ => Trial::Malformed { each: if short { 100 } else { 1_000 } },
    }
}

/// Every engine call, each at a random moment.
fn one_moment_each(random: &mut Random) -> Vec<KillPoint> {
    let moments = [KillMoment::Requested, KillMoment::Done, KillMoment::Answered];
    let steps = [EngineCall::Create, EngineCall::Start, EngineCall::Stop, EngineCall::Remove];
    steps.map(|step| KillPoint { step, moment: moments[random.index(moments.len())] }).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_the_documented_number_of_kills() {
        let kills = |size| {
            let of = |trial: &Trial| if let Trial::Kills(faults) = trial { faults.len() } else { 0 };
            let all = experiments(size, None, 1);
            all.iter()
                .map(|one| one.trials.iter().map(of).sum::<usize>())
                .filter(|count| *count > 0)
                .collect::<Vec<_>>()
        };
        assert_eq!(kills(Size::Usual), [22, 60, 10]);
        assert_eq!(kills(Size::Long), [110, 300, 50]);
        assert_eq!(kills(Size::Short), [11]);
    }

    #[test]
    fn every_form_has_every_experiment() {
        let names = |size| experiments(size, None, 1).iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names(Size::Usual), NAMES);
        assert_eq!(names(Size::Long), NAMES);
        assert_eq!(names(Size::Short), [&[KILLS], &NAMES[3..]].concat());
    }

    #[test]
    fn every_experiment_runs_alone_in_every_form() {
        for size in [Size::Short, Size::Usual, Size::Long] {
            for name in NAMES {
                let all = experiments(size, Some(name), 1);
                assert_eq!(all.iter().map(|one| one.name).collect::<Vec<_>>(), [name]);
                assert!(!all[0].trials.is_empty());
            }
        }
    }

    #[test]
    fn an_agent_dies_at_every_step_in_the_short_form_too() {
        let [Experiment { trials, .. }] = &experiments(Size::Short, Some("agent-steps"), 3)[..] else { panic!("one") };
        let Trial::AgentSteps { points } = &trials[0] else { panic!("{trials:?}") };
        let steps: Vec<EngineCall> = points.iter().map(|point| point.step).collect();
        assert_eq!(steps, [EngineCall::Create, EngineCall::Start, EngineCall::Stop, EngineCall::Remove]);
    }
}
