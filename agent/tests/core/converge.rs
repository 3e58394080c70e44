//! Random histories: after the faults end, the node runs exactly its order and the schedulers' copy of the report matches.

use std::collections::BTreeMap;

use contract::digest::Digest;
use contract::order::{Order, OrderMessage};
use contract::pod_id::PodId;
use contract::report::{EngineState, PodFacts};
use contract::state::RunState;
use proptest::prelude::*;

use super::bench::{Bench, order, secs};
use agent::core::io::{ActionFailure, Effect, Input, Phase};

#[derive(Debug, Clone)]
enum Event {
    /// An order with these (instance, version, drift) arrives; the flag makes it a delta.
    Order(Vec<(u32, u32, u32)>, bool),
    /// A user requests a start, or a restart, of everything.
    Ask(bool),
    /// All containers get other limits, or their original ones.
    Update(Option<u32>),
    /// The last order arrives again, or one of a deposed leader.
    Old(bool),
    /// The nth pending effect is performed.
    Perform(usize),
    /// The nth pending effect fails.
    Fail(usize, bool),
    /// The nth container exits and the agent inspects it.
    Crash(usize),
    /// A user removes the nth container; the agent notices it or not.
    Vanish(usize, bool),
    /// The engine goes down or up.
    Engine(bool),
    /// The bus disconnects or connects.
    Bus(bool),
    /// The agent process is killed; pending effects are lost.
    Restart,
    Pass(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    let pods = prop::collection::vec((1..4u32, 1..3u32, 0..2u32), 0..4);
    prop_oneof![
        3 => (pods, any::<bool>()).prop_map(|(pods, delta)| Event::Order(pods, delta)),
        2 => any::<bool>().prop_map(Event::Ask),
        1 => prop::option::of(3..6u32).prop_map(Event::Update),
        1 => any::<bool>().prop_map(Event::Old),
        10 => (0..6usize).prop_map(Event::Perform),
        2 => (0..6usize, any::<bool>()).prop_map(|(n, refused)| Event::Fail(n, refused)),
        2 => (0..6usize).prop_map(Event::Crash),
        1 => (0..6usize, any::<bool>()).prop_map(|(n, looks)| Event::Vanish(n, looks)),
        1 => any::<bool>().prop_map(Event::Engine),
        1 => any::<bool>().prop_map(Event::Bus),
        1 => Just(Event::Restart),
        3 => (0..90u64).prop_map(Event::Pass),
    ]
}

struct History {
    bench: Bench,
    queue: Vec<Effect>,
    sent: Order,
    /// Starts and restarts requested so far.
    asked: (u32, u32),
    /// The revision to which containers are updated in place.
    updated_to: Option<u32>,
    runs: u32,
}

impl History {
    fn feed(&mut self, input: Input) {
        let effects = self.bench.feed(input);
        // Reports arrive in order, other effects whenever the history performs them.
        for effect in effects {
            match effect {
                Effect::Publish(_) => assert!(self.bench.perform(effect).is_none()),
                Effect::Persist { .. }
                | Effect::Reply { .. }
                | Effect::Perform { .. }
                | Effect::Fetch { .. }
                | Effect::Check { .. }
                | Effect::TakeInventory => self.queue.push(effect),
            }
        }
        let mut instances: Vec<String> = self.queue.iter().filter_map(instance_of).collect();
        let all = instances.len();
        instances.sort();
        instances.dedup();
        assert_eq!(instances.len(), all, "two actions on one instance");
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Order(pods, delta) => self.order(&pods, delta),
            Event::Ask(restart) => {
                if restart {
                    self.asked.1 += 1;
                } else {
                    self.asked.0 += 1;
                }
                self.order_again();
            }
            Event::Update(version) => {
                self.updated_to = version;
                self.order_again();
            }
            Event::Old(stale) => {
                let mut old = self.sent.clone();
                if stale {
                    old.fence.term.0 = old.fence.term.0.saturating_sub(1);
                    old.pods.clear();
                }
                self.feed(Input::Order { message: OrderMessage::Whole(old), reply: "old".to_owned() });
            }
            Event::Perform(n) if !self.queue.is_empty() => {
                let effect = self.queue.remove(n % self.queue.len());
                if let Some(input) = self.bench.perform(effect) {
                    self.feed(input);
                }
            }
            Event::Fail(n, refused) if !self.queue.is_empty() => self.fail(n, refused),
            Event::Crash(n) => {
                if let Some(id) = self.nth(n) {
                    let seen = self.bench.end(&id, 1);
                    self.feed(Input::Inspected { id, seen });
                }
            }
            Event::Vanish(n, looks) => {
                if let Some(id) = self.nth(n) {
                    self.bench.engine.containers.remove(&id);
                    if looks {
                        self.feed(Input::Inspected { id, seen: None });
                    }
                }
            }
            Event::Engine(up) => self.feed(Input::Engine(if up { EngineState::Up } else { EngineState::Down })),
            Event::Bus(connected) => self.feed(Input::Bus { connected }),
            Event::Restart => {
                self.runs += 1;
                self.queue.clear();
                self.bench.restart(&format!("run-{}", self.runs));
                self.bench.copy = None;
            }
            Event::Pass(seconds) => {
                self.bench.now = self.bench.now + secs(seconds);
                self.feed(Input::Tick);
            }
            Event::Perform(_) | Event::Fail(..) => {}
        }
    }

