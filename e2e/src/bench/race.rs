//! The races: the same tasks for every contestant, round by round, on the same engine and in the same run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Error;
use super::contestant::{Contestant, Pace, Task};
use super::deployd::Deployd;
use super::docker::{BenchEngine, Concurrency, EventWatch, Raw, Swarm};
use super::figure::Figure;
use super::progress::Progress;
use super::size::{Race, Size};

/// Pause before each task, for work that the engine does in the background.
const BREATH: Duration = Duration::from_secs(1);
const FIRST: u32 = 1;

#[derive(Debug)]
pub(crate) struct Contestants {
    pub(crate) raw: Raw,
    pub(crate) swarm: Swarm,
    pub(crate) deployd: Deployd,
    watches: BTreeMap<Contestant, EventWatch>,
}

/// Tasks whose times belong to one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Start,
    Grow,
    Update(Pace),
    Remove,
}

type Times = BTreeMap<(Kind, Contestant), Vec<Duration>>;

impl Contestants {
    pub(crate) fn new(engine: &BenchEngine, image: String, deployd: Deployd) -> Self {
        let watches = Contestant::ALL.map(|contestant| (contestant, engine.watch(contestant.word())));
        let at_a_time = Concurrency { starts: 1, removals: 1 };
        Self {
            raw: Raw { engine: engine.clone(), image: image.clone(), at_a_time },
            swarm: Swarm { engine: engine.clone(), image },
            deployd,
            watches: watches.into(),
        }
    }

    pub(crate) fn watch(&mut self, contestant: Contestant) -> &mut EventWatch {
        self.watches.get_mut(&contestant).expect("made for every contestant above")
    }

    /// Gives a contestant a task and returns how long it took until all containers were as requested.
    pub(crate) async fn timed(&mut self, contestant: Contestant, task: Task, version: u32) -> Result<Duration, Error> {
        if contestant == Contestant::Deployd {
            self.deployd.prepare(task).await?;
        }
        tokio::time::sleep(BREATH).await;
        let (count, after) = task.goal(version);
        // Swarm mode takes about 3 s for each step of an update.
        let within = Duration::from_secs(60) + Duration::from_secs(6) * task.work();
        let Self { raw, swarm, deployd, watches } = self;
        let watch = watches.get_mut(&contestant).expect("made for every contestant above");
        let given = async {
            let begun = Instant::now();
            match contestant {
                Contestant::Raw => raw.perform(task, version).await.map(|()| begun).map_err(Error::from),
                Contestant::Swarm => swarm.perform(task, version).await.map(|()| begun).map_err(Error::from),
                Contestant::Deployd => deployd.perform(task, version).await,
            }
        };
        let seen = async { watch.until(count, after, within).await.map_err(Error::from) };
        let (begun, done) = futures_util::future::try_join(given, seen).await?;
        Ok(done.saturating_duration_since(begun))
    }

    /// Finds the number of parallel calls at which the engine's own API is fastest; none if the run has no races.
    pub(crate) async fn find_best(&mut self, size: &Size, progress: &Progress) -> Result<Option<Concurrency>, Error> {
        let count = size.tried_with;
        let (mut starts, mut removals) = (Vec::new(), Vec::new());
        for at_a_time in &size.tried {
            progress.begin(&format!("raw Docker, {at_a_time} at a time"));
            self.raw.at_a_time = Concurrency { starts: *at_a_time, removals: *at_a_time };
            starts.push((self.timed(Contestant::Raw, Task::Start { count }, FIRST).await?, *at_a_time));
            removals.push((self.timed(Contestant::Raw, Task::Remove { count }, FIRST).await?, *at_a_time));
            progress.done();
        }
        self.raw.at_a_time = Concurrency { starts: fastest(&starts), removals: fastest(&removals) };
        Ok((!size.tried.is_empty()).then_some(self.raw.at_a_time))
    }
}

fn fastest(tried: &[(Duration, u32)]) -> u32 {
    tried.iter().min().map_or(1, |(_, at_a_time)| *at_a_time)
}

/// Runs every round of one race. Updates `done` after each round, so that an interrupted run shows the rounds it finished.
pub(crate) async fn run(
    contestants: &mut Contestants,
    race: &Race,
    done: &mut Vec<Figure>,
    progress: &Progress,
) -> Result<(), Error> {
    let (mut times, before) = (Times::new(), done.len());
    for round in 0..race.rounds {
        for contestant in Contestant::in_round(round) {
            let mut version = FIRST;
            for (kind, task) in tasks(race, round) {
                progress.begin(&format!(
                    "{}, round {} of {}: {}",
                    contestant.label(),
                    round + 1,
                    race.rounds,
                    shown(task)
                ));
                let took = contestants.timed(contestant, task, version).await?;
                progress.done();
                times.entry((kind, contestant)).or_default().push(took);
                (_, version) = task.goal(version);
            }
        }
        done.truncate(before);
        done.extend(figures(race, &times));
    }
    Ok(())
}

