//! Nodes that obey orders this store knows nothing of: etcd was wiped, or set back to an earlier state.
//!
//! Such a node is right and the store is not: it runs what somebody wanted, and the store has forgotten it. So nothing is done
//! to it, people are told, and it is asked again from time to time, until a backup is restored.

use contract::fence::Fence;
use contract::name::NodeName;
use contract::time::Timestamp;

use crate::core::events;
use crate::core::leader::Leading;
use crate::core::timers::Alarm;

impl Leading<'_> {
    /// The node refused its order: it obeys `have`, of another store or of a later state of this one.
    pub(in crate::core) fn foreign_store(&mut self, node: &NodeName, have: Fence, again_at: Timestamp) {
        self.lead.alarms.set(Alarm::Order(node.clone()), Some(again_at));
        if !self.state.foreign_store.insert(node.clone()) {
            return;
        }
        let message = format!(
            "obeys order {have}, which the store knows nothing of: etcd was wiped or set back; what runs there is left \
             alone until a backup is restored (deployctl restore)"
        );
        self.tell(vec![events::of_node(node, message, self.now)]);
    }

    /// The node takes orders.
    pub(in crate::core) fn reconciled(&mut self, node: &NodeName) {
        if self.state.foreign_store.remove(node) {
            self.tell(vec![events::of_node(node, "obeys this store again", self.now)]);
        }
    }
}
