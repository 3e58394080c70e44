//! How much is measured.

use std::time::Duration;

use super::contestant::{First, Pace};
use super::fleet::{CHALLENGE, Fleet};
use crate::args::Part;

const SMALL: Fleet = Fleet { nodes: 200, instances: 20_000 };
const MIDDLE: Fleet = Fleet { nodes: 1_000, instances: 100_000 };
const LARGE: Fleet = Fleet { nodes: 5_000, instances: 1_000_000 };

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) races: Vec<Race>,
    /// Containers made for each concurrency that is tried.
    pub(crate) tried_with: u32,
    /// Concurrencies of the engine's own API that are tried.
    pub(crate) tried: Vec<u32>,
    /// Containers killed, of each contestant that starts them again.
    pub(crate) kills: u32,
    /// Nodes lost.
    pub(crate) losses: u32,
    /// Commands whose order is waited for.
    pub(crate) orders: u32,
    /// How long the API is asked in each way.
    pub(crate) load: Duration,
    /// The simulated agents.
    pub(crate) scale: Vec<Fleet>,
    /// What is placed and nothing else.
    pub(crate) placement: Option<Fleet>,
}

/// Rounds with so many instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Race {
    pub(crate) count: u32,
    /// How often everything is started, scaled and removed. The engine's own times differ by a tenth from one time to the next, so a
    /// difference of a twentieth shows in the middle of many only.
    pub(crate) rounds: usize,
    /// Updates, and in how many of the rounds each is made: one at a time takes Swarm mode minutes.
    pub(crate) updates: Vec<(Pace, usize)>,
}

impl Race {
    /// Instances after growing: half as many again.
    pub(crate) fn grown(&self) -> u32 {
        self.count + self.count / 2
    }

    /// The updates of one round.
    pub(crate) fn paces(&self, round: usize) -> impl Iterator<Item = Pace> {
        self.updates.iter().filter(move |(_, rounds)| round < *rounds).map(|(pace, _)| *pace)
    }

    /// Things that are timed.
    fn steps(&self) -> usize {
        3 * (0..self.rounds).map(|round| 3 + self.paces(round).count()).sum::<usize>()
    }
}

impl Size {
    /// About three quarters of an hour on two cores.
    pub(crate) fn usual() -> Self {
        let by_ten = |rounds| (Pace::new(First::Old, 10), rounds);
        let further = [(Pace::new(First::New, 10), 3), (Pace::new(First::Old, 1), 1), (Pace::new(First::New, 1), 1)];
        let updates = std::iter::once(by_ten(3)).chain(further).collect();
        Self {
            // Six rounds are every order of the three contestants.
            races: vec![
                Race { count: 50, rounds: 12, updates },
                Race { count: 200, rounds: 3, updates: vec![by_ten(2)] },
            ],
            tried_with: 24,
            tried: vec![2, 4, 8, 16],
            kills: 20,
            losses: 3,
            orders: 100,
            load: Duration::from_secs(5),
            scale: vec![SMALL, MIDDLE],
            placement: Some(CHALLENGE),
        }
    }

    /// Two minutes: everything on real containers once, and small.
    pub(crate) fn short() -> Self {
        Self {
            races: vec![Race { count: 20, rounds: 1, updates: vec![(Pace::new(First::Old, 10), 1)] }],
            tried_with: 12,
            tried: vec![4, 8],
            kills: 5,
            losses: 1,
            orders: 10,
            load: Duration::from_secs(1),
            scale: Vec::new(),
            placement: None,
        }
    }

    /// The same with the full sizes of the simulated agents.
    pub(crate) fn with_full_scale(self) -> Self {
        Self { scale: vec![SMALL, MIDDLE, LARGE, CHALLENGE], ..self }
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
            placement: None,
            ..self
        };
        match part {
            None => self,
            Some(Part::Races) => Self { races: self.races, tried: self.tried, ..nothing },
            Some(Part::Reactions) => Self { kills: self.kills, losses: self.losses, orders: self.orders, ..nothing },
            Some(Part::Api) => Self { load: self.load, ..nothing },
            Some(Part::Scale) => Self { scale: self.scale, placement: self.placement, ..nothing },
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
        // Three contestants start again what was killed; changes and reads go through one apiserver and through three.
        let reactions = 3 * one(self.kills > 0) + one(self.losses > 0) + one(self.orders > 0);
        races
            + self.tried.len()
            + reactions
            + 4 * one(!self.load.is_zero())
            + self.scale.len()
            + one(self.placement.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_are_counted_before_they_are_made() {
        let updates = vec![(Pace::new(First::Old, 10), 2), (Pace::new(First::Old, 1), 1)];
        let race = Race { count: 50, rounds: 3, updates };
        assert_eq!((race.grown(), race.steps()), (75, 3 * (3 * 3 + 2 + 1)));
        assert_eq!((race.paces(0).count(), race.paces(1).count(), race.paces(2).count()), (2, 1, 0));
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
