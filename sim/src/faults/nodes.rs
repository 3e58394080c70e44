//! Faults of nodes and their engines.

use std::time::Duration;

use agent::core::io::{Action, ActionFailure, Input, Ledger};
use contract::pod_id::InstanceKey;

use crate::faults::Fault;
use crate::world::World;
use crate::world::event::{AtNode, Event};
use crate::world::node_process::NodeProcess;

/// No run of an agent has this number: the agent that requested the action does not wait for it.
const NO_AGENT: u32 = u32::MAX;

impl World {
    /// Kills the agent, which starts again without its ledger or with an old one.
    pub fn lose_ledger(&mut self, node: usize, old: bool, down: Duration) {
        self.kill_agent(node);
        let process = &mut self.nodes[node];
        process.disk = if old { process.backup.clone() } else { Ledger::default() };
        self.checker.ledger_lost(&self.nodes[node], node);
        self.queue.after(down, Event::Fault(Fault::StartAgent(node)));
    }

    /// Changes the node while its agent is stopped.
    pub fn restart_changed(&mut self, node: usize, change: impl FnOnce(&mut NodeProcess)) {
        let is_up = self.nodes[node].core.is_some();
        if is_up {
            self.kill_agent(node);
        }
        change(&mut self.nodes[node]);
        if is_up {
            self.start_agent(node);
        }
    }

    /// Stops all agents and containers of an engine; agents start again by themselves.
    pub fn reboot(&mut self, engine: usize, down: Duration) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].engine == engine {
                self.kill_agent(node);
                self.queue.after(down + Duration::from_millis(500), Event::Fault(Fault::StartAgent(node)));
            }
        }
        self.engine_down(engine, down, false);
    }

    /// Stops an engine, with or without its containers.
    pub fn engine_down(&mut self, engine: usize, span: Duration, keeps: bool) {
        let now = self.queue.now();
        self.engines[engine].down = true;
        let ids: Vec<String> = self.engines[engine].containers.keys().cloned().collect();
        for id in ids.into_iter().filter(|_| !keeps) {
            let ours =
                self.nodes.iter().any(|m| m.engine == engine && self.engines[engine].look(&m.owner, &id).is_some());
            if ours {
                self.engines[engine].end(&id, 137, now);
            }
        }
        self.excuse_moves(engine);
        self.probe_engine(engine);
        self.queue.after(span, Event::Fault(Fault::EngineUp(engine)));
    }

    pub fn engine_hang(&mut self, engine: usize, span: Duration) {
        let until = self.queue.now() + span;
        self.engines[engine].hung_until = self.engines[engine].hung_until.max(Some(until));
        self.excuse_moves(engine);
        self.probe_engine(engine);
        self.queue.at(until, Event::Fault(Fault::EngineUp(engine)));
    }

    /// An action on a hung engine: the client times out, and the engine performs it later, or never.
    pub fn time_out_action(&mut self, node: usize, life: u32, instance: InstanceKey, action: Action) {
        let engine = self.nodes[node].engine;
        if let Some(until) = self.engines[engine].hung_until.filter(|_| self.random.chance(50)) {
            let late = until + self.random.span(1, 2_000);
            let (instance, action) = (instance.clone(), action.clone());
            self.queue.at(late.min(self.scenario.calm_at), Event::Action { node, life: NO_AGENT, instance, action });
        }
        let failure = ActionFailure::Unreachable("no answer in time".to_owned());
        let input = Box::new(Input::ActionDone { instance, action, result: Err(failure) });
        let patience = self.random.span(5_000, 20_000);
        self.queue.after(patience, Event::Node { node, life, what: AtNode::Input(input) });
    }

    pub fn engine_up(&mut self, engine: usize) {
        let now = self.queue.now();
        let of = &mut self.engines[engine];
        // Of several hangs the longest counts.
        let is_over = of.hung_until.is_some_and(|until| until <= now || now >= self.scenario.calm_at);
        let was_hung = is_over && of.hung_until.take().is_some();
        let was_down = std::mem::take(&mut of.down);
        if was_down || was_hung {
            self.probe_engine(engine);
        }
    }

    pub fn engine_trouble(&mut self, refuses: u64, loses: u64) {
        for engine in 0..self.engines.len() {
            self.engines[engine].refuses = refuses;
            self.engines[engine].loses = loses;
            self.excuse_moves(engine);
        }
    }
}
