//! `/api/cluster`: the leader, totals, and the answering apiserver (ours).

use axum::http::StatusCode;
use contract::query::{Answer, Query};

use super::respond::{self, HttpResult, Refused};
use super::router::Verb;
use super::{Api, Call};
use crate::{queries, view};

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.verb {
        Verb::Get => get(api).await,
        Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => Err(Refused::unsupported(call.verb.word())),
    }
}

async fn get(api: &Api) -> HttpResult {
    let reply = api.queries.ask(&Query::Cluster).await?;
    let Answer::Cluster(cluster) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok(respond::stale(respond::json(StatusCode::OK, &view::cluster(&api.name, cluster)), reply.stale))
}
