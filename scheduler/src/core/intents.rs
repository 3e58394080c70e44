//! Lays what operators say of a node over what its agent says.
//!
//! Hosts carry the result, so placement, constraints, releases and views all see the same labels and the same cordon. Nothing
//! here decides.

use std::borrow::Cow;

use contract::name::NodeName;
use contract::node::NodeIntent;
use contract::report::NodeFacts;

use super::state::State;

impl State {
    /// The facts of a node with the labels it has in the end.
    pub(super) fn labelled<'f>(&self, name: &NodeName, own: &'f NodeFacts) -> Cow<'f, NodeFacts> {
        match self.intents.get(name).filter(|intent| !intent.labels.is_empty()) {
            // Most nodes: nothing is copied for each of their reports.
            None => Cow::Borrowed(own),
            Some(intent) => Cow::Owned(NodeFacts { labels: intent.labels_over(&own.labels), ..own.clone() }),
        }
    }

    /// Why nothing new goes to the node, and whether it will not return.
    pub(super) fn standing_of(&self, name: &NodeName) -> (Option<String>, bool) {
        let Some(intent) = self.intents.get(name) else { return (None, false) };
        (intent.cordon.as_ref().map(contract::node::Cordon::reason), intent.removing)
    }

    /// Something else is said of a node whose agent says `own`.
    pub(super) fn set_intent(&mut self, name: &NodeName, intent: NodeIntent, own: Option<&NodeFacts>) {
        if intent.removing {
            self.removing.insert(name.clone());
        } else {
            self.removing.remove(name);
        }
        if intent.is_empty() {
            self.intents.remove(name);
        } else {
            self.intents.insert(name.clone(), intent);
        }
        let (cordon, decommissioned) = self.standing_of(name);
        let Some(host) = self.hosts.get_mut(name) else { return };
        (host.cordon, host.decommissioned) = (cordon, decommissioned);
        let engine = host.engine;
        if let Some(own) = own {
            self.put_host(name, own, engine);
        }
    }
}
