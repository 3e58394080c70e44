//! The access of the cluster as apiservers read it: the switch and the tokens.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::token::{TokenProof, TokenRecord};
use super::{AnonymousBinding, Binding, Principal};
use crate::record::Cursor;
use crate::time::{Timestamp, rfc3339};

/// Whether clients must prove who they are: `/deployd/state/access/mode`.
///
/// A new cluster enforces it. A cluster of a version without access control stays open until `deployctl auth enforce`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AccessRecord {
    /// True: a request needs a token, or a binding for clients without one.
    pub enforced: bool,
    /// Since when.
    #[serde(with = "rfc3339")]
    pub since: Timestamp,
    /// Callbacks that were stored before access control: internal addresses stay open to them until it is enforced.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub callbacks: BTreeSet<String>,
}

/// What an apiserver needs to know clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AccessTable {
    /// Digest of the rest: an apiserver that names it gets no table again while nothing changed.
    pub version: String,
    /// [`AccessRecord::enforced`].
    pub enforced: bool,
    /// The tokens, in order of their ids.
    pub tokens: Vec<TokenRecord>,
    /// The bindings of clients without a token that this scheduler accepts.
    pub anonymous: Vec<AnonymousBinding>,
    /// The last command that this table includes. Absent from older schedulers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Cursor>,
}

impl AccessTable {
    /// The principal of a token; none when it is unknown, wrong or expired.
    pub fn verify(&self, proof: &TokenProof, now: Timestamp) -> Option<Principal> {
        self.tokens.iter().find(|token| token.id == proof.id)?.verify(proof, now)
    }

    /// Whether the table of a standby may lack commands that `known` includes, for example a revocation. Positions in different
    /// command streams cannot be compared.
    pub fn may_be_older_than(&self, known: &Self) -> bool {
        let Some(known) = &known.as_of else { return false };
        self.as_of.as_ref().is_none_or(|own| own.stream != known.stream || own.sequence < known.sequence)
    }
}

/// A token as `GET /api/tokens` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TokenView {
    /// Public part of the token.
    pub id: String,
    /// Whose actions are recorded under it.
    pub principal: String,
    /// What it allows.
    pub bindings: Vec<Binding>,
    /// The principal that created it.
    pub by: String,
    /// When it was created.
    #[serde(with = "rfc3339")]
    pub created: Timestamp,
    /// When it ends.
    #[serde(with = "rfc3339")]
    pub expires: Timestamp,
}

impl From<&TokenRecord> for TokenView {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.clone(),
            principal: record.principal.clone(),
            bindings: record.bindings.clone(),
            by: record.by.clone(),
            created: record.created,
            expires: record.expires,
        }
    }
}

/// Body of `POST /api/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct NewToken {
    /// Whose actions are recorded under it.
    pub principal: String,
    /// What it allows.
    pub bindings: Vec<Binding>,
    /// Seconds until it ends; default 90 days, at most 10 years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_seconds: Option<u64>,
}

/// Answer to `POST /api/tokens`: the only time that the secret is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreatedToken {
    /// The token, for the header `Authorization: Bearer`.
    pub token: String,
    /// What `GET /api/tokens` shows of it.
    #[serde(flatten)]
    pub view: TokenView,
}

/// Answer to `GET /api/access`: whether the cluster enforces access control, and what the client may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AccessView {
    /// [`AccessRecord::enforced`].
    pub enforced: bool,
    /// The principal of the client.
    pub principal: String,
    /// What the client may do.
    pub bindings: Vec<Binding>,
    /// The bindings of clients without a token at this apiserver, for admins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anonymous: Vec<AnonymousBinding>,
}

/// Body of `PATCH /api/access`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct AccessPatch {
    /// [`AccessRecord::enforced`].
    pub enforced: bool,
}
