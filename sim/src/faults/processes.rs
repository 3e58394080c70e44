//! Applies faults: the dispatch of all kinds, and the faults of processes and containers.

use std::time::Duration;

use agent::core::io::{Input, Phase};
use contract::state::HealthState;
use contract::time::Timestamp;
use testkit::container::{Container, ContainerBehaviour};

use crate::faults::{Fault, Target};
use crate::world::World;
use crate::world::event::{AtNode, AtUser, Event};

impl World {
    pub fn fail(&mut self, fault: &Fault) {
        let now = self.queue.now();
        self.trace.line(now, "fault", &format!("{fault:?}"));
        self.checker.engines_changed();
        match *fault {
            Fault::BusConditions(conditions) => self.bus.conditions = conditions,
            Fault::Pause { which, span, armed } => self.pause(which, span, armed),
            Fault::KillScheduler { which, down } => {
                let scheduler = self.scheduler_of(which);
                self.kill_and_restart(scheduler, down);
            }
            Fault::KillAllSchedulers { down } => {
                (0..self.schedulers.len()).for_each(|scheduler| self.kill_and_restart(Some(scheduler), down));
            }
            Fault::StartScheduler(scheduler) => self.start_scheduler(scheduler),
            Fault::CutStore { which, span } => self.cut_store(which, span),
            Fault::JoinStore(scheduler) => self.join_store(scheduler),
            Fault::CutBus { which, span } => self.cut_bus(which, span),
            Fault::JoinBus(scheduler) => self.join_bus(scheduler),
            Fault::Compact => self.compact(),
            Fault::StoreFull(is_full) => self.store.is_full = is_full,
            Fault::QuorumLost { span } => self.lose_quorum(span),
            Fault::QuorumBack => self.regain_quorum(),
            Fault::StoreTrouble { unknown, slowest } => (self.store.unknown, self.store.slowest) = (unknown, slowest),
            Fault::CutNode { node, span } => self.cut_node(node, span),
            Fault::JoinNode(node) => self.join_node(node),
            Fault::KillAgent { node, down } => {
                self.kill_agent(node);
                self.queue.after(down, Event::Fault(Fault::StartAgent(node)));
            }
            Fault::StartAgent(node) => self.start_agent(node),
            Fault::LoseLedger { node, old, down } => self.lose_ledger(node, old, down),
            Fault::Reboot { engine, down } => self.reboot(engine, down),
            Fault::ClockJump { node, skew } => self.restart_changed(node, |process| process.skew = skew),
            Fault::Memory { node, mebibytes } => self.restart_changed(node, |process| process.memory = mebibytes << 20),
            Fault::DiskFull { node, full } => self.nodes[node].disk_full = full,
            Fault::Crash(draw) => self.crash(draw, false),
            Fault::OutOfMemory(draw) => self.crash(draw, true),
            Fault::Sicken(draw) => self.sicken(draw),
            Fault::Heal => self.heal(),
            Fault::Vanish(draw) => self.vanish(draw),
            Fault::EngineDown { engine, span, keeps } => self.engine_down(engine, span, keeps),
            Fault::EngineHang { engine, span } => self.engine_hang(engine, span),
            Fault::EngineUp(engine) => self.engine_up(engine),
            Fault::RegistryAway(is_away) => {
                self.engines.iter_mut().for_each(|engine| engine.registry_away = is_away);
                (0..self.engines.len()).for_each(|engine| self.excuse_moves(engine));
            }
            Fault::EngineTrouble { refuses, loses } => self.engine_trouble(refuses, loses),
            Fault::RecreateStream => {
                self.bus.recreate();
                self.wake_readers();
            }
        }
    }

    pub fn scheduler_of(&mut self, which: Target) -> Option<usize> {
        let now = self.queue.now();
        match which {
            Target::Leader => self.store.leader(now).map(|key| key.holder.scheduler),
            Target::Scheduler(scheduler) => Some(scheduler),
        }
    }

    fn pause(&mut self, which: Target, span: Duration, armed: bool) {
        let now = self.queue.now();
        let Some(scheduler) = self.scheduler_of(which) else { return };
        if armed {
            self.schedulers[scheduler].armed = Some(span);
        } else {
            self.pause_scheduler(scheduler, now + span);
        }
    }

    /// A pause never shortens an earlier one.
    pub fn pause_scheduler(&mut self, scheduler: usize, until: Timestamp) {
        let process = &mut self.schedulers[scheduler];
        let until = process.paused_until.max(Some(until.min(self.scenario.calm_at))).unwrap_or(until);
        process.paused_until = Some(until);
        // Queries that are waiting when it continues and does not know yet that it was deposed.
        for group in 0..self.workload.groups.len() {
            self.queue.at(until - Duration::from_millis(100), Event::User(AtUser::Ask { group }));
        }
    }

