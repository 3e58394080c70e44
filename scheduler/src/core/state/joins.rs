//! Join tokens, and the keys of the nodes that joined with them.

use std::collections::BTreeMap;

use contract::access::join::{JoinTokenRecord, NodeKeyRecord};
use contract::access::token::TokenProof;
use contract::layout::Flaw;
use contract::name::NodeName;
use contract::time::Timestamp;

#[derive(Debug, Default)]
pub(in crate::core) struct Joins {
    tokens: BTreeMap<String, JoinTokenRecord>,
    keys: BTreeMap<NodeName, NodeKeyRecord>,
}

impl Joins {
    /// The token of a proof; none when it is unknown, wrong or expired.
    pub(in crate::core) fn token(&self, proof: &TokenProof, now: Timestamp) -> Option<&JoinTokenRecord> {
        self.tokens.get(&proof.id).filter(|token| token.verify(proof, now))
    }

    pub(in crate::core) fn tokens(&self) -> impl Iterator<Item = &JoinTokenRecord> {
        self.tokens.values()
    }

    pub(in crate::core) fn put_token(&mut self, token: JoinTokenRecord) {
        self.tokens.insert(token.id.clone(), token);
    }

    /// Whether there was such a token.
    pub(in crate::core) fn remove_token(&mut self, id: &str) -> bool {
        self.tokens.remove(id).is_some()
    }

    pub(in crate::core) fn key(&self, node: &NodeName) -> Option<&NodeKeyRecord> {
        self.keys.get(node)
    }

    /// The nodes that have a key.
    pub(in crate::core) fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.keys.keys()
    }

    /// The node that has this key.
    pub(in crate::core) fn node_of(&self, key: &str) -> Option<&NodeName> {
        self.keys.iter().find(|(_, record)| record.key == key).map(|(node, _)| node)
    }

    pub(in crate::core) fn put_key(&mut self, node: NodeName, key: NodeKeyRecord) {
        self.keys.insert(node, key);
    }

    /// Whether the node had a key.
    pub(in crate::core) fn remove_key(&mut self, node: &NodeName) -> bool {
        self.keys.remove(node).is_some()
    }

    /// A token that cannot be read lets no node join.
    pub(super) fn load_token(&mut self, id: &str, read: Result<Option<JoinTokenRecord>, Flaw>) -> Result<(), Flaw> {
        match &read {
            Ok(Some(token)) if token.id == id => self.put_token(token.clone()),
            Ok(_) | Err(_) => drop(self.remove_token(id)),
        }
        read.map(drop)
    }

    pub(super) fn load_key(&mut self, node: &NodeName, read: Result<Option<NodeKeyRecord>, Flaw>) -> Result<(), Flaw> {
        match &read {
            Ok(Some(key)) => self.put_key(node.clone(), key.clone()),
            Ok(None) | Err(_) => drop(self.remove_key(node)),
        }
        read.map(drop)
    }
}
