//! `/api/nodes`: lists nodes (with 202, as the original) and moves instances off them.
//!
//! Unknown names are accepted without effect, as in the original; only invalid names and invalid instance numbers are
//! refused.

use axum::http::StatusCode;
use contract::command::{Drift, Verb};
use contract::name;
use contract::query::{Answer, Query};
use serde::Serialize;

use super::respond::{self, HttpResult, Refused, shown};
use super::router::HttpMethod;
use super::{Api, Call, writes};
use crate::{queries, view};

const NO_NODE: &str = "from node name required";
/// Stands for every instance.
const ALL: i64 = -1;

/// The answer to an accepted drift; fields in alphabetical order, as in the original.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Drifting<'a> {
    force_drift: bool,
    from: &'a str,
    message: &'static str,
    operation: String,
    pg_instance: i64,
    pg_name: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    queued: bool,
    to: &'a str,
}

/// The answer to an accepted evacuation.
#[derive(Debug, Serialize)]
struct Evacuating<'a> {
    message: &'static str,
    node: &'a str,
    operation: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    queued: bool,
}

pub async fn call(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api).await,
        HttpMethod::Patch => drift(api, &call).await,
        HttpMethod::Delete => evacuate(api, &call).await,
        HttpMethod::Post | HttpMethod::Put => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api) -> HttpResult {
    let reply = api.queries.ask(&Query::Nodes).await?;
    let Answer::Nodes(nodes) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok(respond::stale(respond::json(StatusCode::ACCEPTED, &view::nodes(nodes)), reply.stale))
}

async fn drift(api: &Api, call: &Call) -> HttpResult {
    let text = |name: &str| call.params.text(name).unwrap_or_default();
    let (from, to, group) = (text("from"), text("to"), text("pg"));
    if from.is_empty() {
        return Err(Refused::bad_request(NO_NODE));
    }
    if from == to {
        return Err(Refused::bad_request("from node equals to target node"));
    }
    let command = text("cmd");
    if command != "drift" {
        return Err(Refused::bad_request(format!("Unkown command {}", shown(command))));
    }
    let number = call.params.integer("pg_instance", ALL);
    let drift = Drift {
        from: named("from", from)?,
        to: (!to.is_empty()).then(|| named("to", to)).transpose()?,
        force: call.params.boolean("force", false),
        instance: instance(number)?,
    };
    let force_drift = drift.force;
    let change = Verb::Drift { drift, group: (!group.is_empty()).then(|| named("pg", group)).transpose()? };
    let settled = writes::settle(api, call, change).await?;
    let body = Drifting {
        force_drift,
        from,
        message: "PodGroups will be drifting",
        operation: settled.id.to_string(),
        pg_instance: number,
        pg_name: group,
        queued: settled.queued,
        to,
    };
    Ok(respond::json(StatusCode::ACCEPTED, &body))
}

async fn evacuate(api: &Api, call: &Call) -> HttpResult {
    let node = call.params.text("node").ok_or_else(|| Refused::bad_request(NO_NODE))?;
    let change = Verb::Evacuate { node: named("node", node)? };
    let settled = writes::settle(api, call, change).await?;
    let body = Evacuating {
        message: "containers in node will be drift",
        node,
        operation: settled.id.to_string(),
        queued: settled.queued,
    };
    Ok(respond::json(StatusCode::ACCEPTED, &body))
}

/// The instance; none means all of them.
fn instance(number: i64) -> Result<Option<u32>, Refused> {
    if number == ALL {
        return Ok(None);
    }
    let one = u32::try_from(number).ok().filter(|number| *number > 0);
    let bad =
        || Refused::bad_request(format!("Bad parameter for pg_instance, should be > 0, or -1 for all, but {number}"));
    one.map(Some).ok_or_else(bad)
}

fn named<N: std::str::FromStr<Err = name::Error>>(parameter: &str, text: &str) -> Result<N, Refused> {
    text.parse().map_err(|error| Refused::bad_request(format!("Bad parameter for {parameter}: {error}")))
}
