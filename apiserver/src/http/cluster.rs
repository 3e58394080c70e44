//! `/api/cluster`: the leader, totals, and the answering apiserver (ours).

use axum::http::StatusCode;
use contract::query::{Answer, QuarantinedKind, Query};

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::visible::{self, VisibleGroups};
use super::{Api, Call};
use crate::{queries, view};

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let reply = api.queries.ask(&Query::Cluster).await?;
    let Answer::Cluster(mut cluster) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    if !cluster.quarantined.is_empty() {
        let visible = visible::groups(api, &call.client).await?;
        cluster.quarantined.retain(|quarantined| match quarantined.kind {
            QuarantinedKind::Group => visible.contains(&quarantined.name),
            QuarantinedKind::Dependency => visible == VisibleGroups::All,
            QuarantinedKind::Node => true,
        });
    }
    Ok(respond::stale(respond::json(StatusCode::OK, &view::cluster(&api.name, cluster)), reply.stale))
}
