//! The contestants of a race: the engine's own API, Swarm mode and deployd.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contestant {
    /// The engine's own API at its best concurrency.
    Raw,
    Swarm,
    Deployd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pace {
    pub(crate) first: First,
    pub(crate) at_a_time: u32,
}

/// Which container of an instance an update handles first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum First {
    /// Stop the old container, then start the new one: never more than requested.
    Old,
    /// Start the new container, then stop the old one: never fewer than requested.
    New,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Start { count: u32 },
    Grow { from: u32, to: u32 },
    Update { count: u32, version: u32, pace: Pace },
    Remove { count: u32 },
}

impl Contestant {
    pub(crate) const ALL: [Self; 3] = [Self::Raw, Self::Swarm, Self::Deployd];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Raw => "raw Docker",
            Self::Swarm => "Swarm mode",
            Self::Deployd => "deployd",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Swarm => "swarm",
            Self::Deployd => "deployd",
        }
    }

    /// The sequence of a round. In three rounds each contestant is first, second and last once, because an engine gets slower as it works.
    /// Six rounds are all permutations, because a contestant may leave background work to its successor.
    pub(crate) fn in_round(round: usize) -> [Self; 3] {
        let mut contestants = Self::ALL;
        if round % 6 >= 3 {
            contestants.reverse();
        }
        contestants.rotate_left(round % 3);
        contestants
    }
}

impl Pace {
    pub(crate) const fn new(first: First, at_a_time: u32) -> Self {
        Self { first, at_a_time }
    }

    pub(crate) fn shown(self) -> String {
        format!("{} at a time, {} first", self.at_a_time, self.first.word())
    }
}

impl First {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::New => "new",
        }
    }
}

impl Task {
    pub(crate) fn goal(self, version: u32) -> (u32, u32) {
        match self {
            Self::Start { count } => (count, version),
            Self::Grow { to, .. } => (to, version),
            Self::Update { count, version, .. } => (count, version),
            Self::Remove { .. } => (0, version),
        }
    }

    pub(crate) fn work(self) -> u32 {
        match self {
            Self::Start { count } | Self::Remove { count } | Self::Update { count, .. } => count,
            Self::Grow { from, to } => to.saturating_sub(from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_first_second_and_last_equally_often() {
        for (from, place) in (0..9).step_by(3).flat_map(|from| [(from, 0), (from, 1), (from, 2)]) {
            let mut contestants: Vec<Contestant> =
                (from..from + 3).map(|round| Contestant::in_round(round)[place]).collect();
            contestants.sort_unstable();
            assert_eq!(contestants, Contestant::ALL);
        }
    }

    #[test]
    fn six_rounds_are_every_order() {
        let mut orders: Vec<[Contestant; 3]> = (0..6).map(Contestant::in_round).collect();
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn a_task_says_what_stands_there_in_the_end() {
        assert_eq!(Task::Grow { from: 50, to: 75 }.goal(2), (75, 2));
        assert_eq!(Task::Update { count: 50, version: 3, pace: Pace::new(First::Old, 10) }.goal(2), (50, 3));
        assert_eq!(Task::Remove { count: 75 }.goal(2).0, 0);
        assert_eq!(Task::Grow { from: 50, to: 75 }.work(), 25);
    }
}
