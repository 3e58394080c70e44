//! An engine of one simulated node: each action succeeds after a delay.

use std::collections::VecDeque;

use agent::core::io::{Action, ContainerSeen, Input};
use contract::labels::Owner;
use contract::pod_id::InstanceKey;
use contract::time::Timestamp;
use testkit::engine::FakeEngine;
use testkit::random::Random;

#[derive(Debug)]
pub(crate) struct DelayedEngine {
    engine: FakeEngine,
    owner: Owner,
    /// Actions in flight, by the time they end.
    in_flight: VecDeque<(Timestamp, InstanceKey, Action)>,
    random: Random,
}

impl DelayedEngine {
    pub(crate) fn new(number: u32, owner: Owner) -> Self {
        // As long as a real id, which is a large part of a report.
        let engine = FakeEngine::new(&format!("{number:032x}"), 32);
        Self { engine, owner, in_flight: VecDeque::new(), random: Random::new(0) }
    }

    /// Starts an action that ends at `at`; actions end in the sequence in which they started.
    pub(crate) fn begin(&mut self, instance: InstanceKey, action: Action, at: Timestamp) {
        self.in_flight.push_back((at, instance, action));
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.in_flight.front().map(|(at, _, _)| *at)
    }

    /// Performs the actions that end until `now`. Returns their results.
    pub(crate) fn ended(&mut self, now: Timestamp) -> Vec<Input> {
        let mut done = Vec::new();
        while let Some((_, instance, action)) = self.in_flight.pop_front_if(|(at, _, _)| *at <= now) {
            let result = self.engine.perform(&self.owner, &action, now, &mut self.random).result;
            done.push(Input::ActionDone { instance, action, result });
        }
        done
    }

    pub(crate) fn inventory(&self) -> Vec<ContainerSeen> {
        self.engine.inventory(&self.owner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::core::io::Phase;
    use contract::pod_id::PodId;

    use super::*;

    #[test]
    fn containers_are_created_and_removed_after_the_delay() {
        let mut engine = DelayedEngine::new(7, Owner { cluster: "c".to_owned(), node: "n7".parse().unwrap() });
        let pod: PodId = "a.v1-i1-d0".parse().unwrap();
        let (spec, address) = (Arc::default(), String::new());
        let create = Action::Create { pod: pod.clone(), index: 0, spec, address, hardening: None };
        engine.begin(pod.key(), create, Timestamp::from_millis(5));
        assert!(engine.ended(Timestamp::from_millis(4)).is_empty());
        let Input::ActionDone { result, .. } = engine.ended(Timestamp::from_millis(5)).remove(0) else { panic!() };
        let seen = result.unwrap().unwrap();
        assert_eq!((seen.id.len(), seen.phase, seen.identity.pod.clone()), (64, Phase::Running, pod.clone()));
        assert_eq!(engine.inventory(), std::slice::from_ref(&seen));
        let remove = Action::Remove { id: seen.id, grace: std::time::Duration::ZERO };
        engine.begin(pod.key(), remove, Timestamp::from_millis(6));
        assert_eq!(engine.ended(Timestamp::from_millis(6)).len(), 1);
        assert!(engine.inventory().is_empty());
    }
}
