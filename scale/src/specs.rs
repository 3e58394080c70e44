//! Specs as all nodes of a run share them, with their digests.
//!
//! Real nodes have a process each and read every spec for themselves. Here a group of a thousand instances would be in memory
//! a thousand times, most of what a simulated node takes. What is sent and what is read from it stays the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use contract::digest::Digest;
use contract::order::OrderMessage;
use contract::pod_id::SpecKey;
use contract::spec::PodSpec;

/// The specs any node was sent last, by name.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    known: Mutex<BTreeMap<SpecKey, Known>>,
}

#[derive(Debug)]
struct Known {
    spec: Arc<PodSpec>,
    digest: Arc<str>,
}

impl Specs {
    /// The order with the specs that are known already in place of its own equal ones.
    pub(crate) fn share(&self, mut message: OrderMessage) -> OrderMessage {
        let specs = match &mut message {
            OrderMessage::Whole(order) => &mut order.specs,
            OrderMessage::Delta(delta) => &mut delta.specs.put,
        };
        for (key, spec) in specs {
            *spec = self.with(key, spec, |known| Arc::clone(&known.spec));
        }
        message
    }

    /// The digest of a spec, as a container's label has it.
    pub(crate) fn digest(&self, key: &SpecKey, spec: &Arc<PodSpec>) -> Arc<str> {
        self.with(key, spec, |known| Arc::clone(&known.digest))
    }

    fn with<T>(&self, key: &SpecKey, spec: &Arc<PodSpec>, see: impl FnOnce(&Known) -> T) -> T {
        // Nobody panics in here, and what is known is right whoever did.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(key).filter(|known| Arc::ptr_eq(&known.spec, spec) || known.spec == *spec) {
            return see(known);
        }
        let fresh = Known { spec: Arc::clone(spec), digest: Digest::of(&**spec).to_string().into() };
        let seen = see(&fresh);
        known.insert(key.clone(), fresh);
        seen
    }
}

#[cfg(test)]
mod tests {
    use contract::order::Order;

    use super::*;

    fn order(image: &str) -> OrderMessage {
        let spec = PodSpec { name: image.to_owned(), ..PodSpec::default() };
        let key: SpecKey = "a.v1".parse().unwrap();
        OrderMessage::Whole(Order { specs: BTreeMap::from([(key, Arc::new(spec))]), ..Order::default() })
    }

    fn spec(message: &OrderMessage) -> &Arc<PodSpec> {
        match message {
            OrderMessage::Whole(order) => order.specs.values().next().unwrap(),
            OrderMessage::Delta(_) => panic!("a whole"),
        }
    }

    #[test]
    fn equal_specs_are_one_and_different_ones_under_one_name_are_not() {
        let specs = Specs::default();
        let (first, again, other) = (specs.share(order("a")), specs.share(order("a")), specs.share(order("b")));
        assert!(Arc::ptr_eq(spec(&first), spec(&again)));
        assert_eq!((&first, &other), (&order("a"), &order("b")));
        let key: SpecKey = "a.v1".parse().unwrap();
        assert_eq!(*specs.digest(&key, spec(&first)), *Digest::of(&**spec(&first)).to_string());
    }
}
