//! How much is measured.

use std::time::Duration;

use super::side::{First, Pace};
use crate::args::Part;

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) races: Vec<Race>,
    /// Containers made for each concurrency that is tried.
    pub(crate) tried_with: u32,
    /// Concurrencies of the engine's own API that are tried.
    pub(crate) tried: Vec<u32>,
    /// Containers killed, of each side that starts them again.
    pub(crate) kills: u32,
    /// Nodes lost.
    pub(crate) losses: u32,
    /// Commands whose order is waited for.
    pub(crate) orders: u32,
    /// How long the API is asked in each way.
    pub(crate) load: Duration,
    /// Nodes and instances of the simulated agents.
    pub(crate) scale: Vec<(u32, u32)>,
}

/// Rounds with so many instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Race {
    pub(crate) count: u32,
    pub(crate) rounds: usize,
    /// Updates of each round.
    pub(crate) paces: Vec<Pace>,
    /// Further updates, in the first round only: one at a time takes Swarm mode minutes.
    pub(crate) paces_once: Vec<Pace>,
}

impl Race {
    /// Instances after growing: half as many again.
    pub(crate) fn grown(&self) -> u32 {
        self.count + self.count / 2
    }

    /// Things that are timed.
    fn steps(&self) -> usize {
        3 * (self.rounds * (3 + self.paces.len()) + self.paces_once.len())
    }
}

impl Size {
    /// About half an hour on two cores.
    pub(crate) fn usual() -> Self {
        let race = |count, rounds, once: &[Pace]| Race {
            count,
            rounds,
            paces: vec![Pace::new(First::Old, 10)],
            paces_once: once.to_vec(),
        };
        let once = [Pace::new(First::Old, 1), Pace::new(First::New, 1), Pace::new(First::New, 10)];
        Self {
            races: vec![race(50, 3, &once), race(200, 2, &[])],
            tried_with: 24,
            tried: vec![2, 4, 8, 16],
            kills: 20,
            losses: 3,
            orders: 100,
            load: Duration::from_secs(5),
            scale: vec![(200, 10_000)],
        }
    }

    /// Two minutes: everything on real containers once, and small.
    pub(crate) fn short() -> Self {
        Self {
            races: vec![Race { count: 20, rounds: 1, paces: vec![Pace::new(First::Old, 10)], paces_once: Vec::new() }],
            tried_with: 12,
            tried: vec![4, 8],
            kills: 5,
            losses: 1,
            orders: 10,
            load: Duration::from_secs(1),
            scale: Vec::new(),
        }
    }

    /// The same with the full sizes of the simulated agents.
    pub(crate) fn with_full_scale(self) -> Self {
        Self { scale: vec![(200, 10_000), (1_000, 100_000)], ..self }
    }

    /// Only one part, or all of it.
    pub(crate) fn only(self, part: Option<Part>) -> Self {
        let nothing = Self {
            races: Vec::new(),
            tried: Vec::new(),
            kills: 0,
            losses: 0,
            orders: 0,
            load: Duration::ZERO,
            scale: Vec::new(),
            ..self
        };
        match part {
            None => self,
            Some(Part::Races) => Self { races: self.races, tried: self.tried, ..nothing },
            Some(Part::Reactions) => Self { kills: self.kills, losses: self.losses, orders: self.orders, ..nothing },
            Some(Part::Api) => Self { load: self.load, ..nothing },
            Some(Part::Scale) => Self { scale: self.scale, ..nothing },
        }
    }

    /// Whether anything of it is measured on a cluster beside the engine.
    pub(crate) fn needs_cluster(&self) -> bool {
        !self.races.is_empty() || self.kills > 0 || self.orders > 0 || !self.load.is_zero()
    }

    /// Things that are done one after another, for the bar that shows how far it is.
    pub(crate) fn steps(&self) -> usize {
        let races: usize = self.races.iter().map(Race::steps).sum();
        let one = |is_done: bool| usize::from(is_done);
        // Three sides start again what was killed; changes and reads go through one apiserver and through three.
        let reactions = 3 * one(self.kills > 0) + one(self.losses > 0) + one(self.orders > 0);
        races + self.tried.len() + reactions + 4 * one(!self.load.is_zero()) + self.scale.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_are_counted_before_they_are_made() {
        let (paces, paces_once) = (vec![Pace::new(First::Old, 10)], vec![Pace::new(First::Old, 1)]);
        let race = Race { count: 50, rounds: 3, paces, paces_once };
        assert_eq!((race.grown(), race.steps()), (75, 3 * (3 * 4 + 1)));
        assert!(Size::short().steps() < Size::usual().steps());
        assert!(Size::usual().with_full_scale().steps() > Size::usual().steps());
    }

    #[test]
    fn the_parts_together_are_everything() {
        let parts = [Part::Races, Part::Reactions, Part::Api, Part::Scale];
        let steps: usize = parts.iter().map(|part| Size::usual().only(Some(*part)).steps()).sum();
        assert_eq!(steps, Size::usual().only(None).steps());
        assert!(!Size::usual().only(Some(Part::Scale)).needs_cluster());
    }
}
