//! Who keeps new work off nodes in a history and lets it back, the replay of that, and what a cordon forbids.
//!
//! Cordons stand for seconds to minutes, mostly while something goes wrong, now and then on every node. When calm begins all of
//! them are lifted: instances that wait for a place would wait for ever.

use std::collections::{BTreeMap, BTreeSet};

use contract::command::{Command, Verb};
use contract::keys;
use contract::name::NodeName;
use contract::node::{NodeChange, NodeIntent};
use contract::record::Slot;
use contract::rollout::UpdatePolicy;
use contract::spec::PodSpec;
use contract::time::Timestamp;

use crate::checks::commit_changes::{Change, identity};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::workload::switches::RELEASE_AFTER;
use crate::workload::{ScheduledCommand, moment};
use crate::world::event_queue::BEGINNING;
use crate::world::store::Store;

/// The commands about nodes; none in most histories.
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

/// Never repeated: a cordon whose first command was lost with its stream would come after all were lifted.
fn scheduled(number: usize, at: Timestamp, verb: Verb) -> ScheduledCommand {
    let id = format!("cordon-{number}").parse().expect("letters, a dash and digits are a name");
    ScheduledCommand {
        at,
        again_at: None,
        command: Ok(Command { id, at, by: "operator".to_owned(), verb, digest: None }),
    }
}

/// The cordons as they must be stored, with their reasons.
#[derive(Debug, Default)]
pub struct Cordons {
    said: BTreeMap<NodeName, String>,
    /// Those that stood at every moment since the commit before this one: whatever is decided with it knew of them.
    stood: BTreeSet<NodeName>,
}

impl Cordons {
    /// A commit is about to be replayed.
    pub fn begin_commit(&mut self) {
        self.stood = self.said.keys().cloned().collect();
    }

    /// An accepted command; none when it cannot have been accepted.
    pub fn apply(&mut self, node: &NodeName, change: &NodeChange) -> Option<()> {
        match change {
            NodeChange::Cordon { why } | NodeChange::Drain { why, .. } => {
                let said = self.said.entry(node.clone()).or_insert_with(|| why.clone());
                if !why.is_empty() {
                    said.clone_from(why);
                }
            }
            NodeChange::Uncordon => {
                self.said.remove(node);
                self.stood.remove(node);
            }
            // No history asks for these: labels are units, and a node that is forgotten is another one when it returns.
            NodeChange::Label { .. } | NodeChange::Remove { .. } => return None,
        }
        Some(())
    }

    /// How what is stored of a node differs from what was said of it.
    pub fn differs(&self, node: &NodeName, store: &Store) -> Option<String> {
        let stored: Option<NodeIntent> = store.read(&keys::node_intent(node));
        let why = stored.as_ref().and_then(|intent| intent.cordon.as_ref()).map(|cordon| &cordon.why);
        (why != self.said.get(node))
            .then(|| format!("{node} is stored as {stored:?}, said was {:?}", self.said.get(node)))
    }

    /// The nodes anything is said of.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.said.keys()
    }

    /// A pod that was placed on a cordoned node. Who is bound to its data there is made anew there, and who is renewed in place
    /// stays where it is.
    pub fn passed_by(&self, change: &Change) -> Option<String> {
        for (number, slot) in (1..).zip(&change.is.slots).filter(|_| !self.stood.is_empty()) {
            let before = change.was.slots.get(number - 1);
            for pod in slot.pods() {
                let Some(node) = pod.node.as_ref().filter(|node| self.stood.contains(*node)) else { continue };
                let had = || before.into_iter().flat_map(Slot::pods);
                let is_known = had().any(|had| identity(had) == identity(pod));
                let stays = had().any(|had| had.node == pod.node && may_stay(change, had, pod));
                if !is_known && !stays {
                    let group = &change.group;
                    return Some(format!("{group}/{number} is placed on {node}: {before:?} became {slot:?}"));
                }
            }
        }
        None
    }
}

fn may_stay(change: &Change, had: &Slot, pod: &Slot) -> bool {
    let is_bound = |slot: &Slot| change.spec(slot.version).is_some_and(PodSpec::is_stateful);
    let spec = &change.is.record.spec;
    let is_in_place = spec.has_strategy() && spec.update_policy != UpdatePolicy::ReCreate;
    is_in_place || (is_bound(had) && is_bound(pod))
}
