//! Chooses a node for each instance of a group.
//!
//! Memory, CPU, liveness, cordons and hard expressions filter the nodes. Of the rest, the planner takes the one with the
//! fewest instances of the group, then the lowest dominant share after the placement, then the first name. Example: nodes a
//! and b have 1 GiB each, 256 MiB and 512 MiB are used; an instance of 256 MiB goes to a (50 % after the placement, 75 % on
//! b).
//!
//! Nodes are examined in the order of the [`LoadRanking`] until the best one is certain: one instance costs a few nodes, and
//! a thousand instances cost a thousand tree operations, not a thousand passes over all nodes.

mod ranking;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::report::{EngineState, NodeFacts};
use contract::spec::PodSpec;

use crate::expression::{Expression, ExpressionKind, LabelTest};
pub use ranking::LoadRanking;
use ranking::{RankedNode, share};

/// The resources of one instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// In bytes.
    pub memory: u64,
    /// Thousandths of a core.
    pub cpu_millis: u64,
}

/// A node and its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub facts: NodeFacts,
    /// Resources of the pods placed there.
    pub used: Need,
    pub liveness: Liveness,
    pub engine: EngineState,
    /// Why no new pod is placed there; none if the node is not cordoned.
    pub cordon: Option<String>,
    /// An operator declared the node gone: nothing waits for it, not even pods with data on it.
    pub decommissioned: bool,
}

/// The pods on each node, for affinity expressions.
pub trait PlacedPods {
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec));
}

/// Why an instance is unschedulable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unplaceable {
    /// All reasons of all nodes.
    pub reasons: BTreeMap<NodeName, BTreeSet<String>>,
}

/// Preferences for one placement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodePreference<'a> {
    /// The only acceptable node.
    pub pin: Option<&'a NodeName>,
    /// Taken only if no other node fits.
    pub avoid: Option<&'a NodeName>,
    /// Taken unless another node meets soft expressions that this one does not.
    pub prefer: Option<&'a NodeName>,
}

/// The nodes and their pods.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    pub nodes: &'a BTreeMap<NodeName, Candidate>,
    /// The nodes by load, if the caller keeps that ranking.
    pub ranking: Option<&'a LoadRanking>,
    pub placed_pods: &'a dyn PlacedPods,
}

/// Places the instances of one group one after another. Nodes are numbered in the order of their names.
pub struct Placer<'a> {
    nodes: &'a BTreeMap<NodeName, Candidate>,
    placed_pods: &'a dyn PlacedPods,
    expressions: Vec<Expression>,
    need: Need,
    ranking: Cow<'a, LoadRanking>,
    /// How much of the ranking has been examined.
    cursor: usize,
    /// Examined nodes that pass the filters, with their load.
    loads: BTreeMap<u32, NodeLoad>,
    /// Of those, nodes with enough resources that meet all soft expressions.
    preferred: BTreeSet<Rank>,
    /// Of those, the other nodes with enough resources.
    accepted: BTreeSet<Rank>,
    /// Examined nodes that no instance can use, with the reasons.
    excluded: BTreeMap<u32, BTreeSet<String>>,
    /// Cached reasons; cleared by every change.
    reasons: OnceCell<Arc<Unplaceable>>,
    /// The nodes by number, built when one pass over all nodes is cheaper than searching each.
    by_number: OnceCell<Vec<(&'a NodeName, &'a Candidate)>>,
}

/// `by_number` is built after this many examined nodes.
const INDEX_FROM: usize = 128;

/// Siblings, dominant share, node number.
type Rank = (u32, u64, u32);

#[derive(Debug, Clone, Copy)]
struct NodeLoad {
    /// Capacity of the node.
    room: Need,
    used: Need,
    siblings: u32,
    preferred: bool,
    /// A cordoned node accepts only pods that are there already.
    cordoned: bool,
    /// None if the resources do not suffice.
    rank: Option<Rank>,
}

impl Candidate {
    /// A node that can take pods and has none.
    #[cfg(test)]
    pub(crate) fn alive(facts: NodeFacts) -> Self {
        let (used, liveness, engine) = (Need::default(), Liveness::Alive, EngineState::Up);
        Self { facts, used, liveness, engine, cordon: None, decommissioned: false }
    }

    /// Its capacity.
    pub(crate) fn room(&self) -> Need {
        Need { memory: self.facts.memory, cpu_millis: self.facts.cpu_millis }
    }
}

