//! Commands about nodes: cordon, drain, labels, approval, removal.
//!
//! A cordon only keeps new instances away. A removal marks the node first, and the leader forgets it when nothing is placed
//! there any more. Without force the command requires that nothing is placed there, so that is immediately; with force the
//! instances are rescheduled as after any other loss. A node that reports again before that stays, unless it joined with a token:
//! then its key is deleted with the command, and its reports do not count from then on.

use std::collections::BTreeSet;

use contract::command::Refusal;
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::node::{Cordon, MOST_LABELS, NodeChange, NodeIntent};
use contract::record::Instance;
use contract::report::NodeFacts;

use crate::core::commit::{self, Bundle};
use crate::core::events::conditions::ConditionKey;
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::state::quarantine::Object;
use crate::core::timers::Timer;
use crate::core::{events, observe};

use super::admission::malformed;
use super::evacuate;

/// PodGroups named in a refusal.
const MOST_NAMED: usize = 3;

pub(super) fn change_node(
    leading: &mut Leading<'_>,
    node: &NodeName,
    change: NodeChange,
    by: &str,
) -> Result<Bundle, Refusal> {
    // The apiserver checked; a command may come from elsewhere or from another version.
    change.validate().map_err(|flaws| malformed(&flaws))?;
    let is_known = leading.state.nodes.contains_key(node) || leading.state.joins.key(node).is_some();
    if change != NodeChange::Approve && !is_known {
        return Err(Refusal::NodeUnknown { node: node.clone() });
    }
    match change {
        NodeChange::Cordon { why } => Ok(cordon(leading, node, why, by)),
        NodeChange::Uncordon => Ok(uncordon(leading, node)),
        NodeChange::Drain { why, force } => {
            evacuate::drain(leading, node, force, Cordon { by: by.to_owned(), why, at: leading.now })
        }
        NodeChange::Label { labels } => {
            let mut intent = intent_of(leading, node);
            intent.set_labels(&labels, &agent_facts(leading, node).labels);
            if intent.labels.len() > MOST_LABELS {
                let what = format!("labels said of node {node}");
                return Err(Refusal::Limit { what, limit: MOST_LABELS as u64 });
            }
            Ok(set_node_intent(
                leading,
                node,
                intent,
                &format!("labels changed: {}", events::command::label_text(&labels)),
            ))
        }
        NodeChange::Approve => approve(leading, node),
        NodeChange::Remove { force } => remove_node(leading, node, force),
    }
}

fn approve(leading: &mut Leading<'_>, node: &NodeName) -> Result<Bundle, Refusal> {
    let before = intent_of(leading, node);
    if before.revoked && leading.state.joins.key(node).is_none() {
        let reason = format!(
            "{node} is being removed and its key was deleted, so an approval has no effect: let it join again with a new token \
             (deployctl node token create --names {node}, then deploy/install-agent --join on the node)"
        );
        return Err(Refusal::NodeBusy { reason });
    }
    let intent = NodeIntent { approved: true, ..before };
    Ok(set_node_intent(leading, node, intent, "approved: it gets orders with its next report"))
}

fn cordon(leading: &mut Leading<'_>, node: &NodeName, why: String, by: &str) -> Bundle {
    cordoned(leading, node, Cordon { by: by.to_owned(), why, at: leading.now })
}

/// Cordons a node. An existing cordon stays, unless the reason differs.
pub(super) fn cordoned(leading: &mut Leading<'_>, node: &NodeName, cordon: Cordon) -> Bundle {
    let intent = intent_of(leading, node);
    let is_same_reason = |known: &Cordon| cordon.why.is_empty() || known.why == cordon.why;
    if intent.cordon.as_ref().is_some_and(is_same_reason) {
        return Bundle::default();
    }
    let message = format!("{}: nothing new is placed here", cordon.reason());
    set_node_intent(leading, node, NodeIntent { cordon: Some(cordon), ..intent }, &message)
}

fn uncordon(leading: &mut Leading<'_>, node: &NodeName) -> Bundle {
    let intent = intent_of(leading, node);
    if intent.cordon.is_none() {
        return Bundle::default();
    }
    set_node_intent(
        leading,
        node,
        NodeIntent { cordon: None, ..intent },
        "uncordoned: new work may be placed here again",
    )
}

fn intent_of(leading: &Leading<'_>, node: &NodeName) -> NodeIntent {
    leading.state.nodes.intent(node).cloned().unwrap_or_default()
}

/// The facts that the agent reported, or else the stored ones.
fn agent_facts(leading: &Leading<'_>, node: &NodeName) -> NodeFacts {
    let reported =
        leading.reports.get(node).and_then(|observed| observed.report.as_ref()).map(|report| &report.head.facts);
    reported.or_else(|| leading.state.nodes.record(node).map(|record| &record.facts)).cloned().unwrap_or_default()
}

/// Stores the operator's settings of a node.
fn set_node_intent(leading: &mut Leading<'_>, node: &NodeName, intent: NodeIntent, message: &str) -> Bundle {
    if intent_of(leading, node) == intent {
        return Bundle::default();
    }
    let key = keys::node_intent(node);
    let write = if intent.is_empty() { Write::Delete { key } } else { commit::put(key, &intent) };
    let own = agent_facts(leading, node);
    leading.state.set_intent(node, intent, Some(&own));
    // A label may change the unit of an instance, or make room for an unschedulable one.
    leading.lead.queue.mark_all(leading.state.groups_on(node));
    leading.retry_unschedulable();
    let effects = vec![events::of_node(node, message, leading.now)];
    Bundle { writes: vec![write], effects, ..Bundle::default() }
}

