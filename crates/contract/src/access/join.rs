//! Join tokens, `ddj_<id>_<secret>_<CA>`, and the keys of the nodes that joined with them.
//!
//! The last part is the SHA-256 of the certificate of the API's CA, or `-` without TLS: the node checks the API server before it sends
//! the token. The node makes its key for NATS itself and sends the public part. The leader checks the token and stores the
//! public key; every scheduler writes the stored keys into the configuration of its NATS server.
//!
//! Example: a token for `rack-3-*` with 2 uses lets `rack-3-1` and `rack-3-2` join. `rack-3-1` may repeat its request with the same key,
//! which takes no use. With another key it is refused, unless the token was created with `--replace`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::token::{Token, TokenProof, is_equal, is_hex};
use crate::name::{self, NodeName};
use crate::node::NodeChange;
use crate::time::{Timestamp, rfc3339};
use crate::validate::sentence;

/// Before each join token, so that scanners of repositories find them.
const PREFIX: &str = "ddj_";
/// The last part of a token of an API without TLS.
const NO_CA: &str = "-";
/// Characters of a SHA-256, hexadecimal.
const HASH_LENGTH: usize = 64;
/// Characters of the public key of a NATS user.
const KEY_LENGTH: usize = 56;
/// Limit of join tokens.
pub const MOST_JOIN_TOKENS: usize = 256;
/// Limit of uses of one token.
pub const MOST_USES: u32 = 10_000;
/// Longest validity: 30 days.
pub const LONGEST_VALID_SECONDS: u64 = 30 * 24 * 3600;

/// A join token as an operator gives it to a node. It is shown once and never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    token: Token,
    ca: Option<String>,
}

impl JoinToken {
    /// A token for an API whose CA has this hash; none without TLS.
    pub fn new(token: Token, ca: Option<String>) -> Self {
        Self { token, ca }
    }

    /// Reads a token; none when the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (token, ca) = text.strip_prefix(PREFIX)?.rsplit_once('_')?;
        let ca = match ca {
            NO_CA => None,
            hash if hash.len() == HASH_LENGTH && is_hex(hash) => Some(hash.to_owned()),
            _ => return None,
        };
        Some(Self { token: Token::of_parts(token)?, ca })
    }

    /// The text for the node.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.token.parts(), self.ca.as_deref().unwrap_or(NO_CA))
    }

    /// Public part.
    pub fn id(&self) -> &str {
        &self.token.id
    }

    /// SHA-256 of the certificate of the API's CA; none without TLS.
    pub fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    /// What proves the token to the leader.
    pub fn proof(&self) -> TokenProof {
        self.token.proof()
    }
}

/// Whether a pattern names the node: an exact name, or a beginning with `*` at its end.
pub fn names_node(pattern: &str, node: &NodeName) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => node.as_str().starts_with(prefix),
        None => pattern == node.as_str(),
    }
}

/// A join token as it is stored: `/deployd/state/access/join/<id>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JoinTokenRecord {
    /// Public part of the token.
    pub id: String,
    /// [`TokenProof::hash`].
    pub hash: String,
    /// Which nodes may join: a name, or a beginning with `*`.
    pub names: String,
    /// Labels that the nodes get.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many nodes may still join.
    pub uses: u32,
    /// Whether a node whose name is known with another key may join.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    /// The principal that created it.
    pub by: String,
    /// When it was created.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
}

impl JoinTokenRecord {
    /// Whether the proof is that of this token, and the token is still valid.
    pub fn verify(&self, proof: &TokenProof, now: Timestamp) -> bool {
        self.id == proof.id && is_equal(&self.hash, &proof.hash()) && now < self.expires
    }

    /// The first problem of the record.
    pub fn validate(&self) -> Result<(), String> {
        if !is_hex(&self.id) || !is_hex(&self.hash) || self.hash.len() != HASH_LENGTH {
            return Err("the id or the hash of the token is malformed".to_owned());
        }
        let beginning = self.names.strip_suffix('*');
        // A prefix may end with a character that ends no name, such as the dash of `rack-3-*`.
        let checked = beginning.map_or_else(|| self.names.clone(), |prefix| format!("{prefix}0"));
        name::check(&checked).map_err(|error| format!("Names: {error}; write a name, `rack-3-*` or `*`"))?;
        if !(1..=MOST_USES).contains(&self.uses) {
            return Err(format!("Uses: should be 1 to {MOST_USES} but {}", self.uses));
        }
        check_labels(&self.labels)
    }
}

