//! Who is raced: the engine's own API, Swarm mode and deployd, and what each of them can be told.

/// One of those who run containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contestant {
    /// The engine's own API at its best concurrency.
    Raw,
    /// Swarm mode of the same engine.
    Swarm,
    /// Ours.
    Deployd,
}

/// How an update goes: so many instances at a time, and which of two containers is there first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pace {
    pub(crate) first: First,
    pub(crate) at_a_time: u32,
}

/// Which of two containers of an instance is there first in an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum First {
    /// The old one ends, then the new one starts: never more than wanted.
    Old,
    /// The new one starts, then the old one ends: never fewer than wanted.
    New,
}

/// What a contestant is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// So many instances, from nothing.
    Start { count: u32 },
    /// So many instances in all, from fewer.
    Grow { from: u32, to: u32 },
    /// All `count` instances anew in this version.
    Update { count: u32, version: u32, pace: Pace },
    /// Everything away; so many are there.
    Remove { count: u32 },
}

impl Contestant {
    pub(crate) const ALL: [Self; 3] = [Self::Raw, Self::Swarm, Self::Deployd];

    /// Its name in tables and pictures.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Raw => "raw Docker",
            Self::Swarm => "Swarm mode",
            Self::Deployd => "deployd",
        }
    }

    /// Its name in names of containers.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Swarm => "swarm",
            Self::Deployd => "deployd",
        }
    }

    /// The contestants in the order of a round. In three rounds each is first, second and last once, because an engine gets slower as it
    /// works; in six each comes as often after the one as after the other, because one may leave it more to finish.
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

    /// As it stands in titles.
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
    /// What is to stand there in the end: how many, in which version.
    pub(crate) fn goal(self, version: u32) -> (u32, u32) {
        match self {
            Self::Start { count } => (count, version),
            Self::Grow { to, .. } => (to, version),
            Self::Update { count, version, .. } => (count, version),
            Self::Remove { .. } => (0, version),
        }
    }

    /// How many containers it takes work on.
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
