//! Chooses a node for each instance of a group.
//!
//! Memory, CPU, liveness and hard expressions decide what is possible; then the node with the fewest siblings, the lowest
//! dominant share after the placement and the first name is taken. Candidates are worked out once per batch and kept in
//! order, so a thousand instances cost a thousand tree operations and not a thousand looks at every node.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::query::Liveness;
use contract::report::{EngineState, NodeFacts};
use contract::spec::PodSpec;

use crate::expression::{Expression, Kind, Test};

/// What one instance takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes.
    pub memory: u64,
    /// Thousandths of a core.
    pub cpu_millis: u64,
}

/// A node as a place to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// What it has.
    pub facts: NodeFacts,
    /// What is given away.
    pub used: Need,
    /// Whether it is heard.
    pub liveness: Liveness,
    /// How its engine is.
    pub engine: EngineState,
}

/// What is placed where, for affinity expressions.
pub trait Tenants {
    /// Shows every pod placed on the node.
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec));
}

/// Why an instance has no place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unplaceable {
    /// Every node with every reason, sorted.
    pub reasons: BTreeMap<NodeName, BTreeSet<String>>,
}

/// Where an instance should go if it can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish<'a> {
    /// Only there.
    pub pin: Option<&'a NodeName>,
    /// There only if nowhere else.
    pub avoid: Option<&'a NodeName>,
    /// There if it is as good a kind of place as there is.
    pub prefer: Option<&'a NodeName>,
}

/// Places the instances of one group one after another.
pub struct Batch<'a> {
    hosts: &'a BTreeMap<NodeName, Host>,
    need: Need,
    /// Nodes that could take an instance if they had room, with their load.
    loads: BTreeMap<&'a NodeName, Load>,
    /// Every expression holds, and there is room.
    preferred: BTreeSet<Rank<'a>>,
    /// The hard expressions hold, and there is room.
    accepted: BTreeSet<Rank<'a>>,
    /// Reasons of nodes that cannot take any instance.
    excluded: BTreeMap<&'a NodeName, BTreeSet<String>>,
    /// The reasons as of now; emptied by every change.
    reasons: OnceCell<Arc<Unplaceable>>,
}

/// Fewest siblings first, then the lowest share, then the name.
type Rank<'a> = (u32, u64, &'a NodeName);

#[derive(Debug, Clone, Copy)]
struct Load {
    used: Need,
    siblings: u32,
    wished: bool,
}

impl Need {
    /// What one instance of `pod` takes.
    pub fn of(pod: &PodSpec, quota_cores: u32) -> Self {
        Self { memory: pod.memory(), cpu_millis: pod.cpu_millis(quota_cores) }
    }
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
        }
    }
    /// This without the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
        }
    }
}

impl<'a> Batch<'a> {
    /// Works out the candidates for instances that ask for `filters`; `siblings` counts the instances that stay where they are.
    pub fn new(
        hosts: &'a BTreeMap<NodeName, Host>,
        filters: &[String],
        need: Need,
        siblings: &BTreeMap<NodeName, u32>,
        tenants: &dyn Tenants,
    ) -> Self {
        let expressions: Vec<Expression> = filters.iter().map(|text| Expression::parse(text)).collect();
        let mut batch = Self {
            hosts,
            need,
            loads: BTreeMap::new(),
            preferred: BTreeSet::new(),
            accepted: BTreeSet::new(),
            excluded: BTreeMap::new(),
            reasons: OnceCell::new(),
        };
        for (name, host) in hosts {
            let reasons = exclusions(name, host, &expressions, tenants);
            if !reasons.is_empty() {
                batch.excluded.insert(name, reasons);
                continue;
            }
            let wished = expressions.iter().filter(|e| e.is_soft()).all(|e| holds(e, name, host, tenants).is_ok());
            let siblings = siblings.get(name).copied().unwrap_or(0);
            batch.loads.insert(name, Load { used: host.used, siblings, wished });
            batch.offer(name);
        }
        batch
    }

    /// An instance gives its room on `node` back; it may be of another version and need something else.
    pub fn release(&mut self, node: &NodeName, need: Need) {
        self.change(node, |load| load.used = load.used.minus(need));
    }

    /// An instance on `node` looks for another place and is no sibling there any more.
    pub fn uncount(&mut self, node: &NodeName) {
        self.change(node, |load| load.siblings = load.siblings.saturating_sub(1));
    }

    /// One more instance takes its room on `node`: newly placed, or staying because it fits nowhere else.
    pub fn keep(&mut self, node: &NodeName, need: Need) {
        self.change(node, |load| {
            load.used = load.used.plus(need);
            load.siblings += 1;
        });
    }

    /// Chooses a node for one more instance.
    pub fn place(&mut self, wish: Wish<'_>) -> Result<NodeName, Arc<Unplaceable>> {
        let chosen = match wish.pin {
            Some(pin) => self.ranked(pin),
            None => wish.prefer.and_then(|node| self.good(node)).or_else(|| self.best(wish.avoid)),
        };
        let Some(name) = chosen else { return Err(self.why(wish.pin)) };
        self.keep(name, self.need);
        Ok(name.clone())
    }

