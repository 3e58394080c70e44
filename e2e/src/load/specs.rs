//! Specs and names of groups as all nodes of a run share them, with the specs' digests.
//!
//! Real nodes have a process and a machine each and read every spec for themselves. Here a group of a thousand instances would
//! be in memory a thousand times, most of what a simulated node takes, and no processor's cache would hold the names of the
//! groups. What is sent and what is read from it stays the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use contract::digest::Digest;
use contract::name::GroupName;
use contract::order::OrderMessage;
use contract::pod_id::{PodId, SpecKey};
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
    /// The order with the specs and the names that are known already in place of its own equal ones.
    pub(crate) fn share(&self, mut message: OrderMessage) -> OrderMessage {
        let (pods, specs) = match &mut message {
            OrderMessage::Whole(order) => (&mut order.pods, &mut order.specs),
            OrderMessage::Delta(delta) => (&mut delta.pods.put, &mut delta.specs.put),
        };
        let own = std::mem::take(specs).into_iter();
        *specs =
            own.map(|(key, spec)| self.with(&key, &spec, |key, known| (key.clone(), known.spec.clone()))).collect();
        let names: BTreeSet<GroupName> = specs.keys().map(|key| key.group.clone()).collect();
        let named = |pod: PodId| PodId { group: names.get(&pod.group).cloned().unwrap_or(pod.group), ..pod };
        *pods = std::mem::take(pods).into_iter().map(|(pod, assignment)| (named(pod), assignment)).collect();
        message
    }

    /// The digest of a spec, as a container's label has it.
    pub(crate) fn digest(&self, key: &SpecKey, spec: &Arc<PodSpec>) -> Arc<str> {
        self.with(key, spec, |_, known| Arc::clone(&known.digest))
    }

    fn with<T>(&self, key: &SpecKey, spec: &Arc<PodSpec>, see: impl FnOnce(&SpecKey, &Known) -> T) -> T {
        // NoTenants panics in here, and what is known is right whoever did.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &Known| Arc::ptr_eq(&known.spec, spec) || known.spec == *spec;
        if let Some((key, known)) = known.get_key_value(key).filter(|(_, known)| is_same(known)) {
            return see(key, known);
        }
        let fresh = Known { spec: Arc::clone(spec), digest: Digest::of(&**spec).to_string().into() };
        let seen = see(key, &fresh);
        known.insert(key.clone(), fresh);
        seen
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
    fn equal_specs_are_one_and_different_ones_under_one_name_are_not() {
        let specs = Specs::default();
        let (first, again, other) = (specs.share(order("a")), specs.share(order("a")), specs.share(order("b")));
        assert!(Arc::ptr_eq(spec(&first), spec(&again)));
        assert_eq!(name(&first), name(&again));
        assert_eq!((&first, &other), (&order("a"), &order("b")));
        let key: SpecKey = "a.v1".parse().unwrap();
        assert_eq!(*specs.digest(&key, spec(&first)), *Digest::of(&**spec(&first)).to_string());
    }
}
