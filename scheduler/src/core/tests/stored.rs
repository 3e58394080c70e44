//! Accessors of the stored records and the running pods, and takeover by another scheduler.

use contract::layout;

use super::*;
use contract::record::{GroupRecord, Instance};

impl Rig {
    pub(super) fn record(&self, name: &str) -> GroupRecord {
        layout::read_group(&group(name), &self.store).expect("a record that can be read").expect("a record")
    }
    pub(super) fn instances(&self, name: &str) -> Vec<Instance> {
        layout::read_instances(&group(name), &self.store).expect("a placement")
    }
    /// Replaces the leader by a new process, which has the stored state and no reports.
    pub(super) fn replace_leader(&mut self) {
        self.core = Core::new(Settings::default());
        self.elect();
    }
    /// Replaces the leader by a new process, to which every node reports.
    pub(super) fn take_over(&mut self) {
        self.replace_leader();
        self.report_all();
    }
    /// How many pods of each instance run on all nodes; more than one is an error.
    pub(super) fn copies(&self, name: &str) -> BTreeMap<u32, usize> {
        let mut copies = BTreeMap::new();
        for agent in self.agents.values() {
            let pods: BTreeSet<&PodId> = agent.order.pods.keys().chain(&agent.stuck_pods).collect();
            for pod in pods.into_iter().filter(|pod| pod.group == group(name)) {
                *copies.entry(pod.instance).or_default() += 1;
            }
        }
        copies
    }
    /// Makes the pods of a node keep running although orders remove them.
    pub(super) fn keep_pods(&mut self, name: &str) {
        let agent = self.agent(name);
        agent.stuck_pods = agent.order.pods.keys().cloned().collect();
    }
    /// Lets the node remove the pods that [`Rig::keep_pods`] has kept.
    pub(super) fn release_pods(&mut self, name: &str) {
        self.agent(name).stuck_pods.clear();
    }
}