    fn best(&self, avoid: Option<&NodeName>) -> Option<&'a NodeName> {
        let first = |set: &BTreeSet<Rank<'a>>, avoid: Option<&NodeName>| {
            set.iter().map(|(_, _, name)| *name).find(|name| Some(*name) != avoid)
        };
        first(&self.preferred, avoid)
            .or_else(|| first(&self.accepted, avoid))
            .or_else(|| first(&self.preferred, None))
            .or_else(|| first(&self.accepted, None))
    }

    /// The node, if no other could meet a wish that it does not meet.
    fn good(&self, node: &NodeName) -> Option<&'a NodeName> {
        let (name, load) = self.loads.get_key_value(node)?;
        self.rank(name, load).filter(|_| load.wished || self.preferred.is_empty()).map(|_| *name)
    }

    fn ranked(&self, node: &NodeName) -> Option<&'a NodeName> {
        let (name, load) = self.loads.get_key_value(node)?;
        self.rank(name, load).map(|_| *name)
    }

    /// Changes the load of a node and its place in the order.
    fn change(&mut self, node: &NodeName, change: impl FnOnce(&mut Load)) {
        let Some((name, load)) = self.loads.get_key_value(node).map(|(name, load)| (*name, *load)) else { return };
        if let Some(rank) = self.rank(name, &load) {
            self.preferred.remove(&rank);
            self.accepted.remove(&rank);
        }
        if let Some(load) = self.loads.get_mut(name) {
            change(load);
        }
        self.reasons = OnceCell::new();
        self.offer(name);
    }

    fn offer(&mut self, name: &'a NodeName) {
        let Some(load) = self.loads.get(name).copied() else { return };
        let Some(rank) = self.rank(name, &load) else { return };
        if load.wished {
            self.preferred.insert(rank)
        } else {
            self.accepted.insert(rank)
        };
    }

    /// Where the node stands in the order; none when it has no room.
    fn rank(&self, name: &'a NodeName, load: &Load) -> Option<Rank<'a>> {
        let facts = &self.hosts.get(name)?.facts;
        let after = load.used.plus(self.need);
        if after.memory > facts.memory || after.cpu_millis > facts.cpu_millis {
            return None;
        }
        let share = |part: u64, whole: u64| u64::try_from(u128::from(part) * 1_000_000 / u128::from(whole.max(1)));
        let share = share(after.memory, facts.memory).ok()?.max(share(after.cpu_millis, facts.cpu_millis).ok()?);
        Some((load.siblings, share, name))
    }

    fn why(&self, pin: Option<&NodeName>) -> Arc<Unplaceable> {
        let all = self.reasons.get_or_init(|| Arc::new(self.all_reasons()));
        let Some(pin) = pin else { return Arc::clone(all) };
        let mine = all.reasons.get(pin).cloned().unwrap_or_else(|| BTreeSet::from(["not known".to_owned()]));
        Arc::new(Unplaceable { reasons: BTreeMap::from([(pin.clone(), mine)]) })
    }

    fn all_reasons(&self) -> Unplaceable {
        let mut reasons: BTreeMap<NodeName, BTreeSet<String>> =
            self.excluded.iter().map(|(name, reasons)| ((*name).clone(), reasons.clone())).collect();
        for (name, load) in &self.loads {
            let Some(host) = self.hosts.get(*name) else { continue };
            reasons.insert((*name).clone(), shortage(&host.facts, load.used.plus(self.need)));
        }
        Unplaceable { reasons }
    }
}

/// What no instance of this spec can get past on this node.
fn exclusions(name: &NodeName, host: &Host, expressions: &[Expression], tenants: &dyn Tenants) -> BTreeSet<String> {
    let mut reasons = BTreeSet::new();
    match host.liveness {
        Liveness::Alive => {}
        Liveness::Suspect => drop(reasons.insert("not heard lately".to_owned())),
        Liveness::Lost => drop(reasons.insert("lost".to_owned())),
        Liveness::Unknown => drop(reasons.insert("not heard yet".to_owned())),
    }
    match host.engine {
        EngineState::Up => {}
        EngineState::Hung => drop(reasons.insert("its engine hangs".to_owned())),
        EngineState::Down => drop(reasons.insert("its engine is down".to_owned())),
    }
    let hard = expressions.iter().filter(|expression| !expression.is_soft());
    reasons.extend(hard.filter_map(|expression| holds(expression, name, host, tenants).err()));
    reasons
}

fn holds(expression: &Expression, name: &NodeName, host: &Host, tenants: &dyn Tenants) -> Result<(), String> {
    let met = match expression.kind() {
        Kind::Unreadable(reason) => return Err(format!("{} cannot be read: {reason}", expression.text())),
        Kind::Constraint(test) if test.key.eq_ignore_ascii_case("node") => test.matches(name.as_str()) == test.equal,
        Kind::Constraint(test) => test.matches(label(host, &test.key)) == test.equal,
        Kind::Affinity(test) => houses(test, name, tenants) == test.equal,
    };
    if met { Ok(()) } else { Err(format!("{} not met", expression.text())) }
}

/// A missing label is an empty one.
fn label<'h>(host: &'h Host, key: &str) -> &'h str {
    host.facts.labels.get(key).map_or("", String::as_str)
}

fn houses(test: &Test, node: &NodeName, tenants: &dyn Tenants) -> bool {
    let mut found = false;
    tenants.visit(node, &mut |pod, spec| {
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
        // Rounded up: "0 MiB short" would be a riddle.
        reasons.insert(format!("memory {} MiB short", (after.memory - facts.memory).div_ceil(1024 * 1024)));
    }
    if after.cpu_millis > facts.cpu_millis {
        let short = after.cpu_millis - facts.cpu_millis;
        reasons.insert(format!("cpu {}.{:03} cores short", short / 1000, short % 1000));
    }
    reasons
}

impl Unplaceable {
    /// Most nodes named in the sentence: it is shown to people and stored with the instance.
    const MOST_NAMED: usize = 5;

    /// One sentence for `LastError`.
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