fn tasks(race: &Race, round: usize) -> Vec<(Kind, Task)> {
    let updates = race
        .paces(round)
        .zip(FIRST + 1..)
        .map(|(pace, version)| (Kind::Update(pace), Task::Update { count: race.count, version, pace }));
    let grown = race.grown();
    std::iter::once((Kind::Start, Task::Start { count: race.count }))
        .chain(updates)
        .chain([
            (Kind::Grow, Task::Grow { from: race.count, to: grown }),
            (Kind::Remove, Task::Remove { count: grown }),
        ])
        .collect()
}

fn shown(task: Task) -> String {
    match task {
        Task::Start { count } => format!("start {count}"),
        Task::Grow { from, to } => format!("scale {from} to {to}"),
        Task::Update { count, pace, .. } => format!("update {count}, {}", pace.shown()),
        Task::Remove { count } => format!("remove {count}"),
    }
}

fn figures(race: &Race, times: &Times) -> Vec<Figure> {
    let mut kinds: Vec<Kind> = times.keys().map(|(kind, _)| *kind).collect();
    kinds.dedup();
    kinds.into_iter().map(|kind| figure(race, kind, times)).collect()
}

fn figure(race: &Race, kind: Kind, times: &Times) -> Figure {
    let Race { count, .. } = race;
    let (name, title) = match kind {
        Kind::Start => (format!("start-{count}"), format!("{count} instances: command to all running")),
        Kind::Grow => {
            (format!("scale-{count}"), format!("{count} to {} instances: command to all running", race.grown()))
        }
        Kind::Update(pace) => (
            format!("update-{count}-by-{}-{}-first", pace.at_a_time, pace.first.word()),
            format!("{count} instances updated, {}: command to all new", pace.shown()),
        ),
        Kind::Remove => (format!("remove-{count}"), format!("{} instances removed: command to all gone", race.grown())),
    };
    let of = |contestant: Contestant| times.get(&(kind, contestant)).cloned().unwrap_or_default();
    let figure = Figure::of_race(&name, title, &Contestant::ALL.map(|contestant| (contestant, of(contestant))));
    match kind {
        Kind::Start | Kind::Grow => figure.with_start_goals(),
        Kind::Update(_) => figure.with_update_goal(),
        Kind::Remove => figure,
    }
}

#[cfg(test)]
mod tests {
    use super::super::contestant::First;
    use super::*;

    fn race() -> Race {
        let updates = vec![(Pace::new(First::Old, 10), 2), (Pace::new(First::New, 1), 1)];
        Race { count: 50, rounds: 2, updates }
    }

    #[test]
    fn each_side_starts_updates_grows_and_removes_what_it_has() {
        let first: Vec<String> = tasks(&race(), 0).into_iter().map(|(_, task)| shown(task)).collect();
        let all = "start 50; update 50, 10 at a time, old first; update 50, 1 at a time, new first; scale 50 to 75; remove 75";
        assert_eq!(first.join("; "), all);
        assert_eq!(tasks(&race(), 1).len(), 4);
        let versions: Vec<u32> = tasks(&race(), 0).iter().map(|(_, task)| task.goal(FIRST).1).collect();
        assert_eq!(versions[..3], [1, 2, 3]);
    }

    #[test]
    fn a_figure_holds_the_median_of_the_rounds_for_every_side() {
        let mut times = Times::new();
        for (contestant, seconds) in
            [(Contestant::Raw, [3, 1, 2]), (Contestant::Swarm, [9, 9, 9]), (Contestant::Deployd, [4, 1, 2])]
        {
            times.insert((Kind::Start, contestant), seconds.map(Duration::from_secs).to_vec());
        }
        let figures = figures(&race(), &times);
        let values: Vec<f64> = figures[0].rows.iter().map(|row| row.p50).collect();
        assert_eq!((figures.len(), figures[0].name.as_str(), values), (1, "start-50", vec![2.0, 9.0, 2.0]));
        assert!(figures[0].goals.iter().all(|goal| goal.met));
    }

    #[test]
    fn the_fastest_concurrency_is_taken() {
        let tried = [(Duration::from_secs(3), 2), (Duration::from_secs(1), 8), (Duration::from_secs(2), 16)];
        assert_eq!((fastest(&tried), fastest(&[])), (8, 1));
    }
}
