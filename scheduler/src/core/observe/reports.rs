//! The cache of reports, on the leader and on standbys alike, so that a new leader starts with full facts.
//!
//! A report arrives whole, as a delta, or as a digest to compare (heartbeat). If it does not fit the cached report, the
//! scheduler requests the whole. Messages may arrive late or twice: an old message changes nothing, not even the time of the
//! last report.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use contract::delta::Changes;
use contract::digest::Digest;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::report::{Heartbeat, PodFacts, Report, ReportDelta, ReportMessage, Stamp};
use contract::state::RunState;
use contract::time::Timestamp;

use super::duplicate_agents::DuplicateAgents;
use super::pending::PendingNodes;

/// Shortest interval of requests to one node for its whole report.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// A message of a replaced agent arrives at most so late; less than it takes to become suspect.
const LATE: Duration = Duration::from_secs(10);

/// The last report of every node.
#[derive(Debug, Default)]
pub(in crate::core) struct ReportCache {
    nodes: BTreeMap<NodeName, ObservedNode>,
    /// Agents under names that are taken.
    pub(in crate::core) duplicate_agents: DuplicateAgents,
    /// Nodes that wait for approval.
    pub(in crate::core) pending: PendingNodes,
    /// How many pods of which group which node reports.
    sightings: Sightings,
    /// When any node last reported.
    last_heard_at: Option<Timestamp>,
    /// When the first report arrived after a silence of all nodes that was long enough to suspect the scheduler itself.
    pub(in crate::core) blind_until: Timestamp,
    /// For each group, the number of reported pods that are neither pending nor leaving.
    arrived: BTreeMap<GroupName, usize>,
}

type Sightings = BTreeMap<GroupName, BTreeMap<NodeName, u32>>;

/// What is known of one node from its reports.
#[derive(Debug, Default)]
pub(in crate::core) struct ObservedNode {
    pub(in crate::core) report: Option<Report>,
    /// Identity of the accepted agent; empty for an agent without one.
    pub(super) identity: String,
    /// Digest of the report's pods, updated entry by entry.
    digest: Digest,
    pub(in crate::core) heard_at: Option<Timestamp>,
    /// The last message did not fit the cached report: the whole report is requested.
    pub(super) is_outdated: bool,
    /// When the node last reported its pods, and not only a heartbeat.
    pub(super) reported_at: Timestamp,
    asked_at: Option<Timestamp>,
    /// The previous incarnation of the agent and when it was replaced. Its late messages are ignored for a while. Not forever:
    /// which of two incarnations came first is a guess if a message was delayed, and a wrong guess must heal.
    retired: Option<(String, Timestamp)>,
    /// Instances that run and are not leaving.
    pub(in crate::core) running: u32,
}

/// What a message changed.
#[derive(Debug, Default)]
pub(in crate::core) struct Folded {
    /// The message is not old.
    pub(in crate::core) is_current: bool,
    /// The scheduler should request the whole report.
    pub(in crate::core) needs_whole: bool,
    /// Pods that changed, before and after.
    pub(in crate::core) pods: Vec<PodChange>,
}

/// One pod before and after.
#[derive(Debug)]
pub(in crate::core) struct PodChange {
    pub(in crate::core) pod: PodId,
    pub(in crate::core) before: Option<PodFacts>,
    pub(in crate::core) after: Option<PodFacts>,
}

/// How a message relates to what is known.
enum Age {
    Old,
    Fits,
    Gap,
}

