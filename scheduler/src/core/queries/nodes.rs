//! Answers queries about nodes: the list, and everything about one of them.

use contract::name::NodeName;
use contract::node::{NodePage, NodePod};
use contract::pod_id::PodId;
use contract::query::{Liveness, NodeView};
use contract::report::{EngineState, PodFacts};
use planner::placement::Candidate;

use crate::core::observe::pending::is_accepted;
use crate::core::reconcile::waits;

use super::Queries;

impl Queries<'_> {
    pub(super) fn nodes(&self) -> Vec<NodeView> {
        let pending = self.reports.pending.all(self.now, self.settings.lost_after);
        let pending = pending.filter(|(name, _)| !self.state.nodes.contains_key(*name)).map(|(name, node)| NodeView {
            name: name.clone(),
            liveness: Liveness::Alive,
            engine: EngineState::Up,
            facts: node.facts.clone(),
            used_cpu_millis: 0,
            used_memory: 0,
            containers: 0,
            instances: 0,
            cordon: None,
            pending: true,
        });
        self.state.nodes.iter().map(|(name, host)| self.node(name, host)).chain(pending).collect()
    }

    fn node(&self, name: &NodeName, host: &Candidate) -> NodeView {
        let specs = self
            .state
            .pods_on(name)
            .filter_map(|(pod, version)| Some(self.state.groups.get(&pod.group)?.pod(*version)?.containers.len()));
        let containers = specs.sum::<usize>() + self.state.dependencies.containers_on(name);
        NodeView {
            name: name.clone(),
            liveness: host.liveness,
            engine: host.engine,
            facts: host.facts.clone(),
            used_cpu_millis: host.used.cpu_millis,
            used_memory: host.used.memory,
            containers: u32::try_from(containers).unwrap_or(u32::MAX),
            instances: u32::try_from(self.state.pods_on(name).count()).unwrap_or(u32::MAX),
            cordon: self.state.nodes.intent(name).and_then(|intent| intent.cordon.clone()),
            // A standby lists what it heard of.
            pending: !is_accepted(self.settings, self.state, name),
        }
    }

    /// Everything about one node.
    pub(super) fn node_page(&self, name: &NodeName) -> Option<NodePage> {
        let host = self.state.nodes.get(name)?;
        let observed = self.reports.get(name);
        let reported = observed.and_then(|observed| observed.report.as_ref()).map(|report| &report.pods);
        let mut pods: Vec<NodePod> = self.state.pods_on(name).map(|(pod, _)| self.placed_on(name, pod)).collect();
        // Other reported pods are on their way out; dependency pods are not listed.
        let others =
            reported.into_iter().flatten().filter(|(pod, _)| pod.instance > 0 && !self.state.is_placed_on(name, pod));
        pods.extend(others.map(|(pod, facts)| self.line_of(name, pod, Some(facts), true)));
        let intent = self.state.nodes.intent(name);
        Some(NodePage {
            node: self.node(name, host),
            said: intent.map(|intent| intent.labels.clone()).unwrap_or_default(),
            identity: self.reports.identity(name).to_owned(),
            heard_at: observed.and_then(|observed| observed.heard_at),
            removing: intent.is_some_and(|intent| intent.removing),
            pods,
            duplicate_agent: self.reports.duplicate_agents.of(name, self.now, self.settings.lost_after).cloned(),
        })
    }

    fn placed_on(&self, node: &NodeName, pod: &PodId) -> NodePod {
        self.line_of(node, pod, self.reports.pod(node, pod), false)
    }

    fn line_of(&self, node: &NodeName, pod: &PodId, seen: Option<&PodFacts>, leaving: bool) -> NodePod {
        let group = self.state.groups.get(&pod.group);
        let spec = group.and_then(|group| group.pod(group.version_of(pod)));
        let said = seen.map(|seen| seen.last_error.clone()).filter(|text| !text.is_empty());
        let exit = || seen.and_then(PodFacts::present_exit).map(|exit| exit.describe(self.now));
        let wanted = group.map(|group| group.record.last_error.clone());
        let leaves = group.filter(|group| group.record.drifts.iter().any(|drift| drift.from == *node));
        let waits = leaves.and_then(|group| waits::of_moves(self.state, self.reports, &pod.group, group));
        let index = usize::try_from(pod.instance).unwrap_or(0).checked_sub(1);
        let instance = group.zip(index).and_then(|(group, index)| group.instances().get(index));
        let unplaced = instance.map(|instance| instance.why.clone()).filter(|why| !why.is_empty());
        NodePod {
            pod: pod.clone(),
            state: seen.map(|seen| seen.state).unwrap_or_default(),
            health: seen.map(|seen| seen.health).unwrap_or_default(),
            bound: spec.is_some_and(|spec| spec.is_stateful()),
            leaving,
            why: waits.map(|wait| wait.reason).or(said).or_else(exit).or(unplaced).or(wanted).unwrap_or_default(),
        }
    }
}
