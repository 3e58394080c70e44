//! `/api/status`: whether the engine is started.
//!
//! Console asks before everything it does, so GET is one short question that never fails: without an answer the last
//! one heard stands, and before any `started`, because whatever is asked of a cluster without schedulers waits anyway.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use contract::command::Verb as Change;
use contract::lenient_json;
use serde::Deserialize;

use super::respond::{self, Answer, Refused};
use super::router::Verb;
use super::{Api, Call, writes};

/// `PATCH /api/status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusBody {
    status: String,
}

/// Answers a request.
pub async fn call(api: &Api, call: Call) -> Answer {
    match call.verb {
        Verb::Get => get(api).await,
        Verb::Patch => patch(api, &call).await,
        Verb::Post | Verb::Put | Verb::Delete => Err(Refused::unsupported(call.verb.word())),
    }
}

async fn get(api: &Api) -> Answer {
    let told = api.queries.engine().await;
    let (running, stale) = told.map_or_else(|| (api.queries.last_running(), true), |t| (t.engine.running, t.stale));
    let word = if running { "started" } else { "stopped" };
    Ok(respond::stale(respond::json(StatusCode::OK, &BTreeMap::from([("status", word)])), stale))
}

async fn patch(api: &Api, call: &Call) -> Answer {
    let wanted: StatusBody = lenient_json::from_slice(&call.body)
        .map_err(|error| Refused::bad_request(format!("Invalid Status params format: {error}")))?;
    let running = match wanted.status.as_str() {
        "start" => true,
        "stop" => false,
        _ => return Err(Refused::bad_request("Invalid Status, it should be start or stop")),
    };
    writes::settle(api, call, Change::RunEngine { running }).await?;
    Ok(respond::json(StatusCode::ACCEPTED, "Accept"))
}
