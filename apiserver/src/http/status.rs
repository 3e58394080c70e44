//! `/api/status`: whether the engine is started. Console asks before everything it does, so nobody else is asked.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use super::Call;
use super::respond::{self, Answer, Refused};
use super::router::Verb;

/// Answers a request.
pub fn call(call: &Call) -> Answer {
    match call.verb {
        Verb::Get => Ok(respond::json(StatusCode::OK, &BTreeMap::from([("status", "started")]))),
        Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => Err(Refused::unsupported(call.verb.word())),
    }
}