impl Need {
    pub fn of(pod: &PodSpec, quota_cores: u32) -> Self {
        Self { memory: pod.memory(), cpu_millis: pod.cpu_millis(quota_cores) }
    }
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
        }
    }
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
        }
    }
}

impl<'a> Placer<'a> {
    /// `siblings` counts the instances of the group that stay on each node.
    pub fn new(candidates: Candidates<'a>, filters: &[String], need: Need, siblings: &BTreeMap<NodeName, u32>) -> Self {
        let Candidates { nodes, ranking, placed_pods } = candidates;
        let kept = ranking.filter(|ranking| ranking.order(need).is_some());
        let mut placer = Self {
            nodes,
            placed_pods,
            expressions: filters.iter().map(|text| Expression::parse(text)).collect(),
            need,
            ranking: kept.map_or_else(|| Cow::Owned(LoadRanking::of(nodes, need)), Cow::Borrowed),
            cursor: 0,
            loads: BTreeMap::new(),
            preferred: BTreeSet::new(),
            accepted: BTreeSet::new(),
            excluded: BTreeMap::new(),
            reasons: OnceCell::new(),
            by_number: OnceCell::new(),
        };
        placer.count(siblings);
        placer
    }

    /// An instance frees its resources on `node`; its revision may differ from the one being placed.
    pub fn release(&mut self, node: &NodeName, need: Need) {
        self.change(node, |load| load.used = load.used.minus(need));
    }

    /// An instance on `node` is to be placed again and is no sibling there any more.
    pub fn uncount(&mut self, node: &NodeName) {
        self.change(node, |load| load.siblings = load.siblings.saturating_sub(1));
    }

    /// One more instance uses resources on `node`: newly placed, or staying because no other node fits.
    pub fn keep(&mut self, node: &NodeName, need: Need) {
        self.change(node, |load| {
            load.used = load.used.plus(need);
            load.siblings += 1;
        });
    }

    /// Chooses a node for one more instance.
    pub fn place(&mut self, preference: NodePreference<'_>) -> Result<NodeName, Arc<Unplaceable>> {
        let chosen = match preference.pin {
            Some(pin) => self.usable(pin),
            None => {
                preference.prefer.and_then(|node| self.preferred_node(node)).or_else(|| self.best(preference.avoid))
            }
        };
        let Some(number) = chosen else { return Err(self.why(preference.pin)) };
        let need = self.need;
        self.change_one(number, |load| {
            load.used = load.used.plus(need);
            load.siblings += 1;
        });
        Ok(self.ranking.name(number).expect("an examined node has a name").clone())
    }

    /// The ranking does not contain siblings, so nodes with siblings are examined first.
    fn count(&mut self, siblings: &BTreeMap<NodeName, u32>) {
        for (name, count) in siblings {
            let Some(number) = self.ranking.number(name) else { continue };
            self.examine(number);
            self.change_one(number, |load| load.siblings = *count);
        }
    }

    fn best(&mut self, avoid: Option<&NodeName>) -> Option<u32> {
        let avoid = avoid.and_then(|node| self.ranking.number(node));
        let first = |set: &BTreeSet<Rank>, avoid: Option<u32>| {
            set.iter().find(|(_, _, number)| Some(*number) != avoid).copied()
        };
        while let Some((share, number)) = self.next_unexamined() {
            // Nodes that are not examined have no siblings and a higher share.
            if first(&self.preferred, avoid).is_some_and(|best| best <= (0, share, number)) {
                break;
            }
            self.examine(number);
        }
        first(&self.preferred, avoid)
            .or_else(|| first(&self.accepted, avoid))
            .or_else(|| first(&self.preferred, None))
            .or_else(|| first(&self.accepted, None))
            .map(|(_, _, number)| number)
    }

    /// The node, unless another one meets soft expressions that it does not.
    fn preferred_node(&mut self, node: &NodeName) -> Option<u32> {
        let number = self.usable(node)?;
        if self.loads.get(&number)?.cordoned {
            return None;
        }
        if self.loads.get(&number)?.preferred {
            return Some(number);
        }
        while let Some((_, next_unexamined)) = self.next_unexamined().filter(|_| self.preferred.is_empty()) {
            self.examine(next_unexamined);
        }
        self.preferred.is_empty().then_some(number)
    }

