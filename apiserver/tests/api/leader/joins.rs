//! Joins of the fake leader.

use std::collections::BTreeMap;

use contract::access::join::{Join, JoinTokenRecord, JoinedNode, names_node};
use contract::command::{Refusal, Verb};
use contract::name::NodeName;

#[derive(Default)]
pub(super) struct Joins {
    tokens: Vec<JoinTokenRecord>,
    nodes: BTreeMap<NodeName, JoinedNode>,
}

impl Joins {
    pub(super) fn tokens(&self) -> Vec<JoinTokenRecord> {
        self.tokens.clone()
    }

    pub(super) fn joined(&self, node: &NodeName) -> Option<Box<JoinedNode>> {
        self.nodes.get(node).cloned().map(Box::new)
    }

    pub(super) fn change(&mut self, verb: &Verb) -> Result<(), Refusal> {
        match verb {
            Verb::CreateJoinToken { token } => self.tokens.push((**token).clone()),
            Verb::RevokeJoinToken { id } if self.tokens.iter().any(|token| token.id == *id) => {
                self.tokens.retain(|token| token.id != *id);
            }
            Verb::RevokeJoinToken { id } => return Err(Refusal::JoinTokenUnknown { id: id.clone() }),
            Verb::Join { join } => return self.join(join),
            other => panic!("does not concern joins: {other:?}"),
        }
        Ok(())
    }

    fn join(&mut self, join: &Join) -> Result<(), Refusal> {
        let token = self.tokens.iter().find(|token| token.id == join.proof.id && token.hash == join.proof.hash());
        let unproven = || Refusal::Unauthenticated { reason: "the join token is unknown".to_owned() };
        let token = token.ok_or_else(unproven)?;
        if !names_node(&token.names, &join.node) {
            return Err(Refusal::Unfit { reason: format!("the join token is for nodes named {}", token.names) });
        }
        let mut labels = join.labels.clone();
        labels.extend(token.labels.clone());
        let (order_keys, stores) = ("s1 AAAA\n".to_owned(), vec!["store-1".to_owned()]);
        self.nodes.insert(join.node.clone(), JoinedNode { labels, order_keys, stores });
        Ok(())
    }
}
