//! `/api/cluster`: the leader, totals, and the answering apiserver (ours).

use axum::http::StatusCode;
use contract::query::{Answer as QueryAnswer, Query};

use super::respond::{self, Answer, Refused};
use super::router::Verb;
use super::{Api, Call};
use crate::{queries, view};

pub async fn call(api: &Api, call: &Call) -> Answer {
    match call.verb {
        Verb::Get => get(api).await,
        Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => Err(Refused::unsupported(call.verb.word())),
    }
}

async fn get(api: &Api) -> Answer {
    let reply = api.queries.ask(&Query::Cluster).await?;
    let QueryAnswer::Cluster(cluster) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok(respond::stale(respond::json(StatusCode::OK, &view::cluster(&api.name, cluster)), reply.stale))
}
