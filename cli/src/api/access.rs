//! The calls of the API about tokens, access control and the audit log.

use contract::access::audit::{AuditPage, Chain};
use contract::access::join::{CreatedJoinToken, JoinTokenView, NewJoinToken};
use contract::access::table::{AccessPatch, AccessView, CreatedToken, NewToken, TokenView};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Api, Error, Request, Retry};

const ACCESS: &str = "/api/access";
const TOKENS: &str = "/api/tokens";
const JOIN_TOKENS: &str = "/api/jointokens";
const AUDIT: &str = "/api/audit";

impl Api {
    /// Whether the cluster enforces access control, and what this client may do.
    pub async fn access(&self) -> Result<AccessView, Error> {
        match self.get(ACCESS, &[]).await?.read() {
            Err(Error::NotFound(_)) => Err(Error::NoAccessControl { urls: self.target().describe() }),
            other => other,
        }
    }

    pub async fn enforce_access(&self, enforced: bool, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::PATCH, ACCESS, &[]).with(&AccessPatch { enforced }), retry).await
    }

    pub async fn tokens(&self) -> Result<Vec<TokenView>, Error> {
        self.get(TOKENS, &[]).await?.read()
    }

    /// Creates a token; also whether a leader has decided it.
    pub async fn create_token(&self, token: &NewToken) -> Result<(CreatedToken, bool), Error> {
        self.create_once(TOKENS, token, "deployctl token list").await
    }

    pub async fn join_tokens(&self) -> Result<Vec<JoinTokenView>, Error> {
        self.get(JOIN_TOKENS, &[]).await?.read()
    }

    /// Creates a join token; also whether a leader has decided it.
    pub async fn create_join_token(&self, token: &NewJoinToken) -> Result<(CreatedJoinToken, bool), Error> {
        self.create_once(JOIN_TOKENS, token, "deployctl node token list").await
    }

    pub async fn revoke_join_token(&self, id: &str, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::DELETE, JOIN_TOKENS, &[("id", id)]), retry).await
    }

    /// Sends a request once: the answer of a repeated one could not show the secret.
    async fn create_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        list: &'static str,
    ) -> Result<(T, bool), Error> {
        let attempt = self.attempt(&Request::new(Method::POST, path, &[]).with(body), None).await;
        let answer = attempt.answer.and_then(|reply| {
            let is_decided = reply.status != StatusCode::ACCEPTED;
            Ok((reply.read()?, is_decided))
        });
        match (answer, attempt.doubt) {
            (Err(error), Some(reason)) => Err(Error::TokenInDoubt { reason, list, source: Box::new(error) }),
            (answer, _) => answer,
        }
    }

    pub async fn revoke_token(&self, id: &str, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::DELETE, TOKENS, &[("id", id)]), retry).await
    }

    /// The records of an audit log after a number, at most `limit` of them.
    pub async fn audit(&self, chain: Chain, after: u64, limit: u64) -> Result<AuditPage, Error> {
        let (after, limit) = (after.to_string(), limit.to_string());
        let mut params = vec![("after", after.as_str()), ("limit", limit.as_str())];
        if chain == Chain::Refused {
            params.push(("refused", "true"));
        }
        self.get(AUDIT, &params).await?.read()
    }
}
