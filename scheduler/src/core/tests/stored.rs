//! What a test looks at: what is stored, what runs where, and what the next leader makes of it.

use contract::layout;

use super::*;
use contract::record::{GroupRecord, Slot};

impl Rig {
    /// The record of a group as stored.
    pub(super) fn record(&self, name: &str) -> GroupRecord {
        layout::read_group(&group(name), &self.store).expect("a record that can be read").expect("a record")
    }
    /// The slots of a group as stored.
    pub(super) fn slots(&self, name: &str) -> Vec<Slot> {
        layout::read_slots(&group(name), &self.store).expect("a placement")
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
    pub(super) fn is_crash_looping(&mut self, name: &str) {
        self.agents.get_mut(&node(name)).expect("an agent").clinging.clear();
    }
}
