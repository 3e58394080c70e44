//! Who may use the API: the switch and the tokens.

use std::collections::{BTreeMap, BTreeSet};

use contract::access::Principal;
use contract::access::table::{AccessRecord, AccessTable};
use contract::access::token::{TokenProof, TokenRecord};
use contract::digest::Digest;
use contract::layout::Flaw;
use contract::record::Cursor;
use contract::time::Timestamp;

use crate::core::io::Settings;

#[derive(Debug, Default)]
pub(in crate::core) struct Access {
    mode: Option<AccessRecord>,
    tokens: BTreeMap<String, TokenRecord>,
}

impl Access {
    /// Whether the store says if clients must prove who they are. A store of an older version does not.
    pub(in crate::core) fn is_chosen(&self) -> bool {
        self.mode.is_some()
    }

    /// Whether clients must prove who they are.
    pub(in crate::core) fn is_enforced(&self) -> bool {
        self.mode.as_ref().is_some_and(|mode| mode.enforced)
    }

    /// Callbacks that were stored before access control; none once it was enforced.
    pub(in crate::core) fn former_callbacks(&self) -> BTreeSet<String> {
        let open = self.mode.as_ref().filter(|mode| !mode.enforced);
        open.map(|mode| mode.callbacks.clone()).unwrap_or_default()
    }

    pub(in crate::core) fn set_mode(&mut self, mode: AccessRecord) {
        self.mode = Some(mode);
    }

    /// The principal of a token; none when it is unknown, wrong or expired.
    pub(in crate::core) fn principal(&self, proof: &TokenProof, now: Timestamp) -> Option<Principal> {
        self.tokens.get(&proof.id)?.verify(proof, now)
    }

    pub(in crate::core) fn tokens(&self) -> impl Iterator<Item = &TokenRecord> {
        self.tokens.values()
    }

    pub(in crate::core) fn put_token(&mut self, token: TokenRecord) {
        self.tokens.insert(token.id.clone(), token);
    }

    /// Whether there was such a token.
    pub(in crate::core) fn remove_token(&mut self, id: &str) -> bool {
        self.tokens.remove(id).is_some()
    }

    /// What an apiserver needs to know; none when it has this version already, and none until a leader has chosen for this store:
    /// apiservers keep what they know, and one that knows nothing lets clients wait.
    pub(in crate::core) fn table(
        &self,
        known: Option<&str>,
        settings: &Settings,
        cursor: &Cursor,
    ) -> Option<Box<AccessTable>> {
        if !self.is_chosen() && settings.enforces_access {
            return None;
        }
        let tokens: Vec<TokenRecord> = self.tokens.values().cloned().collect();
        let enforced = self.is_enforced();
        let anonymous = settings.anonymous.clone();
        let version = Digest::of(&(enforced, &tokens, &anonymous)).to_string();
        let as_of = Some(cursor.clone());
        (known != Some(version.as_str())).then(|| Box::new(AccessTable { version, enforced, tokens, anonymous, as_of }))
    }

    /// A switch that cannot be read counts as on.
    pub(super) fn load_mode(&mut self, read: Result<Option<AccessRecord>, Flaw>) -> Result<(), Flaw> {
        let unread = Some(AccessRecord { enforced: true, since: Timestamp::NEVER, callbacks: BTreeSet::new() });
        self.mode = read.as_ref().map_or(unread, Clone::clone);
        read.map(drop)
    }

    /// A token that cannot be read allows nothing.
    pub(super) fn load_token(&mut self, id: &str, read: Result<Option<TokenRecord>, Flaw>) -> Result<(), Flaw> {
        match &read {
            Ok(Some(token)) if token.id == id => self.put_token(token.clone()),
            Ok(_) | Err(_) => drop(self.remove_token(id)),
        }
        read.map(drop)
    }
}
