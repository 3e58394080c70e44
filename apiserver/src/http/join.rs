//! `/api/jointokens` and `/api/join` (ours): tokens with which nodes join, and nodes that join.
//!
//! A node that joins is no client: it has a join token only. Anyone may therefore call `/api/join`. This process checks the token and that
//! the node has the private part of its key before it sends a command; the leader checks the token again and decides.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::StatusCode;
use contract::access::join::{
    CreatedJoinToken, Join, JoinAnswer, JoinCa, JoinRequest, JoinToken, JoinTokenRecord, JoinTokenView,
    LONGEST_VALID_SECONDS, NewJoinToken, signed_text,
};
use contract::access::token::Token;
use contract::command::Verb;
use contract::query::{Answer, Query};
use fabric::{bus_accounts, certificates};
use ring::rand::{SecureRandom, SystemRandom};

use super::respond::{self, HttpResult, Refused};
use super::router::{HttpMethod, Resource};
use super::writes::{self, IDEMPOTENCY_KEY, Promise};
use super::{Api, Call};
use crate::queries;

/// Default validity in seconds.
const USUAL: u64 = 3600;

/// What this apiserver tells nodes that join.
#[derive(Debug)]
pub struct Offer {
    nats: Vec<String>,
    ca: Option<PathBuf>,
    speaks_tls: bool,
}

impl Offer {
    /// `ca` signed the certificates of the NATS servers, and of this apiserver if it speaks TLS.
    pub fn new(nats: &[String], ca: Option<PathBuf>, speaks_tls: bool) -> Self {
        Self { nats: nats.iter().map(|url| without_user(url.trim())).collect(), ca, speaks_tls }
    }

    /// The file is read each time, so that a renewed one needs no restart.
    async fn ca(&self) -> Result<Option<String>, Refused> {
        let Some(path) = &self.ca else { return Ok(None) };
        let text = tokio::fs::read_to_string(path).await;
        text.map(Some).map_err(|error| Refused::unavailable(format!("cannot read the CA of --nats-ca: {error}")))
    }

    /// SHA-256 of the CA of this API; none without TLS.
    async fn ca_hash(&self) -> Result<Option<String>, Refused> {
        if !self.speaks_tls {
            return Ok(None);
        }
        let hash = self.ca().await?.and_then(|text| certificates::hash(&text).ok());
        let unknown = "this apiserver speaks TLS and does not know its CA, which nodes check before they join: start it with \
                       --nats-ca (DEPLOYD_NATS_CA)";
        hash.map(Some).ok_or_else(|| Refused::bad_request(unknown))
    }
}

/// A node gets a key of its own, not the user of this process.
fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    format!("{scheme}://{}", rest.rsplit('@').next().unwrap_or(rest))
}

/// `/api/jointokens`
pub async fn tokens(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => {
            let tokens: Vec<JoinTokenView> = stored(api).await?.iter().map(JoinTokenView::from).collect();
            Ok(respond::json(StatusCode::OK, &tokens))
        }
        HttpMethod::Post => create(api, call).await,
        HttpMethod::Delete => revoke(api, call).await,
        HttpMethod::Put | HttpMethod::Patch => Err(Refused::unsupported(call.method.word())),
    }
}

async fn stored(api: &Api) -> Result<Vec<JoinTokenRecord>, Refused> {
    match api.queries.ask(&Query::JoinTokens).await?.answer {
        Answer::JoinTokens(tokens) => Ok(tokens),
        _ => Err(queries::Error::Mismatch.into()),
    }
}