impl ReportCache {
    pub(in crate::core) fn get(&self, node: &NodeName) -> Option<&ObservedNode> {
        self.nodes.get(node)
    }
    /// Identity of the accepted agent; empty for an agent without one.
    pub(in crate::core) fn identity(&self, node: &NodeName) -> &str {
        self.nodes.get(node).map_or("", |observed| &observed.identity)
    }
    /// Every node that ever reported whole.
    pub(in crate::core) fn all(&self) -> impl Iterator<Item = (&NodeName, &Report)> {
        self.nodes.iter().filter_map(|(name, observed)| Some((name, observed.report.as_ref()?)))
    }
    /// What `node` reports about `pod`.
    pub(in crate::core) fn pod(&self, node: &NodeName, pod: &PodId) -> Option<&PodFacts> {
        self.nodes.get(node)?.report.as_ref()?.pods.get(pod)
    }
    /// The nodes that report pods of the group.
    pub(in crate::core) fn sightings(&self, group: &GroupName) -> impl Iterator<Item = &NodeName> {
        self.sightings.get(group).into_iter().flat_map(BTreeMap::keys)
    }
    /// The nodes that report pods of the dependency pod.
    pub(in crate::core) fn sightings_beside(&self, dependency: &GroupName) -> impl Iterator<Item = &NodeName> {
        let first: Option<GroupName> = format!("{dependency}-").parse().ok();
        let named = first.map(|first| {
            self.sightings.range(first.clone()..).take_while(move |(name, _)| name.as_str().starts_with(first.as_str()))
        });
        named.into_iter().flatten().flat_map(move |(name, nodes)| {
            let beside = move |node: &&NodeName| name.as_str().starts_with(&format!("{dependency}-{node}-"));
            nodes.keys().filter(beside)
        })
    }
    /// Those of these pods that `node` reports.
    pub(in crate::core) fn pods(
        &self,
        node: &NodeName,
        pods: RangeInclusive<PodId>,
    ) -> impl Iterator<Item = (&PodId, &PodFacts)> {
        let report = self.nodes.get(node).and_then(|observed| observed.report.as_ref());
        report.into_iter().flat_map(move |report| report.pods.range(pods.clone()))
    }
    /// Whether the whole report of `node` may be requested now. If so, the request counts as made.
    pub(super) fn may_ask(&mut self, node: &NodeName, now: Timestamp) -> bool {
        let Some(observed) = self.nodes.get_mut(node) else { return false };
        let may = observed.asked_at.is_none_or(|asked| now.since(asked) >= ASK_EVERY);
        if may {
            observed.asked_at = Some(now);
        }
        may
    }

    /// A node reports. A silence of all nodes for `pause` means that this scheduler was cut off until now.
    pub(in crate::core) fn listen(&mut self, now: Timestamp, pause: Duration) {
        let before = self.last_heard_at.replace(now);
        if before.is_some_and(|before| now.since(before) >= pause) {
            self.blind_until = now;
        }
    }

    /// Drops everything that the node reported.
    pub(in crate::core) fn forget(&mut self, node: &NodeName) {
        let observed = self.nodes.remove(node);
        for (pod, facts) in observed.and_then(|observed| observed.report).into_iter().flat_map(|report| report.pods) {
            self.count(node, &[PodChange { pod, before: Some(facts), after: None }]);
        }
        self.duplicate_agents.forget(node);
    }

    /// Notes that the node is there, without its report.
    pub(super) fn hear(&mut self, node: &NodeName, now: Timestamp) {
        self.nodes.entry(node.clone()).or_default().heard_at = Some(now);
    }

    /// Drops the report of the node, but not when it last reported, without relying on counts that a panic may have left wrong.
    pub(in crate::core) fn discard(&mut self, node: &NodeName) {
        if let Some(observed) = self.nodes.get_mut(node) {
            let ObservedNode { identity, heard_at, retired, .. } = std::mem::take(observed);
            *observed = ObservedNode { identity, heard_at, retired, ..ObservedNode::default() };
        }
        self.sightings = Sightings::new();
        self.arrived = BTreeMap::new();
        for (node, observed) in &self.nodes {
            for (pod, facts) in observed.report.iter().flat_map(|report| &report.pods) {
                *self.sightings.entry(pod.group.clone()).or_default().entry(node.clone()).or_default() += 1;
                if has_arrived(facts) {
                    *self.arrived.entry(pod.group.clone()).or_default() += 1;
                }
            }
        }
    }

    /// How many reported pods of the group are not pending, nor on their way out.
    pub(in crate::core) fn arrived(&self, group: &GroupName) -> usize {
        self.arrived.get(group).copied().unwrap_or(0)
    }

    /// Folds one message.
    pub(in crate::core) fn fold(&mut self, mut message: ReportMessage, now: Timestamp) -> Folded {
        if let Some(head) = message.head_mut() {
            head.facts.bound();
        }
        let node = message.stamp().node.clone();
        let observed = self.nodes.entry(node.clone()).or_default();
        let tells = !matches!(message, ReportMessage::Heartbeat(_));
        if *observed.identity != *message.stamp().identity {
            observed.identity = message.stamp().identity.to_string();
        }
        let mut folded = match message {
            ReportMessage::Whole(report) => observed.whole(report, &self.sightings, now),
            ReportMessage::Delta(delta) => observed.delta(delta, &self.sightings, now),
            ReportMessage::Heartbeat(heartbeat) => observed.heartbeat(&heartbeat, now),
        };
        if folded.is_current {
            observed.heard_at = Some(now);
            observed.is_outdated = folded.needs_whole;
        }
        if folded.is_current && tells && !folded.needs_whole {
            observed.reported_at = now;
        }
        self.count(&node, &folded.pods);
        folded.needs_whole = folded.needs_whole && self.may_ask(&node, now);
        folded
    }

