//! `/api/deadletters`: messages that could not be decoded or delivered (ours).

use axum::http::StatusCode;
use contract::api::{DeadLetters, Letter};
use contract::notice::DeadLetter;
use contract::streams::DEAD_LETTERS;
use fabric::nats::Stored;

use super::respond::{self, HttpResult, Refused};
use super::router::Verb;
use super::{Api, Call, events};
use crate::streams::Filtered;

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.verb {
        Verb::Get => get(api, call).await,
        Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => Err(Refused::unsupported(call.verb.word())),
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let newest = api.streams.newest(&DEAD_LETTERS, events::limit(&call.params), filter).await?;
    Ok(respond::json(StatusCode::OK, &DeadLetters { dead_letters: newest.found }))
}

fn filter(stored: &Stored) -> Filtered<Letter> {
    match serde_json::from_slice::<DeadLetter>(&stored.payload) {
        Ok(DeadLetter { subject, reason, payload, at }) => Filtered::Match(Letter { subject, reason, payload, at }),
        // Written by another version: nothing to show.
        Err(_) => Filtered::Skip,
    }
}
