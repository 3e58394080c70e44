//! `/api/backup`: all stored keys, page by page. `/api/restore`: uploads such pages and applies them (both ours).
//!
//! A client requests every page at the store revision of the first, so a backup is one snapshot. To restore, it uploads the
//! parts one by one and then commits them.

use axum::http::StatusCode;
use contract::backup::Step;
use contract::command::Verb;
use contract::query::{Answer, Query};

use super::respond::{self, HttpResult, Refused};
use super::router::{HttpMethod, Resource};
use super::writes::{self, Promise};
use super::{Api, Call};
use crate::queries;

pub async fn backup(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => page(api, call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

pub async fn restore(api: &Api, call: &Call) -> HttpResult {
    let step = match call.method {
        HttpMethod::Post => serde_json::from_slice(&call.body)
            .map_err(|error| Refused::bad_request(format!("the body is no step of a restore: {error}")))?,
        HttpMethod::Delete => Step::Abort,
        HttpMethod::Get | HttpMethod::Put | HttpMethod::Patch => return Err(Refused::unsupported(call.method.word())),
    };
    let message = match &step {
        Step::Stage { .. } => "the part is kept aside",
        Step::Finish { .. } => "the backup will be put in place",
        Step::Abort => "the parts are forgotten",
    };
    let promise = Promise { check_url: Resource::Cluster.path().to_owned(), message };
    writes::change(api, call, Verb::Restore { step }, promise).await
}

async fn page(api: &Api, call: &Call) -> HttpResult {
    let revision = match call.params.text("revision") {
        None => None,
        Some(text) => match text.parse::<i64>() {
            Ok(revision) if revision > 0 => Some(revision),
            Ok(_) | Err(_) => return Err(Refused::bad_request("revision: must be a number above 0")),
        },
    };
    let after = call.params.text("after").map(str::to_owned);
    let reply = api.queries.ask(&Query::Backup { revision, after }).await?;
    match reply.answer {
        Answer::Backup(Ok(page)) => Ok(respond::json(StatusCode::OK, &page)),
        // etcd may have compacted the revision: a retry cannot succeed.
        Answer::Backup(Err(reason)) if revision.is_some() => Err(Refused::new(StatusCode::GONE, reason)),
        Answer::Backup(Err(reason)) => Err(Refused::unavailable(reason)),
        _ => Err(queries::Error::Mismatch.into()),
    }
}