/// Checks labels for the settings file of an agent, where they are separated by commas.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    if labels.is_empty() {
        return Ok(());
    }
    let set = labels.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    NodeChange::Label { labels: set }.validate().map_err(|flaws| sentence(&flaws))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_=:/.@%+~-".contains(&byte);
    match labels.iter().find(|(_, value)| !value.bytes().all(is_plain)) {
        Some((key, _)) => {
            Err(format!("labels[{key:?}]: a value has letters, digits and _ = : / . @ % + ~ - and nothing else"))
        }
        None => Ok(()),
    }
}

/// A join token as `GET /api/jointokens` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JoinTokenView {
    /// Public part of the token.
    pub id: String,
    /// Which nodes may join.
    pub names: String,
    /// Labels that the nodes get.
    pub labels: BTreeMap<String, String>,
    /// How many nodes may still join.
    pub uses: u32,
    /// Whether a node whose name is known with another key may join.
    pub replace: bool,
    /// The principal that created it.
    pub by: String,
    /// When it was created.
    #[serde(with = "rfc3339")]
    pub created: Timestamp,
    /// When it ends.
    #[serde(with = "rfc3339")]
    pub expires: Timestamp,
}

impl From<&JoinTokenRecord> for JoinTokenView {
    fn from(record: &JoinTokenRecord) -> Self {
        let JoinTokenRecord { id, hash: _, names, labels, uses, replace, by, created, expires } = record.clone();
        Self { id, names, labels, uses, replace, by, created, expires }
    }
}

/// Body of `POST /api/jointokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct NewJoinToken {
    /// Which nodes may join: a name, or a beginning with `*`.
    pub names: String,
    /// Labels that the nodes get.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many nodes may join; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// Seconds until it ends; default an hour, at most 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_seconds: Option<u64>,
    /// Whether a node whose name is known with another key may join.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// Answer to `POST /api/jointokens`: the only time that the secret is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreatedJoinToken {
    /// The token, for `deployd-agent join`.
    pub token: String,
    /// What `GET /api/jointokens` shows of it.
    #[serde(flatten)]
    pub view: JoinTokenView,
}

/// Answer to `GET /api/join`, which anyone may read: what a node needs to check the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JoinCa {
    /// Certificates of the cluster's CA (PEM); none without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// Body of `POST /api/join`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct JoinRequest {
    /// The join token.
    pub token: String,
    /// Name of the node.
    pub name: NodeName,
    /// Labels of the node; those of the token win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Public key of the node for NATS.
    pub key: String,
    /// Signature of [`signed_text`] with this key (base64), so that a node cannot join with the key of
    /// another process.
    pub signature: String,
}

impl std::fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinRequest").field("name", &self.name).field("key", &self.key).finish_non_exhaustive()
    }
}

/// What a node signs to prove that it has the private part of its key.
pub fn signed_text(token: &str, node: &NodeName, key: &str) -> String {
    format!("deployd-join-1 {token} {node} {key}")
}

/// Answer to `POST /api/join`: what the agent of the node needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JoinAnswer {
    /// URLs of the NATS servers.
    pub nats: Vec<String>,
    /// Certificates of the CA of the NATS servers (PEM); none without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// What the leader knows of the node.
    #[serde(flatten)]
    pub node: JoinedNode,
}

/// A node that joined, as the leader describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JoinedNode {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The public keys of the schedulers, as the agent's `--order-keys-file` has them; empty when orders are not signed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub order_keys: String,
    /// Names of the store, which identify the cluster.
    pub stores: Vec<String>,
}

/// A node that wants to join, in a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Proves the join token.
    pub proof: TokenProof,
    /// Name of the node.
    pub node: NodeName,
    /// Labels of the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Public key of the node for NATS.
    pub key: String,
}

