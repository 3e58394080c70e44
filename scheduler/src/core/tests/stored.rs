//! What a test looks at: what is stored, what runs where, and what the next leader makes of it.

use super::*;
use contract::record::{GroupRecord, Slot};

impl Rig {
    /// The record of a group as stored.
    pub(super) fn record(&self, name: &str) -> GroupRecord {
        let value = self.store.get(&keys::group(&group(name))).expect("a record");
        serde_json::from_slice(value).expect("a record")
    }
    /// The slots of a group as stored.
    pub(super) fn slots(&self, name: &str) -> Vec<Slot> {
        let value = self.store.get(&keys::placement(&group(name))).expect("a placement");
        serde_json::from_slice::<PlacementRecord>(value).expect("a record").slots
    }
    /// Another scheduler takes over, with everything stored and nothing heard.
    pub(super) fn take_over(&mut self) {
        self.core = Core::new(Settings::default());
        self.elect();
        self.report_all();
    }
    /// How often each instance of a group is anywhere at this moment: more than once is a fault.
    pub(super) fn copies(&self, name: &str) -> BTreeMap<u32, usize> {
        let mut copies = BTreeMap::new();
        for agent in self.agents.values() {
            let pods: BTreeSet<&PodId> = agent.order.pods.keys().chain(&agent.clinging).collect();
            for pod in pods.into_iter().filter(|pod| pod.group == group(name)) {
                *copies.entry(pod.instance).or_default() += 1;
            }
        }
        copies
    }
    /// From now on the node cannot get rid of what it runs.
    pub(super) fn cling(&mut self, name: &str) {
        let agent = self.agents.get_mut(&node(name)).expect("an agent");
        agent.clinging = agent.order.pods.keys().cloned().collect();
    }
    /// The node gets rid of what it must not run.
    pub(super) fn let_go(&mut self, name: &str) {
        self.agents.get_mut(&node(name)).expect("an agent").clinging.clear();
    }
}
