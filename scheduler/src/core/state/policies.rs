//! Workload policies of namespaces.
//!
//! The record of `*` is the default of the cluster. It is stored with the first group, so a store with groups and without it
//! was written by a version that had no policies.

use std::collections::BTreeMap;

use contract::layout::Flaw;
use contract::policy::{EVERY_NAMESPACE, Level, NamespacePolicy, Policy};

#[derive(Debug, Default)]
pub(in crate::core) struct Policies {
    by_namespace: BTreeMap<String, Policy>,
    baseline: Policy,
}

impl Policies {
    /// The policy that applies to a namespace.
    pub(in crate::core) fn of(&self, namespace: &str) -> &Policy {
        let default = || self.by_namespace.get(EVERY_NAMESPACE).unwrap_or(&self.baseline);
        self.by_namespace.get(namespace).unwrap_or_else(default)
    }

    /// The policies that apply to other namespaces than this one, also those that they share.
    pub(in crate::core) fn besides<'p>(&'p self, namespace: &str) -> impl Iterator<Item = &'p Policy> {
        let own = self.of(namespace);
        self.by_namespace.values().filter(move |policy| !std::ptr::eq(*policy, own))
    }

    /// Whether this store knows policies.
    pub(in crate::core) fn are_stored(&self) -> bool {
        self.by_namespace.contains_key(EVERY_NAMESPACE)
    }

    pub(in crate::core) fn has(&self, namespace: &str) -> bool {
        self.by_namespace.contains_key(namespace)
    }

    pub(in crate::core) fn len(&self) -> usize {
        self.by_namespace.len()
    }

    pub(in crate::core) fn rows(&self) -> Vec<NamespacePolicy> {
        let row = |(namespace, policy): (&String, &Policy)| NamespacePolicy {
            namespace: namespace.clone(),
            policy: policy.clone(),
        };
        self.by_namespace.iter().map(row).collect()
    }

    pub(in crate::core) fn set(&mut self, namespace: &str, policy: Policy) {
        self.by_namespace.insert(namespace.to_owned(), policy);
    }

    pub(in crate::core) fn remove(&mut self, namespace: &str) {
        self.by_namespace.remove(namespace);
    }

    /// A policy that cannot be read counts as the strictest one: it may have been strict.
    pub(super) fn load(&mut self, namespace: &str, read: Result<Option<Policy>, Flaw>) -> Result<(), Flaw> {
        let policy = read.as_ref().map_or_else(|_| Some(Policy::of(Level::Restricted)), Clone::clone);
        match policy {
            Some(policy) => self.set(namespace, policy),
            None => self.remove(namespace),
        }
        read.map(drop)
    }
}
