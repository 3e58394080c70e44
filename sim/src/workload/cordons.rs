//! Cordons and drains of nodes in a history, for seconds to minutes, mostly during faults, sometimes of all nodes.
//!
//! The last commands uncordon every node after `calm_at`: otherwise pending instances could never be placed.

use contract::command::{Command, Verb};
use contract::name::NodeName;
use contract::node::NodeChange;
use contract::time::Timestamp;
use testkit::random::Random;

use crate::scenario::Scenario;
use crate::workload::switches::RELEASE_AFTER;
use crate::workload::{ScheduledCommand, moment};
use crate::world::event_queue::BEGINNING;

/// No commands in 60 % of the histories.
pub fn commands(scenario: &Scenario) -> Vec<ScheduledCommand> {
    let mut random = Random::new(scenario.seed).fork(9);
    let mut verbs = Vec::new();
    if random.chance(40) {
        let nodes: Vec<NodeName> = (0..scenario.nodes).filter_map(|node| format!("n{node}").parse().ok()).collect();
        for _ in 0..=random.index(4) {
            let Some(node) = random.pick(&nodes).cloned() else { continue };
            let at = moment(scenario, BEGINNING, &mut random).max(BEGINNING).min(scenario.calm_at);
            let until = (at + random.span(2_000, 90_000)).min(scenario.calm_at);
            verbs.push((at, Verb::Node { node: node.clone(), change: closing(&mut random) }));
            verbs.push((until, Verb::Node { node, change: NodeChange::Uncordon }));
        }
        let end = scenario.calm_at + RELEASE_AFTER;
        verbs.extend(nodes.into_iter().map(|node| (end, Verb::Node { node, change: NodeChange::Uncordon })));
    }
    verbs.into_iter().enumerate().map(|(number, (at, verb))| scheduled(number, at, verb)).collect()
}

fn closing(random: &mut Random) -> NodeChange {
    let why = random.pick(&["", "disk swap", "new kernel"]).map(|why| (*why).to_owned()).unwrap_or_default();
    if random.chance(30) { NodeChange::Drain { why, force: random.chance(50) } } else { NodeChange::Cordon { why } }
}

/// Never repeated: the repeat could come after the last uncordon.
fn scheduled(number: usize, at: Timestamp, verb: Verb) -> ScheduledCommand {
    let id = format!("cordon-{number}").parse().expect("letters, a dash and digits are a name");
    ScheduledCommand {
        at,
        again_at: None,
        command: Ok(Command { id, at, by: "operator".to_owned(), verb, digest: None, credentials: None }),
    }
}