/// The key of a node that joined: `/deployd/state/key/node/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeKeyRecord {
    /// Public key of the node for NATS.
    pub key: String,
    /// Labels that it was given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Id of the token it joined with.
    pub token: String,
    /// When it joined.
    pub at: Timestamp,
}

/// Whether a text looks like the public key of a NATS user.
pub fn is_user_key(text: &str) -> bool {
    let is_base32 = |byte: u8| matches!(byte, b'A'..=b'Z' | b'2'..=b'7');
    text.len() == KEY_LENGTH && text.starts_with('U') && text.bytes().all(is_base32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(ca: Option<&str>) -> JoinToken {
        JoinToken::new(Token::from_random(&[7; 40]), ca.map(str::to_owned))
    }

    fn record() -> JoinTokenRecord {
        JoinTokenRecord {
            id: token(None).id().to_owned(),
            hash: token(None).proof().hash(),
            names: "rack-3-*".to_owned(),
            labels: BTreeMap::from([("unit".to_owned(), "cell-a".to_owned())]),
            uses: 2,
            replace: false,
            by: "root".to_owned(),
            created: Timestamp::from_millis(1),
            expires: Timestamp::from_millis(100),
        }
    }

    #[test]
    fn a_token_is_read_as_it_is_shown_with_and_without_a_ca() {
        for ca in [None, Some("0a".repeat(32))] {
            let token = token(ca.as_deref());
            assert_eq!(JoinToken::parse(&token.reveal()), Some(token.clone()));
            assert_eq!(token.ca(), ca.as_deref());
            assert!(token.reveal().starts_with("ddj_0707070707070707_"));
        }
        let shown = token(None).reveal();
        for wrong in ["", "ddj_", &shown[..shown.len() - 1], &shown.replace("ddj", "ddt"), &format!("{shown}0")] {
            assert_eq!(JoinToken::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_record_accepts_its_own_token_until_it_expires() {
        let at = Timestamp::from_millis;
        assert!(record().verify(&token(None).proof(), at(99)) && !record().verify(&token(None).proof(), at(100)));
        let other = JoinToken::new(Token::from_random(&[8; 40]), None);
        assert!(!record().verify(&other.proof(), at(1)));
        assert!(!record().verify(&TokenProof { id: record().id, half: record().hash }, at(1)), "the hash is no proof");
    }

    #[test]
    fn a_record_needs_a_pattern_uses_and_plain_labels() {
        assert_eq!(record().validate(), Ok(()));
        let labels = |value: &str| BTreeMap::from([("a".to_owned(), value.to_owned())]);
        for names in ["*", "node-1", "rack-3-*"] {
            assert_eq!(JoinTokenRecord { names: names.to_owned(), ..record() }.validate(), Ok(()), "{names}");
        }
        for wrong in [
            JoinTokenRecord { names: String::new(), ..record() },
            JoinTokenRecord { names: "a*b".to_owned(), ..record() },
            JoinTokenRecord { uses: 0, ..record() },
            JoinTokenRecord { hash: "0".to_owned(), ..record() },
            JoinTokenRecord { labels: labels("x,node=y"), ..record() },
            JoinTokenRecord { labels: labels("x\nDEPLOYD_DOCKER=y"), ..record() },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_pattern_names_one_node_or_those_that_begin_alike() {
        let node: NodeName = "rack-3-1".parse().expect("a name");
        for (pattern, expected) in
            [("*", true), ("rack-3-*", true), ("rack-3-1", true), ("rack-3-", false), ("rack-4-*", false)]
        {
            assert_eq!(names_node(pattern, &node), expected, "{pattern}");
        }
    }

    #[test]
    fn a_key_is_the_public_key_of_a_user() {
        assert!(is_user_key(&format!("U{}", "A".repeat(55))));
        for wrong in ["", "UA", &format!("S{}", "A".repeat(55)), &format!("U{}\"", "A".repeat(54))] {
            assert!(!is_user_key(wrong), "{wrong}");
        }
    }
}
