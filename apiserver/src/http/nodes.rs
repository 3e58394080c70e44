//! `/api/nodes`: what nodes there are. Answers 202, as the original does.

use axum::http::StatusCode;
use contract::query::{Answer as Told, Query};

use super::respond::{self, Answer, Refused};
use super::router::Verb;
use super::{Api, Call};
use crate::{queries, view};

/// Answers a request.
pub async fn call(api: &Api, call: &Call) -> Answer {
    match call.verb {
        Verb::Get => get(api).await,
        Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => Err(Refused::unsupported(call.verb.word())),
    }
}

async fn get(api: &Api) -> Answer {
    let reply = api.queries.ask(&Query::Nodes).await?;
    let Told::Nodes(nodes) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok(respond::stale(respond::json(StatusCode::ACCEPTED, &view::nodes(nodes)), reply.stale))
}
