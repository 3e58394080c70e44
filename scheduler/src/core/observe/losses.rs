//! Decides whether so many nodes went silent that the engine must stop: a failing network must not move everything.
//!
//! The surprise is what does not count. A node this leader has not heard itself, a node that came back, and everything that
//! goes silent while the bus is away or was away a moment ago: then it is the bus that is silent. A bus that hangs looks
//! connected for a while, so the verdict waits until somebody is heard, or until a dead bus would have been noticed.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::event::Kind;
use contract::name::NodeName;
use contract::notice::Incident;
use contract::time::Timestamp;

use crate::core::events;
use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::timers::Alarm;

/// After the bus came back, nodes have so long beyond the usual to be heard again.
const BUS_SLACK: Duration = Duration::from_secs(10);
/// A connection to a bus that hangs is given up after a few pings without answer; by then it is known.
const DEAD_BUS_KNOWN: Duration = Duration::from_secs(20);
/// The shortest wait for a verdict, whatever the settings say.
const SOONEST: Duration = Duration::from_millis(100);
/// What receivers know the engine by.
const DEPLOYD: &str = "Deployd";

/// The nodes that went silent, and when.
#[derive(Debug, Default)]
pub(in crate::core) struct Losses {
    silent: BTreeMap<NodeName, Timestamp>,
}

impl Losses {
    /// Whoever went silent did so because of the bus.
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

impl Leading<'_> {
    /// A node that was heard is not heard any more.
    pub(in crate::core) fn went_silent(&mut self, node: &NodeName) {
        let settled = self.settings.suspect_after + BUS_SLACK;
        let bus_settled = self.bus_since.is_some_and(|since| self.now.since(since) >= settled);
        if self.settings.losses_stop == 0 || !bus_settled {
            return;
        }
        self.lead.losses.silent.insert(node.clone(), self.now);
        self.expect_verdict();
    }

    /// A node is heard again.
    pub(in crate::core) fn came_back(&mut self, node: &NodeName) {
        self.lead.losses.silent.remove(node);
    }

    /// Looks at the losses once more in a moment, if they are enough.
    fn expect_verdict(&mut self) {
        if self.losses().is_some() {
            // A bus that stood still for a moment lets everybody be heard in the next.
            let soon = self.now + (self.settings.suspect_after / 3).max(SOONEST);
            self.lead.alarms.set_once(Alarm::Losses, soon);
        }
    }

    /// The nodes that went silent lately and when the last one did, if they are enough to stop.
    fn losses(&mut self) -> Option<(Vec<NodeName>, Timestamp)> {
        let since = self.now - self.settings.losses_within;
        self.lead.losses.silent.retain(|_, at| *at > since);
        let silent = &self.lead.losses.silent;
        let enough = enough_to_stop(self.settings.losses_stop, self.state.hosts.len());
        let enough = enough.is_some_and(|enough| silent.len() >= enough);
        let last = silent.values().max().copied().filter(|_| enough && self.state.engine.running)?;
        Some((silent.keys().cloned().collect(), last))
    }

    /// Stops the engine if so many nodes are still silent.
    pub(in crate::core) fn judge_losses(&mut self) {
        let Some((nodes, last)) = self.losses() else { return };
        let bus_works = self.lead.anybody_heard_at > last || self.now >= last + DEAD_BUS_KNOWN;
        if !bus_works {
            return self.expect_verdict();
        }
        self.lead.losses.forget();
        let mut bundle = self.run_engine(false);
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        let message = format!("{} ({})", Incident::NodesLost.text(), names.join(", "));
        bundle.effects.push(Effect::Record(events::event(Kind::Incident, message, self.now)));
        bundle.effects.extend(self.cluster_notice(DEPLOYD, Incident::NodesLost));
        self.decide(bundle);
    }
}
