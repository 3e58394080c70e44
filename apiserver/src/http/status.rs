//! `/api/status`: the scheduling switch.
//!
//! Console polls it before every action, so GET is one short query that never fails: without an answer it returns the last
//! known value, at first `started` (without schedulers every change waits anyway).

use std::collections::BTreeMap;

use axum::http::StatusCode;
use contract::command::Verb;
use contract::lenient_json;
use serde::Deserialize;

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::{Api, Call, writes};

/// `PATCH /api/status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusBody {
    status: String,
}

pub async fn call(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api).await,
        HttpMethod::Patch => patch(api, &call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Delete => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api) -> HttpResult {
    let switches = api.queries.engine().await;
    let (running, stale) =
        switches.map_or_else(|| (api.queries.last_running(), true), |known| (known.engine.running, known.stale));
    let word = if running { "started" } else { "stopped" };
    Ok(respond::stale(respond::json(StatusCode::OK, &BTreeMap::from([("status", word)])), stale))
}

async fn patch(api: &Api, call: &Call) -> HttpResult {
    let wanted: StatusBody = lenient_json::from_slice(&call.body)
        .map_err(|error| Refused::bad_request(format!("Invalid Status params format: {error}")))?;
    let running = match wanted.status.as_str() {
        "start" => true,
        "stop" => false,
        _ => return Err(Refused::bad_request("Invalid Status, it should be start or stop")),
    };
    writes::settle(api, call, Verb::RunEngine { running }).await?;
    Ok(respond::json(StatusCode::ACCEPTED, "Accept"))
}