    fn kill_and_restart(&mut self, scheduler: Option<usize>, down: Duration) {
        if let Some(scheduler) = scheduler {
            self.kill_scheduler(scheduler);
            self.queue.after(down, Event::Fault(Fault::StartScheduler(scheduler)));
        }
    }

    fn cut_node(&mut self, node: usize, span: Duration) {
        self.nodes[node].connected = false;
        // The client notices a missing ping answer after seconds, a reset connection immediately.
        let noticed = self.random.span(1, 10_000);
        self.on_node_after(node, noticed, AtNode::Ping);
        self.queue.after(span, Event::Fault(Fault::JoinNode(node)));
    }

    fn join_node(&mut self, node: usize) {
        if !std::mem::replace(&mut self.nodes[node].connected, true) {
            self.on_node_after(node, Duration::from_millis(1), AtNode::Ping);
        }
    }

    /// One of our containers, selected by a number of the scenario.
    fn container(&self, draw: u64, running: bool) -> Option<(usize, String)> {
        let ours = self.engines.iter().enumerate().flat_map(|(engine, e)| {
            let is_ours = move |c: &Container| c.owner().is_some() && (!running || c.phase == Phase::Running);
            let own = e.containers.iter().filter(move |(_, c)| is_ours(c));
            own.map(move |(id, _)| (engine, id.clone()))
        });
        let ours: Vec<(usize, String)> = ours.collect();
        let index = usize::try_from(draw % ours.len().max(1) as u64).unwrap_or(0);
        ours.get(index).cloned()
    }

    fn crash(&mut self, draw: u64, oom_killed: bool) {
        let now = self.queue.now();
        if let Some((engine, id)) = self.container(draw, true) {
            self.trace.line(now, &format!("e{engine}"), &format!("{id} crashes"));
            self.engines[engine].end(&id, if oom_killed { 137 } else { 1 }, now);
            self.engines[engine].containers.get_mut(&id).into_iter().for_each(|it| it.oom_killed = oom_killed);
            self.look(engine, &id);
        }
    }

    /// Only containers with a health check can become unhealthy.
    fn sicken(&mut self, draw: u64) {
        let now = self.queue.now();
        let Some((engine, id)) = self.container(draw, true) else { return };
        let Some(container) = self.engines[engine].containers.get_mut(&id).filter(|it| it.has_health_check()) else {
            return;
        };
        container.health = HealthState::Unhealthy;
        self.trace.line(now, &format!("e{engine}"), &format!("{id} is unhealthy"));
        self.look(engine, &id);
    }

    fn heal(&mut self) {
        for engine in 0..self.engines.len() {
            let is_ill = |it: &Container| {
                it.has_health_check()
                    && it.health == HealthState::Unhealthy
                    && it.behaviour() == ContainerBehaviour::Well
            };
            let all = self.engines[engine].containers.iter_mut().filter(|(_, it)| is_ill(it));
            let ids: Vec<String> = all
                .map(|(id, it)| {
                    it.health = HealthState::Healthy;
                    id.clone()
                })
                .collect();
            ids.iter().for_each(|id| self.look(engine, id));
        }
    }

    pub fn apply_behaviour(&mut self, engine: usize, id: &str, starts: u32) {
        let now = self.queue.now();
        self.engines[engine].apply_behaviour(id, starts, now);
        self.checker.engines_changed();
        self.look(engine, id);
    }

    fn vanish(&mut self, draw: u64) {
        let now = self.queue.now();
        if let Some((engine, id)) = self.container(draw, false) {
            self.trace.line(now, &format!("e{engine}"), &format!("{id} vanishes"));
            self.engines[engine].containers.remove(&id);
            self.excuse_moves(engine);
            self.look(engine, &id);
        }
    }

    /// The engine's event makes agents inspect the container. One event in four is lost; then the periodic inventory finds the change.
    pub fn look(&mut self, engine: usize, id: &str) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].engine == engine && self.random.chance(75) {
                let seen = self.engines[engine].look(&self.nodes[node].owner, id);
                let delay = self.random.span(1, 300);
                let foreign = seen.is_none() && self.engines[engine].containers.contains_key(id);
                if !foreign {
                    let input = Input::Inspected { id: id.to_owned(), seen };
                    self.on_node_after(node, delay, AtNode::Input(Box::new(input)));
                }
            }
        }
    }

    /// Excuses moves away from the nodes of this engine from now on.
    pub fn excuse_moves(&mut self, engine: usize) {
        let nodes = self.nodes.iter().filter(|process| process.engine == engine).map(|m| m.owner.node.clone());
        self.checker.model.faulty_nodes.extend(nodes);
    }
}
