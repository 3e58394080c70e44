//! `/api/ports`: claimed stream ports, and whether given ports are free.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use contract::api::PortsToValidate;
use contract::lenient_json;
use contract::query::{Answer, PortClaim, Query};

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::{Api, Call};
use crate::{queries, view};

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, call).await,
        HttpMethod::Post => validate(api, call).await,
        HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let (mut claims, stale) = claims(api).await?;
    claims.retain(|claim| call.client.reads(&claim.namespace));
    Ok(respond::stale(respond::json(StatusCode::OK, &view::stream_procs(claims)), stale))
}

async fn validate(api: &Api, call: &Call) -> HttpResult {
    if call.params.text("cmd") != Some("validate") {
        return Err(Refused::bad_request("Unknown request!"));
    }
    let asked: PortsToValidate = lenient_json::from_slice(&call.body)
        .map_err(|error| Refused::bad_request(format!("Invalid ports params format: {error}")))?;
    if let Some(wrong) = asked.ports.iter().find(|port| !(1..=65_535).contains(*port)) {
        let message = format!("Invalid ports params format: Ports: {wrong} is not a port 1..65535");
        return Err(Refused::bad_request(message));
    }
    let (claims, stale) = claims(api).await?;
    let taken: BTreeSet<i64> = claims.iter().map(|claim| i64::from(claim.port.srcport)).collect();
    let conflicts: Vec<String> = asked.ports.iter().filter(|port| taken.contains(port)).map(i64::to_string).collect();
    if !conflicts.is_empty() {
        let message = format!("Conflicted ports: [{}]", conflicts.join(" "));
        return Err(Refused::bad_request(message).stale(stale));
    }
    Ok(respond::stale(respond::json(StatusCode::OK, &()), stale))
}

async fn claims(api: &Api) -> Result<(Vec<PortClaim>, bool), Refused> {
    let reply = api.queries.ask(&Query::Ports).await?;
    let Answer::Ports(claims) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok((claims, reply.stale))
}