    fn usable(&mut self, node: &NodeName) -> Option<u32> {
        let number = self.ranking.number(node)?;
        self.examine(number);
        self.loads.get(&number)?.rank.map(|_| number)
    }

    fn next_unexamined(&mut self) -> Option<RankedNode> {
        let order = self.ranking.order(self.need)?;
        let seen = |(_, number): &RankedNode| self.loads.contains_key(number) || self.excluded.contains_key(number);
        let next = order.get(self.cursor..)?.iter().position(|place| !seen(place));
        self.cursor = next.map_or(order.len(), |steps| self.cursor + steps);
        order.get(self.cursor).copied()
    }

    fn examine(&mut self, number: u32) {
        if self.loads.contains_key(&number) || self.excluded.contains_key(&number) {
            return;
        }
        let Some((name, candidate)) = self.candidate(number) else { return };
        let reasons = exclusions(name, candidate, &self.expressions, self.placed_pods);
        if !reasons.is_empty() {
            self.excluded.insert(number, reasons);
            return;
        }
        let preferred = self
            .expressions
            .iter()
            .filter(|e| e.is_soft())
            .all(|e| holds(e, name, candidate, self.placed_pods).is_ok());
        let cordoned = candidate.cordon.is_some();
        let mut load =
            NodeLoad { room: candidate.room(), used: candidate.used, siblings: 0, preferred, cordoned, rank: None };
        self.offer(number, &mut load);
        self.loads.insert(number, load);
    }

    fn candidate(&self, number: u32) -> Option<(&'a NodeName, &'a Candidate)> {
        let name = self.ranking.name(number)?;
        if self.loads.len() >= INDEX_FROM {
            let by_number = self.by_number.get_or_init(|| self.nodes.iter().collect());
            let called = by_number.get(usize::try_from(number).ok()?).filter(|(called, _)| *called == name);
            if called.is_some() {
                return called.copied();
            }
        }
        self.nodes.get_key_value(name)
    }

    fn change(&mut self, node: &NodeName, change: impl FnOnce(&mut NodeLoad)) {
        if let Some(number) = self.ranking.number(node) {
            self.examine(number);
            self.change_one(number, change);
        }
    }

    fn change_one(&mut self, number: u32, change: impl FnOnce(&mut NodeLoad)) {
        let Some(mut load) = self.loads.get(&number).copied() else { return };
        if let Some(rank) = load.rank.take() {
            let set = if load.preferred { &mut self.preferred } else { &mut self.accepted };
            set.remove(&rank);
        }
        change(&mut load);
        self.reasons = OnceCell::new();
        self.offer(number, &mut load);
        self.loads.insert(number, load);
    }

    fn offer(&mut self, number: u32, load: &mut NodeLoad) {
        load.rank = share(load.room, load.used, self.need).map(|share| (load.siblings, share, number));
        if load.cordoned {
            return;
        }
        let set = if load.preferred { &mut self.preferred } else { &mut self.accepted };
        set.extend(load.rank);
    }

    fn why(&self, pin: Option<&NodeName>) -> Arc<Unplaceable> {
        let all = self.reasons.get_or_init(|| Arc::new(self.all_reasons()));
        let Some(pin) = pin else { return Arc::clone(all) };
        let mut mine = all.reasons.get(pin).cloned().unwrap_or_else(|| BTreeSet::from(["not known".to_owned()]));
        // A cordon does not prevent a pinned pod from staying.
        let cordon = self.nodes.get(pin).and_then(|candidate| candidate.cordon.as_ref());
        if let Some(cordon) = cordon.filter(|_| mine.len() > 1) {
            mine.remove(cordon);
        }
        Arc::new(Unplaceable { reasons: BTreeMap::from([(pin.clone(), mine)]) })
    }

    fn all_reasons(&self) -> Unplaceable {
        let reasons = self.nodes.iter().map(|(name, candidate)| {
            let number = self.ranking.number(name);
            let excluded = number.and_then(|number| self.excluded.get(&number)).cloned();
            let load = number.and_then(|number| self.loads.get(&number));
            let reasons = excluded.unwrap_or_else(|| match load {
                Some(_) => BTreeSet::new(),
                // Its resources do not suffice, so it was never examined.
                None => exclusions(name, candidate, &self.expressions, self.placed_pods),
            });
            let used = load.map_or(candidate.used, |load| load.used);
            let mut reasons =
                if reasons.is_empty() { shortage(&candidate.facts, used.plus(self.need)) } else { reasons };
            reasons.extend(candidate.cordon.clone());
            (name.clone(), reasons)
        });
        Unplaceable { reasons: reasons.collect() }
    }
}

