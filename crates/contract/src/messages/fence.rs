//! Fences: every order carries the term of its leader and a number, so that agents can reject stale orders.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Term (leadership epoch): derived from the create revision of the leader's election key in etcd, so it only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub u64);

/// Position of an order among all orders to a node, compared by term, then by generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// Term of the leader that sent it.
    pub term: Term,
    /// Number of the order within the term.
    pub generation: u64,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.generation)
    }
}