async fn create(api: &Api, call: &Call) -> HttpResult {
    if call.headers.contains_key(IDEMPOTENCY_KEY) {
        let message = "Idempotency-Key: a repeated request could not show the secret again; leave the header out, and revoke a \
                       token whose secret was lost";
        return Err(Refused::bad_request(message));
    }
    let wanted: NewJoinToken = serde_json::from_slice(&call.body).map_err(|error| {
        let example = r#"{"Names": "rack-3-*", "Uses": 20, "ValidSeconds": 3600}"#;
        Refused::bad_request(format!("the body should be JSON such as {example}: {error}"))
    })?;
    let (token, record) = new_token(api, call, wanted).await?;
    let change = Verb::CreateJoinToken { token: Box::new(record.clone()) };
    let settled = writes::settle(api, call, change).await.map_err(without_retry)?;
    let status = if settled.queued { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    Ok(respond::json(status, &CreatedJoinToken { token: token.reveal(), view: JoinTokenView::from(&record) }))
}

async fn new_token(api: &Api, call: &Call, wanted: NewJoinToken) -> Result<(JoinToken, JoinTokenRecord), Refused> {
    let valid = wanted.valid_seconds.unwrap_or(USUAL);
    if !(1..=LONGEST_VALID_SECONDS).contains(&valid) {
        let message = format!("ValidSeconds: should be 1 to {LONGEST_VALID_SECONDS} (30 days) but {valid}");
        return Err(Refused::bad_request(message));
    }
    let mut random = [0; 40];
    SystemRandom::new().fill(&mut random).map_err(|_| Refused::unavailable("the system has no random numbers"))?;
    let token = JoinToken::new(Token::from_random(&random), api.join.ca_hash().await?);
    let created = api.streams.now();
    let record = JoinTokenRecord {
        id: token.id().to_owned(),
        hash: token.proof().hash(),
        names: wanted.names,
        labels: wanted.labels,
        uses: wanted.uses.unwrap_or(1),
        replace: wanted.replace,
        by: call.client.principal.name.clone(),
        created,
        expires: created + Duration::from_secs(valid),
    };
    record.validate().map_err(Refused::bad_request)?;
    Ok((token, record))
}

/// A lost answer means a lost secret: the usual advice to repeat the request would not show it.
fn without_retry(refused: Refused) -> Refused {
    if refused.is_unknown() {
        return Refused::unknown(
            "the outcome is unknown: the message bus did not confirm it in time; if GET /api/jointokens shows a new token, revoke \
             it, because its secret is lost, and create another",
        );
    }
    refused
}

async fn revoke(api: &Api, call: &Call) -> HttpResult {
    let missing = || Refused::bad_request("id: names no token; GET /api/jointokens shows them");
    let id = call.params.text("id").ok_or_else(missing)?.to_owned();
    let settled = writes::settle(api, call, Verb::RevokeJoinToken { id }).await?;
    let check_url = Resource::JoinTokens.path().to_owned();
    Ok(writes::accepted(&settled, Promise { check_url, message: "Token will be refused." }))
}

/// `/api/join`
pub async fn join(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => Ok(respond::json(StatusCode::OK, &JoinCa { ca: api.join.ca().await? })),
        HttpMethod::Post => admit(api, call).await,
        HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => Err(Refused::unsupported(call.method.word())),
    }
}

async fn admit(api: &Api, call: &Call) -> HttpResult {
    let wrong = |message: &str| api.access.refuse(&call.client, message);
    let JoinRequest { token, name: node, labels, key, signature } = serde_json::from_slice(&call.body)
        .map_err(|error| Refused::bad_request(format!("the body is not what `deployd-agent join` sends: {error}")))?;
    let unknown = "the join token is wrong, was revoked or has expired; create another: deployctl node token create";
    let token = JoinToken::parse(token.trim()).ok_or_else(|| wrong(unknown))?;
    if !bus_accounts::is_signed(&key, &signed_text(token.id(), &node, &key), &signature) {
        return Err(Refused::bad_request("Signature: does not prove that the node has the private part of Key"));
    }
    // Before the schedulers are asked: a client without a valid token must not cause work for them.
    api.access.may_join(&call.client)?;
    let (proof, now) = (token.proof(), api.streams.now());
    if !stored(api).await?.iter().any(|record| record.verify(&proof, now)) {
        return Err(wrong(unknown));
    }
    let join = Join { proof, node: node.clone(), labels, key };
    if writes::settle(api, call, Verb::Join { join: Box::new(join) }).await?.queued {
        return Err(Refused::unavailable("no scheduler has decided yet; run the same command again in a moment"));
    }
    let Answer::Joined(Some(joined)) = api.queries.ask(&Query::Joined { node }).await?.answer else {
        return Err(queries::Error::Mismatch.into());
    };
    let answer = JoinAnswer { nats: api.join.nats.clone(), ca: api.join.ca().await?, node: *joined };
    Ok(respond::json(StatusCode::OK, &answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_the_addresses_of_nats_without_the_user_of_the_apiserver() {
        let urls = ["nats://10.0.0.1:4222", "tls://a:b@nats.example:4222", "10.0.0.2:4222"].map(str::to_owned);
        let expected = ["nats://10.0.0.1:4222", "tls://nats.example:4222", "nats://10.0.0.2:4222"];
        assert_eq!(Offer::new(&urls, None, false).nats, expected);
    }
}