/// The reasons why no instance can use this node, whatever its load.
fn exclusions(
    name: &NodeName,
    candidate: &Candidate,
    expressions: &[Expression],
    placed_pods: &dyn PlacedPods,
) -> BTreeSet<String> {
    let mut reasons = BTreeSet::new();
    match candidate.liveness {
        Liveness::Alive => {}
        Liveness::Suspect => drop(reasons.insert("suspect (no recent report)".to_owned())),
        Liveness::Lost => drop(reasons.insert("lost".to_owned())),
        Liveness::Unknown => drop(reasons.insert("unknown (no report yet)".to_owned())),
    }
    match candidate.engine {
        EngineState::Up => {}
        EngineState::Hung => drop(reasons.insert("its engine hangs".to_owned())),
        EngineState::Down => drop(reasons.insert("its engine is down".to_owned())),
    }
    let hard = expressions.iter().filter(|expression| !expression.is_soft());
    reasons.extend(hard.filter_map(|expression| holds(expression, name, candidate, placed_pods).err()));
    reasons
}

fn holds(
    expression: &Expression,
    name: &NodeName,
    candidate: &Candidate,
    placed_pods: &dyn PlacedPods,
) -> Result<(), String> {
    let met = match expression.kind() {
        ExpressionKind::Unreadable(reason) => return Err(format!("{} cannot be read: {reason}", expression.text())),
        ExpressionKind::Constraint(test) if test.key.eq_ignore_ascii_case("node") => {
            test.matches(name.as_str()) == test.equal
        }
        ExpressionKind::Constraint(test) => test.matches(label(candidate, &test.key)) == test.equal,
        ExpressionKind::Affinity(test) => has_placed(test, name, placed_pods) == test.equal,
    };
    if met { Ok(()) } else { Err(format!("{} not met", expression.text())) }
}

/// A missing label counts as empty.
fn label<'h>(candidate: &'h Candidate, key: &str) -> &'h str {
    candidate.facts.labels.get(key).map_or("", String::as_str)
}

fn has_placed(test: &LabelTest, node: &NodeName, placed_pods: &dyn PlacedPods) -> bool {
    let mut found = false;
    placed_pods.visit(node, &mut |pod, spec| {
        found = found
            || match test.key.as_str() {
                "container" => test.matches(&pod.to_string()),
                "image" => spec.containers.iter().any(|c| test.matches(&c.image)),
                contract::labels::POD_NAME => test.matches(pod.group.as_str()),
                key => spec.labels.get(key).is_some_and(|value| test.matches(value)),
            };
    });
    found
}

fn shortage(facts: &NodeFacts, after: Need) -> BTreeSet<String> {
    let mut reasons = BTreeSet::new();
    if after.memory > facts.memory {
        // Rounded up, because "0 MiB short" would be confusing.
        reasons.insert(format!("memory {} MiB short", (after.memory - facts.memory).div_ceil(1024 * 1024)));
    }
    if after.cpu_millis > facts.cpu_millis {
        let short = after.cpu_millis - facts.cpu_millis;
        reasons.insert(format!("cpu {}.{:03} cores short", short / 1000, short % 1000));
    }
    reasons
}

impl Unplaceable {
    /// The text is shown to users and stored with the instance.
    const MOST_NAMED: usize = 5;

    /// The text of `LastError`.
    pub fn sentence(&self) -> String {
        if self.reasons.is_empty() {
            return "no node fits: there is no node".to_owned();
        }
        let mut text = "no node fits: ".to_owned();
        for (index, (name, reasons)) in self.reasons.iter().take(Self::MOST_NAMED).enumerate() {
            let reasons: Vec<&str> = reasons.iter().map(String::as_str).collect();
            let separator = if index == 0 { "" } else { "; " };
            let _ = write!(text, "{separator}{name}: {}", reasons.join(", "));
        }
        if let Some(more) = self.reasons.len().checked_sub(Self::MOST_NAMED).filter(|more| *more > 0) {
            let _ = write!(text, "; and {more} more");
        }
        text
    }
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
