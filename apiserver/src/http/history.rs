//! `/api/cntstatushistory`: when the containers of an instance started and stopped.

use axum::http::StatusCode;
use contract::name::GroupName;
use contract::query::{Answer, Query};

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::{Api, Call, visible};
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
    let name = call.params.text("name").ok_or_else(|| Refused::bad_request("No pod group name provided."))?;
    let instance = call.params.integer("instance", -1);
    if instance == -1 {
        return Err(Refused::bad_request("No pod instance provided."));
    }
    // An invalid name or number counts as unknown: an empty history.
    let (Ok(name), Ok(instance)) = (name.parse::<GroupName>(), u32::try_from(instance)) else {
        return Ok(respond::json(StatusCode::OK, &view::history(Vec::new())));
    };
    if let Some(hidden) = visible::hidden(api, &call.client, &name).await? {
        return Ok(respond::stale(respond::json(StatusCode::OK, &view::history(Vec::new())), hidden.stale));
    }
    let reply = api.queries.ask(&Query::History { name, instance }).await?;
    let Answer::History(events) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok(respond::stale(respond::json(StatusCode::OK, &view::history(events)), reply.stale))
}