    fn fail(&mut self, n: usize, refused: bool) {
        let effect = self.queue.remove(n % self.queue.len());
        let text = "no".to_owned();
        let failure = if refused { ActionFailure::Refused(text) } else { ActionFailure::Unreachable(text) };
        match effect {
            Effect::Perform { instance, action } => {
                self.feed(Input::ActionDone { instance, action, result: Err(failure) })
            }
            Effect::Fetch { image } => self.feed(Input::Fetched { image, result: Err(failure) }),
            Effect::Persist { id, .. } => self.feed(Input::Persisted { id, result: Err("full".to_owned()) }),
            // A lost reply, inventory or check.
            Effect::Reply { .. } | Effect::Check { .. } | Effect::TakeInventory | Effect::Publish(_) => {}
        }
    }

    fn nth(&self, n: usize) -> Option<String> {
        let running: Vec<&String> =
            self.bench.engine.containers.iter().filter(|(_, c)| c.phase == Phase::Running).map(|(id, _)| id).collect();
        (!running.is_empty()).then(|| running[n % running.len()].clone())
    }

    fn order(&mut self, pods: &[(u32, u32, u32)], delta: bool) {
        let mut next = order(7, self.sent.fence.generation + 1);
        for (instance, version, drift) in pods {
            next = next.pod(&format!("a.v{version}-i{instance}-d{drift}"));
        }
        next = next.asked(self.asked.0, self.asked.1);
        if let Some(version) = self.updated_to {
            let names: Vec<String> = next.0.pods.keys().map(PodId::to_string).collect();
            for name in names {
                next = next.updated_to(&name, version, |spec| spec.containers[0].memory_limit = i64::from(version));
            }
        }
        let message = match delta {
            true => OrderMessage::Delta(next.0.since(&self.sent)),
            false => OrderMessage::Whole(next.0.clone()),
        };
        self.sent = next.0;
        self.feed(Input::Order { message, reply: "r".to_owned() });
    }

    fn order_again(&mut self) {
        let same: Vec<_> = self.sent.pods.keys().map(|pod| (pod.instance, pod.version, pod.drift)).collect();
        self.order(&same, false);
    }

    /// The faults end: everything works, the leader sends an order with new drift numbers, time passes.
    fn calm_down(&mut self) {
        self.feed(Input::Bus { connected: true });
        self.feed(Input::Engine(EngineState::Up));
        self.order(&[(1, 2, 9), (2, 2, 9)], false);
        self.rest();
        self.take(Event::Ask(true));
        self.rest();
    }

    fn rest(&mut self) {
        for _ in 0..400 {
            while !self.queue.is_empty() {
                self.take(Event::Perform(0));
            }
            self.bench.now = self.bench.now + secs(1);
            self.feed(Input::Tick);
        }
    }
}

fn instance_of(effect: &Effect) -> Option<String> {
    if let Effect::Perform { instance, .. } = effect { Some(instance.to_string()) } else { None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_happened_a_calm_node_runs_exactly_its_order(events in prop::collection::vec(any_event(), 0..60)) {
        let mut history = History {
            bench: Bench::new(),
            queue: Vec::new(),
            sent: order(7, 0).0,
            asked: (0, 0),
            updated_to: None,
            runs: 1,
        };
        history.take(Event::Pass(0));
        for event in events {
            history.take(event);
        }
        history.calm_down();
        let bench = history.bench;
        let runs: BTreeMap<PodId, Phase> =
            bench.inventory().iter().map(|seen| (seen.identity.pod.clone(), seen.phase)).collect();
        let wanted: BTreeMap<PodId, Phase> =
            history.sent.pods.keys().map(|pod| (pod.clone(), Phase::Running)).collect();
        prop_assert_eq!(bench.engine.containers.len(), 2, "no container twice");
        prop_assert_eq!(runs, wanted);
        let copy = bench.copy.expect("a report");
        prop_assert_eq!(copy.pods.len(), 2);
        prop_assert!(copy.pods.values().all(|facts| facts.state == RunState::Success && !facts.leaving));
        let answered = |facts: &PodFacts| (facts.starts_done, facts.restarts_done) == history.asked;
        prop_assert!(copy.pods.values().all(answered), "{:?}", history.asked);
        for (id, facts) in &copy.pods {
            let digest = Digest::of(history.sent.spec_of(id).expect("its spec").as_ref()).to_string();
            prop_assert_eq!(&facts.containers[0].spec_digest, &digest, "{} has another spec", id);
        }
        prop_assert_eq!(copy.head.applied, history.sent.fence);
    }
}