fn remove_node(leading: &mut Leading<'_>, node: &NodeName, force: bool) -> Result<Bundle, Refusal> {
    // Without its key the agent cannot connect to NATS, so the leader need not wait until it is silent.
    let has_key = leading.state.joins.key(node).is_some();
    if !has_key && leading.state.cluster.switches().refuses_changes() {
        return Err(Refusal::ReadOnly);
    }
    if !has_key {
        must_be_silent(leading, node)?;
    }
    let groups = groups_bound_to(leading, node);
    if !groups.is_empty() && !force {
        let named: Vec<&str> = groups.iter().take(MOST_NAMED).map(GroupName::as_str).collect();
        let more = if groups.len() > MOST_NAMED { ", …" } else { "" };
        let reason = format!(
            "instances of {} PodGroups are placed on {node} or may still run there ({}{more}): `deployctl node drain {node}` moves \
             what can move; --force removes a node that will not return, with the data its instances are bound to",
            groups.len(),
            named.join(", ")
        );
        return Err(Refusal::NodeBusy { reason });
    }
    let before = intent_of(leading, node);
    let intent = NodeIntent { removing: true, revoked: before.revoked || has_key, ..before };
    let mut bundle =
        set_node_intent(leading, node, intent, "is being removed: its instances are replaced without waiting for it");
    bundle.writes.extend(leading.state.nodes.mark_lost(node).map(|record| commit::put(keys::node(node), record)));
    bundle.writes.extend(super::join::end_access(leading, node));
    leading.reports.forget(node);
    leading.judge_node(node);
    leading.lead.queue.mark_all(groups);
    leading.state.dependencies.mark_on(node);
    Ok(bundle)
}

/// Only a silent node can be removed: a node that reports would be back with its next report.
fn must_be_silent(leading: &Leading<'_>, node: &NodeName) -> Result<(), Refusal> {
    let silence = leading.settings.suspect_after;
    let heard_at = leading.reports.get(node).and_then(|observed| observed.heard_at);
    let reason = match heard_at {
        Some(at) if leading.now.since(at) < silence => {
            let ago = events::shown(leading.now.since(at));
            let silence = events::shown(silence);
            format!("{node} reported {ago} ago: stop its agent, then retry after {silence}")
        }
        None if leading.now.since(leading.lead.listening.since()) < silence => {
            let listened = events::shown(leading.now.since(leading.lead.listening.since()));
            format!("this leader started {listened} ago and {node} may still report: retry in a moment")
        }
        Some(_) | None => return Ok(()),
    };
    Err(Refusal::NodeBusy { reason })
}

/// The groups with an instance that is placed on the node, or that waits for the node to confirm its removal.
fn groups_bound_to(leading: &Leading<'_>, node: &NodeName) -> BTreeSet<GroupName> {
    let waits = |instance: &Instance| instance.leaves.as_ref() == Some(node);
    let any = |instance: &Instance| waits(instance) || instance.next.as_deref().is_some_and(waits);
    let waiting = leading.state.groups.iter().filter(|(_, group)| group.instances().iter().any(any));
    leading.state.groups_on(node).into_iter().chain(waiting.map(|(name, _)| name.clone())).collect()
}

/// A node that is being removed reports again: the removal was a mistake.
pub(in crate::core) fn cancel_removal(leading: &mut Leading<'_>, node: &NodeName) {
    if !leading.state.nodes.removing().contains(node) {
        return;
    }
    let intent = NodeIntent { removing: false, revoked: false, ..intent_of(leading, node) };
    let bundle = set_node_intent(leading, node, intent, "reported during its removal: the removal is cancelled");
    leading.decide(bundle);
}

/// Forgets the nodes that are being removed and that nothing is placed on any more.
pub(in crate::core) fn forget_removed_nodes(leading: &mut Leading<'_>) {
    if leading.state.nodes.removing().is_empty() {
        return;
    }
    for node in leading.state.nodes.removing().clone() {
        let is_empty = leading.state.pods_on(&node).next().is_none();
        let is_bare = leading.state.dependencies.containers_on(&node) == 0;
        if is_empty && is_bare && groups_bound_to(leading, &node).is_empty() {
            leading.guarded(&Object::Node(node.clone()), |leading| forget_node(leading, &node));
        }
    }
}

/// The node's queue stays: if the node comes back under this leader, no fence is used twice.
fn forget_node(leading: &mut Leading<'_>, node: &NodeName) {
    leading.state.forget_node(node);
    leading.reports.forget(node);
    for timer in [Timer::Node(node.clone()), Timer::Order(node.clone())] {
        leading.lead.timers.set(timer, None);
    }
    leading.lead.timers.set(Timer::Condition(ConditionKey::Engine(node.clone())), None);
    observe::losses::came_back(leading, node);
    leading.lead.dispatch.forget(node);
    leading.lead.queue.release_waiting_on(node);
    for (name, group) in &mut leading.state.groups {
        if group.unconfirmed_nodes.remove(node) {
            leading.lead.queue.mark(name.clone());
        }
    }
    let writes = [keys::node(node), keys::node_intent(node)].map(|key| Write::Delete { key }).into();
    let effects = vec![events::of_node(node, "removed; an agent that joins under its name is a new node", leading.now)];
    leading.decide(Bundle { writes, effects, ..Bundle::default() });
}
