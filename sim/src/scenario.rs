//! The scenario of a seed: the size of the world, its faults and their times.
//!
//! A history has two phases. Until `calm_at` faults occur, and no invariant may break. From `calm_at` to the end there are no
//! faults, and the cluster must converge to what its users requested. Seeds differ in size, kinds and density of faults.

use std::time::Duration;

use contract::time::Timestamp;
use testkit::random::Random;

use crate::faults::{Fault, Target};
use crate::world::bus::BusConditions;
use crate::world::event_queue::BEGINNING;

/// Length of the phase without faults: longer than lost_after, the operation limit and the longest back-off.
const CALM: Duration = Duration::from_secs(480);
/// Shortest and longest phase with faults, in milliseconds.
const TROUBLE: (u64, u64) = (120_000, 240_000);
/// The first fault, in milliseconds: the first groups are then being deployed.
const FIRST_FAULT: u64 = 6_000;
/// Memory of a node for pods, in MiB, unless a fault reduces it.
pub const MEMORY: u64 = 64 << 10;

#[derive(Debug, Clone, Copy)]
struct Spans {
    short: Duration,
    long: Duration,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub schedulers: usize,
    pub nodes: usize,
    /// Fewer than nodes if some nodes share an engine.
    pub engines: usize,
    /// Largest clock error of agents, in milliseconds.
    pub skew: u64,
    /// Largest clock error of schedulers, in milliseconds.
    pub scheduler_skew: u64,
    pub faults: Vec<(Timestamp, Fault)>,
    /// No fault after this time.
    pub calm_at: Timestamp,
    pub end: Timestamp,
}

