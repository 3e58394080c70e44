//! Events explain what happened: one text each, short enough for the event stream.
//!
//! Every folder calls the functions here to build an event; the effect `Record` leaves with the commit of the decision.
//! [`dedup`] remembers what was reported, [`conditions`] reports what persists, [`incident`] notifies callbacks.
//!
//! Example: a plan moves instance 2 of `web`. [`placement`] builds the event "moves from node-1 to node-2, drift 1".

pub(in crate::core) mod command;
pub(in crate::core) mod conditions;
pub(in crate::core) mod dedup;
pub(in crate::core) mod incident;
pub(in crate::core) mod placement;
pub(in crate::core) mod rollout;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::event::{Event, Kind};
use contract::name::{GroupName, NodeName};
use contract::switches::EngineRecord;
use contract::time::Timestamp;

use crate::core::io::Effect;
use crate::core::state::State;

/// Longest text, in bytes.
const LONGEST_MESSAGE: usize = 4096;
/// Nodes with reasons in one event, at most.
const MOST_NODES: usize = 200;
/// Bytes of reasons, at most: with the text and the rest an event stays below 64 KiB.
const MOST_REASONS: usize = 48 * 1024;

/// An event without an object; callers add it.
pub(in crate::core) fn event(kind: Kind, message: impl Into<String>, now: Timestamp) -> Event {
    let mut message = message.into();
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push('…');
    }
    Event { at: now, kind, group: None, namespace: None, instance: 0, node: None, message, reasons: BTreeMap::new() }
}

/// An event about a group.
pub(in crate::core) fn of_group(kind: Kind, group: &GroupName, message: impl Into<String>, now: Timestamp) -> Event {
    Event { group: Some(group.clone()), ..event(kind, message, now) }
}

/// Notes the namespaces of the groups that events are about, for the apiservers, which show each client the events of its
/// namespaces. A name that no group has gets none: only clients that may read every namespace see the event.
pub(in crate::core) fn note_namespaces(effects: &mut [Effect], state: &State) {
    for effect in effects {
        let Effect::Record(event) = effect else { continue };
        if let Some(group) = event.group.as_ref().filter(|_| event.namespace.is_none()) {
            event.namespace = Some(namespace(group, state));
        }
    }
}

fn namespace(name: &GroupName, state: &State) -> String {
    let of_group = || Some(state.groups.get(name)?.record.spec.namespace.clone());
    let of_dependency = || Some(state.dependencies.get(name)?.record.spec.namespace.clone());
    of_group().or_else(of_dependency).unwrap_or_default()
}

/// An event about a node.
pub(in crate::core) fn of_node(node: &NodeName, message: impl Into<String>, now: Timestamp) -> Effect {
    Effect::Record(Event { node: Some(node.clone()), ..event(Kind::Node, message, now) })
}

/// Why an instance of the group found no place: every node with every reason, as far as there is room.
pub(in crate::core) fn unplaceable(
    group: &GroupName,
    sentence: &str,
    reasons: &BTreeMap<NodeName, BTreeSet<String>>,
    now: Timestamp,
) -> Effect {
    let (mut kept, mut bytes) = (BTreeMap::new(), 0);
    for (node, reasons) in reasons.iter().take(MOST_NODES) {
        let reasons: Vec<String> = reasons.iter().cloned().collect();
        // As long as it is on the wire, escapes included.
        bytes += serde_json::to_string(&(node, &reasons)).map_or(MOST_REASONS, |text| text.len());
        if bytes > MOST_REASONS {
            break;
        }
        kept.insert(node.clone(), reasons);
    }
    let more = reasons.len() - kept.len();
    let more = if more > 0 { format!(" (the reasons of {more} more nodes are left out)") } else { String::new() };
    let event = of_group(Kind::Unplaceable, group, format!("{sentence}{more}"), now);
    Effect::Record(Event { reasons: kept, ..event })
}

/// One of the engine's switches or a constraint changed.
pub(in crate::core) fn engine(message: impl Into<String>, now: Timestamp) -> Effect {
    Effect::Record(event(Kind::Engine, message, now))
}

/// Which of the engine's switches changed.
pub(in crate::core) fn switched(before: EngineRecord, after: EngineRecord, now: Timestamp) -> Vec<Effect> {
    let changes = [
        (before.running, after.running, ["scheduling was stopped", "scheduling was started"]),
        (before.guarding, after.guarding, ["the guard sleeps", "the guard works"]),
        (before.readonly, after.readonly, ["changes are accepted again", "read-only: changes are refused"]),
        (
            before.maintenance,
            after.maintenance,
            ["maintenance is over", "maintenance: exited containers are not restarted"],
        ),
    ];
    let changed = changes.into_iter().filter(|(before, after, _)| before != after);
    changed.map(|(_, after, words)| engine(words[usize::from(after)], now)).collect()
}

/// A span as people read it.
pub(in crate::core) fn shown(span: Duration) -> String {
    format!("{}.{} s", span.as_secs(), span.subsec_millis() / 100)
}
