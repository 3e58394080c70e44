//! A node that applies every order immediately and reports what its order implies, or what a test sets.

use std::collections::{BTreeMap, BTreeSet};

use contract::name::NodeName;
use contract::order::{Assignment, Order, OrderMessage, OrderReply};
use contract::pod_id::PodId;
use contract::progress::Progress;
use contract::report::{
    ContainerFacts, EngineState, FetchState, Fetched, NodeFacts, PodFacts, Report, ReportHead, Stamp,
};
use contract::state::{RunState, TargetState};

/// An agent with an engine that never fails.
#[derive(Debug, Clone)]
pub struct FakeNode {
    pub order: Order,
    pub incarnation: u32,
    pub sequence: u64,
    pub memory: u64,
    pub cpu_millis: u64,
    /// States of pods that differ from the ordered target.
    pub states: BTreeMap<String, RunState>,
    /// Pods that keep running although the order does not contain them.
    pub stuck_pods: BTreeSet<PodId>,
    /// Facts that it reports of a pod instead of the default ones.
    pub facts: BTreeMap<String, PodFacts>,
    pub engine: EngineState,
    pub containers: BTreeMap<String, Vec<ContainerFacts>>,
    pub zone: String,
    pub identity: String,
    /// The state of images that orders ask it to fetch; `None` for an agent that cannot fetch ahead.
    pub fetch_state: Option<FetchState>,
}

impl Default for FakeNode {
    fn default() -> Self {
        Self {
            order: Order::default(),
            incarnation: 1,
            sequence: 1,
            memory: 1024 << 20,
            cpu_millis: 16_000,
            states: BTreeMap::new(),
            stuck_pods: BTreeSet::new(),
            facts: BTreeMap::new(),
            engine: EngineState::Up,
            containers: BTreeMap::new(),
            zone: String::new(),
            identity: String::new(),
            fetch_state: None,
        }
    }
}

impl FakeNode {
    pub fn stamp(&self, name: &NodeName) -> Stamp {
        Stamp {
            node: name.clone(),
            incarnation: self.incarnation.to_string(),
            sequence: self.sequence,
            identity: self.identity.as_str().into(),
        }
    }
    /// Its whole report.
    pub fn whole(&self, name: &NodeName) -> Report {
        let facts = NodeFacts {
            ip: format!("ip-of-{name}"),
            memory: self.memory,
            cpu_millis: self.cpu_millis,
            labels: BTreeMap::from(
                [("group", "default"), ("zone", &self.zone)].map(|(key, value)| (key.to_owned(), value.to_owned())),
            ),
            fetches_ahead: self.fetch_state.is_some(),
            ..Default::default()
        };
        let (applied, order_digest) = (self.order.fence, self.order.digest());
        let (stamp, engine, progress) = (self.stamp(name), self.engine, self.order.progress.clone());
        let head = ReportHead { stamp, applied, order_digest, engine, facts, progress };
        let facts = |pod: &PodId, does| {
            self.facts.get(&pod.to_string()).cloned().unwrap_or_else(|| self.default_facts(pod, does))
        };
        let ordered = self.order.pods.iter().map(|(pod, does)| (pod.clone(), facts(pod, does)));
        let surplus = self.stuck_pods.iter().filter(|pod| !self.order.pods.contains_key(*pod));
        let leaving = PodFacts { state: RunState::Success, leaving: true, ..Default::default() };
        let pods = ordered.chain(surplus.map(|pod| (pod.clone(), leaving.clone()))).collect();
        Report { head, pods }
    }
    fn default_facts(&self, pod: &PodId, assignment: &Assignment) -> PodFacts {
        let target = match assignment.target {
            TargetState::Run => RunState::Success,
            TargetState::Stop => RunState::Exit,
        };
        PodFacts {
            state: self.states.get(&pod.to_string()).copied().unwrap_or(target),
            containers: self.containers.get(&pod.to_string()).cloned().unwrap_or_default(),
            starts_done: assignment.starts_requested,
            restarts_done: assignment.restarts_requested,
            fetched: assignment.fetch.as_ref().zip(self.fetch_state).map(|(fetch, state)| Fetched {
                version: fetch.version,
                state,
                error: String::new(),
            }),
            ..Default::default()
        }
    }
    /// Accepts or rejects an order like the agent.
    pub fn apply(&mut self, message: &OrderMessage) -> OrderReply {
        let next = match message {
            OrderMessage::Whole(order) => Some(order.clone()),
            OrderMessage::Delta(delta) => self.order.changed_by(self.order.digest(), delta),
        };
        if planner::fence::is_foreign(&self.order.stores, message.stores()) {
            let (have, stores) = (self.order.fence, self.order.stores.clone());
            return OrderReply::Foreign { have, stores, progress: Progress::default() };
        }
        if planner::fence::is_behind(&self.order.progress, message.progress()) {
            let (have, stores) = (self.order.fence, self.order.stores.clone());
            return OrderReply::Foreign { have, stores, progress: self.order.progress.clone() };
        }
        let Some(next) = next else { return OrderReply::NeedWhole { have: self.order.fence } };
        if next.fence < self.order.fence {
            return OrderReply::Stale { have: self.order.fence };
        }
        self.order = next;
        self.sequence += 1;
        OrderReply::Accepted { fence: self.order.fence, digest: self.order.digest() }
    }
}