    fn count(&mut self, node: &NodeName, changes: &[PodChange]) {
        for change in changes {
            let group = &change.pod.group;
            match (change.before.as_ref().is_some_and(has_arrived), change.after.as_ref().is_some_and(has_arrived)) {
                (false, true) => *self.arrived.entry(group.clone()).or_default() += 1,
                (true, false) => {
                    let left = self.arrived.get_mut(group).map_or(0, |count| {
                        *count = count.saturating_sub(1);
                        *count
                    });
                    if left == 0 {
                        self.arrived.remove(group);
                    }
                }
                (true, true) | (false, false) => {}
            }
            if change.before.is_none() && change.after.is_some() {
                *self.sightings.entry(group.clone()).or_default().entry(node.clone()).or_default() += 1;
            }
            if change.before.is_some() && change.after.is_none() {
                self.uncount(node, group);
            }
        }
    }

    fn uncount(&mut self, node: &NodeName, group: &GroupName) {
        let Some(nodes) = self.sightings.get_mut(group) else { return };
        if let Some(count) = nodes.get_mut(node) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                nodes.remove(node);
            }
        }
        if nodes.is_empty() {
            self.sightings.remove(group);
        }
    }
}

impl ObservedNode {
    /// When the agent last restarted, as far as its reports show.
    pub(super) fn renewed_at(&self) -> Option<Timestamp> {
        self.retired.as_ref().map(|(_, at)| *at)
    }

    fn age(&self, stamp: &Stamp, base: u64, now: Timestamp) -> Age {
        let late = |(name, at): &(String, Timestamp)| *name == stamp.incarnation && now < *at + LATE;
        if self.retired.as_ref().is_some_and(late) {
            return Age::Old;
        }
        let Some(known) = self.report.as_ref().map(|report| &report.head.stamp) else { return Age::Gap };
        if known.incarnation != stamp.incarnation {
            return Age::Gap;
        }
        match stamp.sequence.cmp(&known.sequence) {
            std::cmp::Ordering::Less => Age::Old,
            _ if base == known.sequence => Age::Fits,
            std::cmp::Ordering::Equal => Age::Old,
            std::cmp::Ordering::Greater => Age::Gap,
        }
    }

    fn whole(&mut self, report: Report, names: &Sightings, now: Timestamp) -> Folded {
        let stamp = &report.head.stamp;
        // A whole needs no base: only an older one is refused.
        match self.age(stamp, stamp.sequence, now) {
            Age::Old => return Folded::default(),
            Age::Fits | Age::Gap => {}
        }
        let before = self.report.take();
        if let Some(old) = before.as_ref().filter(|old| old.head.stamp.incarnation != stamp.incarnation) {
            self.retired = Some((old.head.stamp.incarnation.clone(), now));
        }
        let mut pods = before.map(|old| old.pods).unwrap_or_default();
        let changes = Changes::between(&pods, &report.pods);
        let changed = self.apply(&mut pods, changes, names);
        self.report = Some(Report { head: report.head, pods });
        self.asked_at = None;
        Folded { is_current: true, needs_whole: false, pods: changed }
    }

    fn delta(&mut self, delta: ReportDelta, names: &Sightings, now: Timestamp) -> Folded {
        match self.age(&delta.head.stamp, delta.base, now) {
            Age::Old => return Folded::default(),
            Age::Gap => return Folded { is_current: true, needs_whole: true, pods: Vec::new() },
            Age::Fits => {}
        }
        let Some(mut report) = self.report.take() else { return Folded::default() };
        report.head = delta.head;
        let changed = self.apply(&mut report.pods, delta.pods, names);
        self.report = Some(report);
        Folded { is_current: true, needs_whole: false, pods: changed }
    }

    fn heartbeat(&self, heartbeat: &Heartbeat, now: Timestamp) -> Folded {
        match self.age(&heartbeat.stamp, heartbeat.stamp.sequence, now) {
            Age::Old => Folded::default(),
            Age::Gap => Folded { is_current: true, needs_whole: true, pods: Vec::new() },
            Age::Fits => Folded { is_current: true, needs_whole: self.digest != heartbeat.digest, pods: Vec::new() },
        }
    }

