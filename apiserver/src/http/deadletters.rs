//! `/api/deadletters`: messages that could not be decoded or delivered (ours).

use axum::http::StatusCode;
use contract::access::REDACTED;
use contract::api::{DeadLetters, Letter};
use contract::notice::DeadLetter;
use contract::streams::DEAD_LETTERS;
use fabric::nats::Stored;

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::{Api, Call, events};
use crate::streams::Filtered;

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let newest = api.streams.newest(&DEAD_LETTERS, events::limit(&call.params), filter).await?;
    Ok(respond::json(StatusCode::OK, &DeadLetters { dead_letters: newest.found }))
}

fn filter(stored: &Stored) -> Filtered<Letter> {
    match serde_json::from_slice::<DeadLetter>(&stored.payload) {
        Ok(DeadLetter { subject, reason, payload, at }) => {
            Filtered::Match(Letter { subject, reason, payload: without_proofs(&payload), at })
        }
        // Written by another version: nothing to show.
        Err(_) => Filtered::Skip,
    }
}

/// Hides the proof of a token in a command: a client that knew it could act as the owner of the token on the bus.
fn without_proofs(payload: &str) -> String {
    const PROOF: &str = "\"half\":\"";
    let mut parts = payload.split(PROOF);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(PROOF);
        shown.push_str(REDACTED);
        shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_of_a_token_is_hidden_also_when_the_payload_is_cut() {
        let command = r#"{"id":"a","credentials":{"proof":{"Token":{"id":"0a","half":"ab12"}}},"half":"12"#;
        let shown = r#"{"id":"a","credentials":{"proof":{"Token":{"id":"0a","half":"[redacted]"}}},"half":"[redacted]"#;
        assert_eq!(without_proofs(command), shown);
        assert_eq!(without_proofs("no command"), "no command");
    }
}