impl Scenario {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed).fork(1);
        let nodes = random.index(3) + 3;
        let engines = if random.chance(40) { nodes - 1 - random.index(2) } else { nodes };
        let trouble = Duration::from_millis(random.between(TROUBLE.0, TROUBLE.1));
        let calm_at = BEGINNING + trouble;
        let mut scenario = Self {
            seed,
            schedulers: random.index(2) + 2,
            nodes,
            engines,
            skew: if random.chance(40) { 600_000 } else { 50 },
            scheduler_skew: if random.chance(30) { 1_500 } else { 0 },
            faults: Vec::new(),
            calm_at,
            end: calm_at + CALM,
        };
        let count = random.between(3, 22);
        for _ in 0..count {
            let at = BEGINNING + random.span(FIRST_FAULT, u64::try_from(trouble.as_millis()).unwrap_or(0) - 1_000);
            let longest = calm_at.since(at);
            let mut span = |low: u64, high: u64| random.span(low, high).min(longest);
            let spans = Spans { short: span(500, 12_000), long: span(4_000, 100_000) };
            scenario.add(at, spans, &mut random);
        }
        scenario.calm_down(calm_at);
        scenario.faults.sort_by_key(|(at, _)| *at);
        scenario
    }

    fn add(&mut self, at: Timestamp, spans: Spans, random: &mut Random) {
        match random.below(100) {
            0..16 => self.add_bus_conditions(at, spans.long, random),
            16..50 => self.add_scheduler_fault(at, spans, random),
            50..62 => self.add_store_fault(at, spans, random),
            62..80 => self.add_node_fault(at, spans, random),
            80..88 => self.add_engine_fault(at, spans, random),
            88..98 => self.add_container_fault(at, random),
            _ => self.faults.push((at, Fault::RecreateStream)),
        }
    }

    fn add_bus_conditions(&mut self, at: Timestamp, span: Duration, random: &mut Random) {
        let conditions = BusConditions {
            loss: random.between(0, 40),
            duplicated: random.between(0, 40),
            slowest: *random.pick(&[20, 400, 4_000]).unwrap_or(&20),
        };
        self.faults.push((at, Fault::BusConditions(conditions)));
        self.faults.push((at + span, Fault::BusConditions(BusConditions::HEALTHY)));
    }

    fn add_scheduler_fault(&mut self, at: Timestamp, Spans { short, long }: Spans, random: &mut Random) {
        let scheduler = Target::Scheduler(random.index(self.schedulers));
        let which = if random.chance(80) { Target::Leader } else { scheduler };
        let either = if random.chance(70) { long } else { short };
        let fault = match random.below(100) {
            0..40 => Fault::Pause { which, span: either, armed: random.chance(70) },
            40..65 => Fault::KillScheduler { which, down: short },
            65..75 => Fault::KillAllSchedulers { down: short },
            75..88 => Fault::CutStore { which, span: long },
            _ => Fault::CutBus { which, span: either },
        };
        self.faults.push((at, fault));
    }

    fn add_store_fault(&mut self, at: Timestamp, Spans { short, long }: Spans, random: &mut Random) {
        match random.below(100) {
            0..45 => {
                let trouble =
                    Fault::StoreTrouble { unknown: random.between(5, 50), slowest: random.between(20, 3_000) };
                self.faults.push((at, trouble));
                self.faults.push((at + long, Fault::StoreTrouble { unknown: 0, slowest: 20 }));
            }
            45..65 => self.faults.push((at, Fault::Compact)),
            65..85 => {
                let span = if random.chance(50) { short } else { long };
                self.faults.push((at, Fault::StoreFull(true)));
                self.faults.push((at + span, Fault::StoreFull(false)));
            }
            _ => self.faults.push((at, Fault::QuorumLost { span: if random.chance(70) { short } else { long } })),
        }
    }

    fn add_node_fault(&mut self, at: Timestamp, Spans { short, long }: Spans, random: &mut Random) {
        let node = random.index(self.nodes);
        match random.below(100) {
            0..24 => self.faults.push((at, Fault::CutNode { node, span: long })),
            24..42 => self.faults.push((at, Fault::CutNode { node, span: short })),
            42..66 => {
                self.faults.push((at, Fault::KillAgent { node, down: if random.chance(70) { short } else { long } }))
            }
            66..74 => {
                self.faults.push((at, Fault::DiskFull { node, full: true }));
                self.faults.push((at + short, Fault::DiskFull { node, full: false }));
            }
            74..84 => self.faults.push((at, Fault::LoseLedger { node, old: random.chance(50), down: short })),
            84..92 => {
                let skew = i64::try_from(random.below(1_200_000)).unwrap_or(0) - 600_000;
                self.faults.push((at, Fault::ClockJump { node, skew }));
            }
            _ => {
                let mebibytes = *random.pick(&[64, 256, 512, 1_024]).unwrap_or(&512);
                self.faults.push((at, Fault::Memory { node, mebibytes }));
            }
        }
    }

    fn add_engine_fault(&mut self, at: Timestamp, Spans { short, long }: Spans, random: &mut Random) {
        let engine = random.index(self.engines);
        match random.below(100) {
            0..25 => self.faults.push((at, Fault::EngineDown { engine, span: short, keeps: random.chance(40) })),
            25..45 => {
                self.faults.push((at, Fault::EngineHang { engine, span: if random.chance(60) { short } else { long } }))
            }
            45..60 => self.faults.push((at, Fault::Reboot { engine, down: short })),
            60..75 => {
                self.faults.push((at, Fault::RegistryAway(true)));
                self.faults.push((at + long, Fault::RegistryAway(false)));
            }
            _ => {
                let trouble = Fault::EngineTrouble { refuses: random.between(0, 30), loses: random.between(0, 30) };
                self.faults.push((at, trouble));
                self.faults.push((at + long, Fault::EngineTrouble { refuses: 0, loses: 0 }));
            }
        }
    }

    fn add_container_fault(&mut self, at: Timestamp, random: &mut Random) {
        let (kind, draw) = (random.below(100), random.number());
        let fault = match kind {
            0..35 => Fault::Crash(draw),
            35..50 => Fault::OutOfMemory(draw),
            50..65 => Fault::Sicken(draw),
            _ => Fault::Vanish(draw),
        };
        self.faults.push((at, fault));
    }

    /// Ends every fault that may still last.
    fn calm_down(&mut self, at: Timestamp) {
        let all = (0..self.nodes).flat_map(|node| {
            let memory = Fault::Memory { node, mebibytes: MEMORY };
            [Fault::JoinNode(node), Fault::DiskFull { node, full: false }, memory, Fault::StartAgent(node)]
        });
        let schedulers = (0..self.schedulers).flat_map(|scheduler| {
            [Fault::JoinStore(scheduler), Fault::JoinBus(scheduler), Fault::StartScheduler(scheduler)]
        });
        let engines = (0..self.engines).map(Fault::EngineUp);
        let rest = [
            Fault::BusConditions(BusConditions::HEALTHY),
            Fault::StoreTrouble { unknown: 0, slowest: 20 },
            Fault::StoreFull(false),
            Fault::QuorumBack,
            Fault::EngineTrouble { refuses: 0, loses: 0 },
            Fault::RegistryAway(false),
            Fault::Heal,
        ];
        self.faults.extend(rest.into_iter().chain(engines).chain(all).chain(schedulers).map(|fault| (at, fault)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_scenario_and_every_fault_ends_before_the_calm_phase() {
        for seed in 0..50 {
            let scenario = Scenario::new(seed);
            assert_eq!(scenario.faults, Scenario::new(seed).faults);
            assert!(scenario.faults.iter().all(|(at, _)| *at <= scenario.calm_at), "seed {seed}");
            assert!(scenario.end.since(BEGINNING) >= Duration::from_secs(600), "seed {seed}");
        }
    }

    #[test]
    fn a_thousand_seeds_cover_every_kind_of_fault() {
        let name = |fault: &Fault| format!("{fault:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        let early = |scenario: Scenario| {
            let calm_at = scenario.calm_at;
            scenario.faults.into_iter().filter(move |(at, _)| *at < calm_at).map(|(_, fault)| name(&fault))
        };
        let kinds: std::collections::BTreeMap<String, usize> =
            (0..1_000).flat_map(|seed| early(Scenario::new(seed))).fold(Default::default(), |mut kinds, kind| {
                *kinds.entry(kind).or_default() += 1;
                kinds
            });
        assert!(kinds.len() >= 24 && kinds.values().all(|count| *count >= 30), "{kinds:?}");
    }
}