    /// Applies the changes, updates the digest and returns the previous values. All pods of a group share one copy of its name,
    /// because every plan looks all of them up and comparing separate copies is slow.
    fn apply(
        &mut self,
        pods: &mut BTreeMap<PodId, PodFacts>,
        changes: Changes<PodId, PodFacts>,
        names: &Sightings,
    ) -> Vec<PodChange> {
        let puts = changes.put.into_iter().map(|(pod, facts)| (pod, Some(facts)));
        let gone = changes.gone.into_iter().map(|pod| (pod, None));
        let mut changed = Vec::new();
        for (mut pod, mut after) in gone.chain(puts) {
            if let Some((name, _)) = names.get_key_value(&pod.group) {
                pod.group = name.clone();
            }
            // Deserialised vectors have spare capacity, and they live long.
            after.iter_mut().for_each(|facts| facts.containers.shrink_to_fit());
            let before = match &after {
                Some(facts) => pods.insert(pod.clone(), facts.clone()),
                None => pods.remove(&pod),
            };
            if let Some(facts) = &before {
                self.digest = self.digest.without(facts.digest(&pod));
                self.running -= u32::from(runs(&pod, facts));
            }
            if let Some(facts) = &after {
                self.digest = self.digest.with(facts.digest(&pod));
                self.running += u32::from(runs(&pod, facts));
            }
            changed.push(PodChange { pod, before, after });
        }
        changed
    }
}

/// The pod runs, failed or exited.
fn has_arrived(facts: &PodFacts) -> bool {
    facts.state != RunState::Pending && !facts.leaving
}

/// Dependency pods are not instances and not counted.
fn runs(pod: &PodId, facts: &PodFacts) -> bool {
    pod.instance > 0 && facts.state == RunState::Success && !facts.leaving
}

#[cfg(test)]
mod tests {
    use contract::fence::Fence;
    use contract::report::{EngineState, NodeFacts, ReportHead};

    use super::*;

    fn report(node: &str, pod: &str) -> ReportMessage {
        let stamp =
            Stamp { node: node.parse().unwrap(), incarnation: "1".to_owned(), sequence: 1, identity: Box::default() };
        let head = ReportHead {
            stamp,
            applied: Fence::default(),
            order_digest: Digest::default(),
            engine: EngineState::Up,
            facts: NodeFacts::default(),
            progress: Default::default(),
        };
        ReportMessage::Whole(Report { head, pods: BTreeMap::from([(pod.parse().unwrap(), PodFacts::default())]) })
    }

    fn with(message: ReportMessage, sequence: u64, state: RunState) -> ReportMessage {
        let ReportMessage::Whole(mut report) = message else { return message };
        report.head.stamp.sequence = sequence;
        report.pods.values_mut().for_each(|facts| facts.state = state);
        ReportMessage::Whole(report)
    }

    #[test]
    fn a_pod_that_is_not_pending_counts_once_until_its_node_is_forgotten() {
        let (mut reports, group) = (ReportCache::default(), "a".parse().unwrap());
        let mut fold = |node: &str, sequence, state| {
            let pod = format!("a.v1-i{}-d0", &node[1..]);
            reports.fold(with(report(node, &pod), sequence, state), Timestamp::from_millis(1));
            reports.arrived(&group)
        };
        assert_eq!(fold("n1", 1, RunState::Pending), 0);
        assert_eq!(fold("n1", 2, RunState::Success), 1);
        assert_eq!(fold("n1", 3, RunState::Exit), 1);
        assert_eq!(fold("n2", 1, RunState::Error), 2);
        assert_eq!(fold("n2", 2, RunState::Pending), 1);
        reports.forget(&"n1".parse().unwrap());
        assert_eq!((reports.arrived(&group), reports.arrived.len()), (0, 0));
    }

    #[test]
    fn a_group_that_two_nodes_report_has_its_name_in_memory_once() {
        let mut reports = ReportCache::default();
        reports.fold(report("n1", "a.v1-i1-d0"), Timestamp::from_millis(1));
        reports.fold(report("n2", "a.v1-i2-d0"), Timestamp::from_millis(1));
        let names: Vec<&str> =
            reports.all().flat_map(|(_, report)| report.pods.keys()).map(|pod| pod.group.as_str()).collect();
        assert_eq!(names, ["a", "a"]);
        assert!(std::ptr::eq(names[0], names[1]));
    }
}
