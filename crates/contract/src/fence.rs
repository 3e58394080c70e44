//! The fence every order carries: who led when it was decided, and which of that leader's decisions it is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Term of a leader: the create revision of its election key in etcd, so it only ever grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub u64);

/// Position of an order among all orders ever given to a node: term first, then the leader's own count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// Term of the leader that decided.
    pub term: Term,
    /// Count of that leader's orders to this node.
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
