//! Stops the engine when many nodes become silent together: a failing network must not move every instance.
//!
//! Not counted are nodes that never reported to this leader, nodes that came back, and nodes that became silent while the bus
//! was disconnected or shortly after: then the bus is the cause. A hanging bus looks connected for a while, so the leader
//! decides only after another node reports, or after the time in which it would have noticed a dead bus.
//!
//! Example: 40 nodes, `losses_stop` 3: scheduling stops when 4 nodes (10 %) become suspect within `losses_within`.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::event::Kind;
use contract::name::NodeName;
use contract::notice::Incident;
use contract::time::Timestamp;

use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::timers::Timer;
use crate::core::{commands, events};

/// After the bus came back, nodes have this time beyond `suspect_after` to report again.
const BUS_SLACK: Duration = Duration::from_secs(10);
/// The client drops a hanging connection after a few unanswered pings; after this time that would have happened.
const DEAD_BUS_KNOWN: Duration = Duration::from_secs(20);
/// The shortest wait before the leader decides.
const SOONEST: Duration = Duration::from_millis(100);
/// What receivers know the engine by.
const DEPLOYD: &str = "Deployd";

/// The nodes that went silent, and when.
#[derive(Debug, Default)]
pub(in crate::core) struct Losses {
    silent: BTreeMap<NodeName, Timestamp>,
}

impl Losses {
    /// The bus was the cause of the silence.
    pub(in crate::core) fn forget(&mut self) {
        self.silent.clear();
    }
}

/// How many silent nodes stop the engine: `losses_stop`, and at least 10 % of the nodes. 6 nodes: 3; 40 nodes: 4. None when
/// the setting is 0.
fn enough_to_stop(losses_stop: u32, nodes: usize) -> Option<usize> {
    let least = usize::try_from(losses_stop).ok().filter(|least| *least > 0)?;
    Some(least.max(nodes.div_ceil(10)))
}

/// A node that was alive became suspect.
pub(super) fn went_silent(leading: &mut Leading<'_>, node: &NodeName) {
    let settled = leading.settings.suspect_after + BUS_SLACK;
    let bus_settled = leading.bus_since.is_some_and(|since| leading.now.since(since) >= settled);
    if leading.settings.losses_stop == 0 || !bus_settled {
        return;
    }
    leading.lead.losses.silent.insert(node.clone(), leading.now);
    check_soon(leading);
}

/// A node reports again.
pub(in crate::core) fn came_back(leading: &mut Leading<'_>, node: &NodeName) {
    leading.lead.losses.silent.remove(node);
}

/// If enough nodes are silent, decides soon.
fn check_soon(leading: &mut Leading<'_>) {
    if losses(leading).is_some() {
        // If the bus only paused, every node reports within this time.
        let soon = leading.now + (leading.settings.suspect_after / 3).max(SOONEST);
        leading.lead.timers.set_once(Timer::Losses, soon);
    }
}

/// The nodes that went silent lately and when the last one did, if they are enough to stop.
fn losses(leading: &mut Leading<'_>) -> Option<(Vec<NodeName>, Timestamp)> {
    let since = leading.now - leading.settings.losses_within;
    leading.lead.losses.silent.retain(|_, at| *at > since);
    let silent = &leading.lead.losses.silent;
    let enough = enough_to_stop(leading.settings.losses_stop, leading.state.nodes.len());
    let enough = enough.is_some_and(|enough| silent.len() >= enough);
    let last = silent.values().max().copied().filter(|_| enough && leading.state.cluster.switches().running)?;
    Some((silent.keys().cloned().collect(), last))
}

/// Stops the engine if enough nodes are still silent.
pub(in crate::core) fn check_losses(leading: &mut Leading<'_>) {
    let Some((nodes, last)) = losses(leading) else { return };
    let bus_works = leading.lead.listening.has_report_after(last) || leading.now >= last + DEAD_BUS_KNOWN;
    if !bus_works {
        return check_soon(leading);
    }
    leading.lead.losses.forget();
    let mut bundle = commands::cluster::run_engine(leading, false);
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    let message = format!("{} ({})", Incident::NodesLost.text(), names.join(", "));
    bundle.effects.push(Effect::Record(events::event(Kind::Incident, message, leading.now)));
    bundle.effects.extend(events::incident::cluster_notice(leading, DEPLOYD, Incident::NodesLost));
    leading.decide(bundle);
}
