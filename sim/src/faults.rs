//! What goes wrong in a history, and when: the plan a seed stands for.
//!
//! Every fault ends before `calm_at`; from there to the end nothing goes wrong and the cluster must come to rest.
//! Seeds differ in size, in the kinds of fault they prefer and in how dense these are.

use std::time::Duration;

use contract::time::Timestamp;

use crate::bus::Weather;
use crate::queue::BEGINNING;
use crate::random::Random;

/// Nothing goes wrong for so long at the end: longer than lost_after, the operation limit and the longest back-off.
const CALM: Duration = Duration::from_secs(420);
/// Faults begin when the first groups are being deployed.
const FIRST_FAULT: u64 = 6_000;

/// Which scheduler a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Whoever holds the leader key then.
    Leader,
    /// This one.
    Seat(usize),
}

/// One thing that goes wrong, or right again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bus treats messages so from now on.
    Weather(Weather),
    /// A scheduler stands still and then goes on where it was.
    Pause {
        /// Which.
        which: Which,
        /// For how long.
        span: Duration,
        /// Not now, but between its next decision and the performing of it.
        armed: bool,
    },
    /// A scheduler dies and starts again.
    KillScheduler {
        /// Which.
        which: Which,
        /// For how long it is away.
        down: Duration,
    },
    /// All schedulers die at once: the next leader has heard nobody.
    KillAllSchedulers {
        /// For how long they are away.
        down: Duration,
    },
    /// A scheduler process starts.
    StartScheduler(usize),
    /// A scheduler does not reach etcd.
    CutStore {
        /// Which.
        which: Which,
        /// For how long.
        span: Duration,
    },
    /// It does again.
    JoinStore(usize),
    /// Commits stay without answer, or take long.
    StoreTrouble {
        /// Unknown results in percent.
        unknown: u64,
        /// Slowest commit in milliseconds.
        slowest: u64,
    },
    /// A node does not reach the bus.
    CutNode {
        /// Which.
        node: usize,
        /// For how long.
        span: Duration,
    },
    /// It does again.
    JoinNode(usize),
    /// An agent dies and starts again; its containers run on.
    KillAgent {
        /// Which.
        node: usize,
        /// For how long it is away.
        down: Duration,
    },
    /// An agent process starts.
    StartAgent(usize),
    /// An agent cannot write its ledger.
    DiskFull {
        /// Which.
        node: usize,
        /// It cannot, or it can again.
        full: bool,
    },
    /// A container of ours ends.
    Crash(u64),
    /// A container of ours is removed by somebody else.
    Vanish(u64),
    /// An engine goes away and everything on it ends.
    EngineDown {
        /// Which.
        engine: usize,
        /// For how long.
        span: Duration,
    },
    /// It is back.
    EngineUp(usize),
    /// Engines refuse steps and lose answers.
    EngineTrouble {
        /// Refused in percent.
        refuses: u64,
        /// Answers lost in percent.
        loses: u64,
    },
    /// The stream of commands is lost and created anew.
    RecreateStream,
}

