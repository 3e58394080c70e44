//! `/api/tokens` (ours): the tokens of the clients.
//!
//! The secret is made here and shown once, in the answer to POST. The leader gets and stores only a hash.

use std::time::Duration;

use axum::http::StatusCode;
use contract::access::table::{CreatedToken, NewToken, TokenView};
use contract::access::token::{Token, TokenRecord};
use contract::command::Verb;
use contract::query::{Answer, Query};
use ring::rand::{SecureRandom, SystemRandom};

use super::respond::{self, HttpResult, Refused};
use super::router::{HttpMethod, Resource};
use super::writes::{self, IDEMPOTENCY_KEY, Promise};
use super::{Api, Call};
use crate::queries;

const DAY: u64 = 24 * 60 * 60;
/// Default validity in seconds.
const USUAL: u64 = 90 * DAY;
/// Longest validity in seconds: 10 years.
const LONGEST: u64 = 3_653 * DAY;

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api).await,
        HttpMethod::Post => post(api, call).await,
        HttpMethod::Delete => delete(api, call).await,
        HttpMethod::Put | HttpMethod::Patch => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api) -> HttpResult {
    let reply = api.queries.ask(&Query::Access { known: None }).await?;
    let Answer::Access(Some(table)) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let tokens: Vec<TokenView> = table.tokens.iter().map(TokenView::from).collect();
    Ok(respond::stale(respond::json(StatusCode::OK, &tokens), reply.stale))
}

async fn post(api: &Api, call: &Call) -> HttpResult {
    if call.headers.contains_key(IDEMPOTENCY_KEY) {
        let message = "Idempotency-Key: a repeated request could not show the secret again; leave the header out, and revoke a \
                       token whose secret was lost";
        return Err(Refused::bad_request(message));
    }
    let wanted: NewToken = serde_json::from_slice(&call.body).map_err(|error| {
        let example = r#"{"Principal": "alice", "Bindings": ["deployer@shop"], "ValidSeconds": 86400}"#;
        Refused::bad_request(format!("the body should be JSON such as {example}: {error}"))
    })?;
    let (token, record) = new_token(api, call, wanted)?;
    let change = Verb::CreateToken { token: Box::new(record.clone()) };
    let settled = writes::settle(api, call, change).await.map_err(without_retry)?;
    api.access.refresh().await;
    let status = if settled.queued { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    Ok(respond::json(status, &CreatedToken { token: token.reveal(), view: TokenView::from(&record) }))
}

fn new_token(api: &Api, call: &Call, wanted: NewToken) -> Result<(Token, TokenRecord), Refused> {
    let valid = wanted.valid_seconds.unwrap_or(USUAL);
    if !(1..=LONGEST).contains(&valid) {
        return Err(Refused::bad_request(format!("ValidSeconds: should be 1 to {LONGEST} (10 years) but {valid}")));
    }
    let mut random = [0; 40];
    SystemRandom::new().fill(&mut random).map_err(|_| Refused::unavailable("the system has no random numbers"))?;
    let token = Token::from_random(&random);
    let created = api.streams.now();
    let record = TokenRecord {
        id: token.id.clone(),
        hash: token.proof().hash(),
        principal: wanted.principal,
        bindings: wanted.bindings,
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
            "the outcome is unknown: the message bus did not confirm it in time; if GET /api/tokens shows a new token, revoke it, \
             because its secret is lost, and create another",
        );
    }
    refused
}

async fn delete(api: &Api, call: &Call) -> HttpResult {
    let id =
        call.params.text("id").ok_or_else(|| Refused::bad_request("id: names no token; GET /api/tokens shows them"))?;
    let settled = writes::settle(api, call, Verb::RevokeToken { id: id.to_owned() }).await?;
    api.access.refresh().await;
    let check_url = Resource::Tokens.path().to_owned();
    Ok(writes::accepted(&settled, Promise { check_url, message: "Token will be refused." }))
}
