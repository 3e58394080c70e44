//! Specs and group names shared by all nodes of a run.
//!
//! Real nodes parse every spec in their own process. Here a group of 1,000 instances would be in memory 1,000 times. Messages and
//! what nodes read from them stay the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use contract::name::GroupName;
use contract::order::OrderMessage;
use contract::pod_id::{PodId, SpecKey};
use contract::spec::PodSpec;

#[derive(Debug, Default)]
pub(crate) struct Specs {
    known: Mutex<BTreeMap<SpecKey, Arc<PodSpec>>>,
}

impl Specs {
    /// Replaces specs and names in an order by equal ones that are already in memory.
    pub(crate) fn share(&self, mut message: OrderMessage) -> OrderMessage {
        let (pods, specs) = match &mut message {
            OrderMessage::Whole(order) => (&mut order.pods, &mut order.specs),
            OrderMessage::Delta(delta) => (&mut delta.pods.put, &mut delta.specs.put),
        };
        let own = std::mem::take(specs).into_iter();
        *specs = own.map(|(key, spec)| self.known(key, spec)).collect();
        let names: BTreeSet<GroupName> = specs.keys().map(|key| key.group.clone()).collect();
        let named = |pod: PodId| PodId { group: names.get(&pod.group).cloned().unwrap_or(pod.group), ..pod };
        *pods = std::mem::take(pods).into_iter().map(|(pod, assignment)| (named(pod), assignment)).collect();
        message
    }

    fn known(&self, key: SpecKey, spec: Arc<PodSpec>) -> (SpecKey, Arc<PodSpec>) {
        // No code panics while it holds the lock, and the map is valid after every step.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((key, known)) = known.get_key_value(&key).filter(|(_, known)| **known == spec) {
            return (key.clone(), Arc::clone(known));
        }
        known.insert(key.clone(), Arc::clone(&spec));
        (key, spec)
    }
}

#[cfg(test)]
mod tests {
    use contract::order::{Assignment, Order};

    use super::*;

    fn order(image: &str) -> OrderMessage {
        let spec = PodSpec { name: image.to_owned(), ..PodSpec::default() };
        let (key, pod): (SpecKey, PodId) = ("a.v1".parse().unwrap(), "a.v1-i1-d0".parse().unwrap());
        let pods = BTreeMap::from([(pod, Assignment::default())]);
        OrderMessage::Whole(Order { pods, specs: BTreeMap::from([(key, Arc::new(spec))]), ..Order::default() })
    }

    fn name(message: &OrderMessage) -> *const u8 {
        match message {
            OrderMessage::Whole(order) => order.pods.keys().next().unwrap().group.as_str().as_ptr(),
            OrderMessage::Delta(_) => panic!("a whole"),
        }
    }

    fn spec(message: &OrderMessage) -> &Arc<PodSpec> {
        match message {
            OrderMessage::Whole(order) => order.specs.values().next().unwrap(),
            OrderMessage::Delta(_) => panic!("a whole"),
        }
    }

    #[test]
    fn equal_specs_share_memory_and_different_ones_do_not() {
        let specs = Specs::default();
        let (first, again, other) = (specs.share(order("a")), specs.share(order("a")), specs.share(order("b")));
        assert!(Arc::ptr_eq(spec(&first), spec(&again)));
        assert_eq!(name(&first), name(&again));
        assert_eq!((&first, &other), (&order("a"), &order("b")));
    }
}