/// Everything a seed decides before the history begins.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Schedulers.
    pub schedulers: usize,
    /// Nodes.
    pub nodes: usize,
    /// Engines; fewer than nodes when some share one.
    pub engines: usize,
    /// Clocks of agents are wrong by at most so many milliseconds.
    pub skew: u64,
    /// What goes wrong.
    pub faults: Vec<(Timestamp, Fault)>,
    /// From here on nothing goes wrong.
    pub calm_at: Timestamp,
    /// The end.
    pub end: Timestamp,
}

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed).fork(1);
        let nodes = random.index(3) + 3;
        let engines = if random.chance(40) { nodes - 1 - random.index(2) } else { nodes };
        let trouble = Duration::from_millis(random.between(40_000, 150_000));
        let calm_at = BEGINNING + trouble;
        let mut plan = Self {
            seed,
            schedulers: random.index(2) + 2,
            nodes,
            engines,
            skew: if random.chance(40) { 600_000 } else { 50 },
            faults: Vec::new(),
            calm_at,
            end: calm_at + CALM,
        };
        let count = random.between(2, 14);
        for _ in 0..count {
            let at = BEGINNING + random.span(FIRST_FAULT, u64::try_from(trouble.as_millis()).unwrap_or(0) - 1_000);
            let longest = u64::try_from(calm_at.since(at).as_millis()).unwrap_or(0);
            plan.add(at, longest, &mut random);
        }
        plan.calm_down(calm_at);
        plan.faults.sort_by_key(|(at, _)| *at);
        plan
    }

    fn add(&mut self, at: Timestamp, longest: u64, random: &mut Random) {
        let kind = random.below(100);
        let mut span = |low: u64, high: u64| random.span(low, high).min(Duration::from_millis(longest));
        let short = span(500, 12_000);
        let long = span(4_000, 100_000);
        match kind {
            0..20 => self.add_weather(at, long, random),
            20..62 => self.add_scheduler_fault(at, (short, long), random),
            62..82 => self.add_node_fault(at, (short, long), random),
            82..87 => self.add_engine_fault(at, (short, long), random),
            87..93 => self.faults.push((at, Fault::Crash(random.number()))),
            93..98 => self.faults.push((at, Fault::Vanish(random.number()))),
            _ => self.faults.push((at, Fault::RecreateStream)),
        }
    }

    fn add_weather(&mut self, at: Timestamp, span: Duration, random: &mut Random) {
        let weather = Weather {
            loss: random.between(0, 40),
            doubled: random.between(0, 40),
            slowest: *random.pick(&[20, 400, 4_000]).unwrap_or(&20),
        };
        self.faults.push((at, Fault::Weather(weather)));
        self.faults.push((at + span, Fault::Weather(Weather::CALM)));
    }

    fn add_scheduler_fault(&mut self, at: Timestamp, (short, long): (Duration, Duration), random: &mut Random) {
        let seat = Which::Seat(random.index(self.schedulers));
        let which = if random.chance(80) { Which::Leader } else { seat };
        let fault = match random.below(100) {
            0..40 => {
                Fault::Pause { which, span: if random.chance(70) { long } else { short }, armed: random.chance(70) }
            }
            40..65 => Fault::KillScheduler { which, down: short },
            65..75 => Fault::KillAllSchedulers { down: short },
            75..85 => Fault::CutStore { which, span: long },
            _ => {
                let trouble =
                    Fault::StoreTrouble { unknown: random.between(5, 50), slowest: random.between(20, 3_000) };
                self.faults.push((at + long, Fault::StoreTrouble { unknown: 0, slowest: 20 }));
                trouble
            }
        };
        self.faults.push((at, fault));
    }

    fn add_node_fault(&mut self, at: Timestamp, (short, long): (Duration, Duration), random: &mut Random) {
        let node = random.index(self.nodes);
        match random.below(100) {
            0..30 => self.faults.push((at, Fault::CutNode { node, span: long })),
            30..55 => self.faults.push((at, Fault::CutNode { node, span: short })),
            55..88 => {
                self.faults.push((at, Fault::KillAgent { node, down: if random.chance(70) { short } else { long } }))
            }
            _ => {
                self.faults.push((at, Fault::DiskFull { node, full: true }));
                self.faults.push((at + short, Fault::DiskFull { node, full: false }));
            }
        }
    }

    fn add_engine_fault(&mut self, at: Timestamp, (short, long): (Duration, Duration), random: &mut Random) {
        if random.chance(50) {
            self.faults.push((at, Fault::EngineDown { engine: random.index(self.engines), span: short }));
        } else {
            let trouble = Fault::EngineTrouble { refuses: random.between(0, 30), loses: random.between(0, 30) };
            self.faults.push((at, trouble));
            self.faults.push((at + long, Fault::EngineTrouble { refuses: 0, loses: 0 }));
        }
    }

    /// Whatever overlapping faults left behind ends here.
    fn calm_down(&mut self, at: Timestamp) {
        let all = (0..self.nodes)
            .flat_map(|node| [Fault::JoinNode(node), Fault::StartAgent(node), Fault::DiskFull { node, full: false }]);
        let schedulers = (0..self.schedulers).flat_map(|seat| [Fault::JoinStore(seat), Fault::StartScheduler(seat)]);
        let engines = (0..self.engines).map(Fault::EngineUp);
        let rest = [
            Fault::Weather(Weather::CALM),
            Fault::StoreTrouble { unknown: 0, slowest: 20 },
            Fault::EngineTrouble { refuses: 0, loses: 0 },
        ];
        self.faults.extend(all.chain(schedulers).chain(engines).chain(rest).map(|fault| (at, fault)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_plan_and_every_fault_is_over_when_calm_begins() {
        for seed in 0..50 {
            let plan = Plan::new(seed);
            assert_eq!(plan.faults, Plan::new(seed).faults);
            assert!(plan.faults.iter().all(|(at, _)| *at <= plan.calm_at), "seed {seed}");
        }
    }
}
