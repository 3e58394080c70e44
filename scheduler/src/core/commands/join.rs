//! Nodes that join with a token.
//!
//! The proof of the token stands in for a client: [`super::access::identify`] checks it. Here the leader checks name, uses and keys, and
//! stores the public key of the node. Schedulers write the stored keys into the configuration of NATS (`shell::bus_agents`), and
//! `node remove` deletes the key.
//!
//! Example: a token for `rack-3-*` with one use. `rack-3-1` joins; its repeated request changes nothing; `rack-3-2` is refused because
//! no use is left, `web-1` because of its name.

use std::time::Duration;

use contract::access::join::{
    Join, JoinTokenRecord, JoinedNode, LONGEST_VALID_SECONDS, MOST_JOIN_TOKENS, NodeKeyRecord, check_labels,
    is_user_key, names_node,
};
use contract::command::Refusal;
use contract::keys;
use contract::name::NodeName;

use crate::core::commit::{self, Bundle};
use crate::core::events;
use crate::core::io::{Settings, Write};
use crate::core::leader::Leading;
use crate::core::state::State;

use super::access::shortened;

/// Expired tokens that one command removes; a transaction takes few writes.
const MOST_DROPPED: usize = 50;

pub(super) fn create_token(leading: &mut Leading<'_>, token: JoinTokenRecord, by: &str) -> Result<Bundle, Refusal> {
    let token = JoinTokenRecord { by: by.to_owned(), created: leading.now, ..token };
    token.validate().map_err(|reason| Refusal::Malformed { reason })?;
    if token.expires <= leading.now {
        return Err(Refusal::Unfit { reason: "the join token would have expired already".to_owned() });
    }
    // An hour for the difference of the clocks.
    if token.expires > leading.now + Duration::from_secs(LONGEST_VALID_SECONDS + 3_600) {
        return Err(Refusal::Unfit { reason: "the join token would be valid for longer than 30 days".to_owned() });
    }
    let mut writes = drop_expired(leading);
    let joins = &mut leading.state.joins;
    if joins.tokens().any(|other| other.id == token.id) {
        return Err(Refusal::Unfit { reason: format!("there is a join token {:?} already; create another", token.id) });
    }
    if joins.tokens().count() >= MOST_JOIN_TOKENS {
        return Err(Refusal::Limit { what: "join tokens".to_owned(), limit: MOST_JOIN_TOKENS as u64 });
    }
    writes.push(commit::put(keys::join_token(&token.id), &token));
    joins.put_token(token);
    Ok(Bundle { writes, ..Bundle::default() })
}

fn drop_expired(leading: &mut Leading<'_>) -> Vec<Write> {
    let now = leading.now;
    let expired = leading.state.joins.tokens().filter(|token| token.expires <= now).map(|token| token.id.clone());
    let expired: Vec<String> = expired.take(MOST_DROPPED).collect();
    for id in &expired {
        leading.state.joins.remove_token(id);
    }
    expired.iter().map(|id| Write::Delete { key: keys::join_token(id) }).collect()
}

pub(super) fn revoke_token(leading: &mut Leading<'_>, id: &str) -> Result<Bundle, Refusal> {
    if !leading.state.joins.remove_token(id) {
        return Err(Refusal::JoinTokenUnknown { id: shortened(id.to_owned()) });
    }
    Ok(Bundle { writes: vec![Write::Delete { key: keys::join_token(id) }], ..Bundle::default() })
}

pub(super) fn join(leading: &mut Leading<'_>, join: Join) -> Result<Bundle, Refusal> {
    let (now, node) = (leading.now, join.node);
    let malformed = |reason: String| Refusal::Malformed { reason };
    if !is_user_key(&join.key) {
        return Err(malformed("Key: is not the public key of a NATS user".to_owned()));
    }
    check_labels(&join.labels).map_err(malformed)?;
    let Some(token) = leading.state.joins.token(&join.proof, now).cloned() else {
        return Err(Refusal::JoinTokenUnknown { id: shortened(join.proof.id) });
    };
    if !names_node(&token.names, &node) {
        let reason = format!(
            "the join token {} is for nodes named {}, not for {node}; choose another --name, or another token",
            token.id, token.names
        );
        return Err(Refusal::Unfit { reason });
    }
    if leading.state.joins.key(&node).is_some_and(|known| known.key == join.key) {
        return Ok(Bundle::default());
    }
    may_take_name(leading, &token, &node, &join.key)?;
    if token.uses == 0 {
        let reason =
            format!("the join token {} has no use left; create another: deployctl node token create", token.id);
        return Err(Refusal::Unfit { reason });
    }
    let mut labels = join.labels;
    labels.extend(token.labels.clone());
    let key = NodeKeyRecord { key: join.key, labels, token: token.id.clone(), at: now };
    Ok(accept(leading, node, key, JoinTokenRecord { uses: token.uses - 1, ..token }))
}

/// Refuses a key of another node, and a name that is known with another key unless the token replaces it.
fn may_take_name(leading: &Leading<'_>, token: &JoinTokenRecord, node: &NodeName, key: &str) -> Result<(), Refusal> {
    let state = &*leading.state;
    if let Some(other) = state.joins.node_of(key) {
        let reason = format!("{other} has this key already; remove the key file, so that {node} gets a key of its own");
        return Err(Refusal::NodeBusy { reason });
    }
    let is_known = state.joins.key(node).is_some()
        || state.nodes.record(node).is_some()
        || state.pods_on(node).next().is_some()
        || state.dependencies.containers_on(node) > 0
        // The operator named it, so it has a key of `bus-keys`, even if its agent was never started.
        || leading.settings.accepted_nodes.iter().any(|name| name == node.as_str());
    if is_known && !token.replace {
        let reason = format!(
            "{node} is known with another key: remove the node first (deployctl node remove {node}), or use a token that was created \
             with --replace"
        );
        return Err(Refusal::NodeBusy { reason });
    }
    Ok(())
}

fn accept(leading: &mut Leading<'_>, node: NodeName, key: NodeKeyRecord, token: JoinTokenRecord) -> Bundle {
    let writes = vec![commit::put(keys::node_key(&node), &key), commit::put(keys::join_token(&token.id), &token)];
    let text = format!("joined with the join token {}: its agent may connect to NATS", token.id);
    let effects = vec![events::of_node(&node, text, leading.now)];
    leading.state.joins.put_token(token);
    leading.state.joins.put_key(node, key);
    Bundle { writes, effects, ..Bundle::default() }
}

/// Deletes the key of a node, and the token that it joined with: an attacker on the node may have the token, which can have uses left.
pub(super) fn end_access(leading: &mut Leading<'_>, node: &NodeName) -> Vec<Write> {
    let joins = &mut leading.state.joins;
    let Some(token) = joins.key(node).map(|record| record.token.clone()) else { return Vec::new() };
    joins.remove_key(node);
    let mut writes = vec![Write::Delete { key: keys::node_key(node) }];
    if joins.remove_token(&token) {
        writes.push(Write::Delete { key: keys::join_token(&token) });
    }
    writes
}

/// What a node that joined needs to know; none when no node of this name did.
pub(in crate::core) fn joined(state: &State, settings: &Settings, node: &NodeName) -> Option<JoinedNode> {
    Some(JoinedNode {
        labels: state.joins.key(node)?.labels.clone(),
        order_keys: settings.order_keys.clone(),
        stores: state.store.identity().stores.iter().cloned().collect(),
    })
}
