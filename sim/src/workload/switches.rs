//! Cluster switches and constraints in a history: read-only, maintenance, guard off, scheduling off.
//!
//! They are on for seconds, mostly during faults. After `calm_at` all are switched off: a stopped cluster cannot converge.

use std::time::Duration;

use contract::command::{Command, Verb};
use contract::switches::Constraint;
use contract::time::Timestamp;
use testkit::random::Random;

use crate::scenario::Scenario;
use crate::workload::{RETRY, ScheduledCommand};
use crate::world::event_queue::BEGINNING;

/// All switches are off this long after `calm_at`: after the last retry of an earlier command.
pub const RELEASE_AFTER: Duration = Duration::from_secs(1).saturating_add(RETRY);

/// No commands in 40 % of the histories.
pub fn commands(scenario: &Scenario) -> Vec<ScheduledCommand> {
    let mut random = Random::new(scenario.seed).fork(7);
    let mut verbs = Vec::new();
    let busy = u64::try_from(scenario.calm_at.since(BEGINNING).as_millis()).unwrap_or(0);
    if random.chance(60) {
        for _ in 0..=random.index(4) {
            let moment = random.pick(&scenario.faults).map(|(at, _)| *at).filter(|_| random.chance(50));
            let at = moment.unwrap_or_else(|| BEGINNING + random.span(3_000, busy)).min(scenario.calm_at);
            let until = (at + random.span(1_000, 40_000)).min(scenario.calm_at);
            let (on, off) = switch_pair(&mut random);
            verbs.extend([(at, on), (until, off)]);
        }
        let end = scenario.calm_at + RELEASE_AFTER;
        verbs.push((end, Verb::Configure { readonly: Some(false), maintenance: Some(false) }));
        let rest = [
            Verb::RunEngine { running: true },
            Verb::Guard { working: true },
            Verb::RemoveConstraint { kind: "node".to_owned() },
        ];
        verbs.extend(rest.map(|verb| (end + Duration::from_millis(100), verb)));
    }
    verbs.into_iter().enumerate().map(|(number, (at, verb))| scheduled(number, at, verb)).collect()
}

fn switch_pair(random: &mut Random) -> (Verb, Verb) {
    let configure = |readonly, maintenance| Verb::Configure { readonly, maintenance };
    match random.below(5) {
        0 => (configure(Some(true), None), configure(Some(false), None)),
        1 => (configure(None, Some(true)), configure(None, Some(false))),
        2 => (Verb::RunEngine { running: false }, Verb::RunEngine { running: true }),
        3 => (Verb::Guard { working: false }, Verb::Guard { working: true }),
        _ => {
            let (value, soft) = (format!("n{}", random.below(3)), random.chance(50));
            let constraint = Constraint { kind: "node".to_owned(), equal: random.chance(20), value, soft };
            (Verb::SetConstraint { constraint }, Verb::RemoveConstraint { kind: "node".to_owned() })
        }
    }
}

/// Never repeated: the repeat could come after the last switch-off.
fn scheduled(number: usize, at: Timestamp, verb: Verb) -> ScheduledCommand {
    let id = format!("brake-{number}").parse().expect("letters, a dash and digits are a name");
    ScheduledCommand {
        at,
        again_at: None,
        command: Ok(Command { id, at, by: "operator".to_owned(), verb, digest: None, credentials: None }),
    }
}
