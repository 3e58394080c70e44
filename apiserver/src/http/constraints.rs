//! `/api/constraints`: placement constraints of the whole cluster, one per type.

use axum::http::StatusCode;
use contract::command::Verb;
use contract::query::{Answer, Query};
use contract::switches::Constraint;

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::writes::{self, Promise};
use super::{Api, Call};
use crate::queries;

/// The default type.
const USUAL_TYPE: &str = "node";

pub async fn call(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, &call).await,
        HttpMethod::Patch => patch(api, &call).await,
        HttpMethod::Delete => {
            let kind = call.params.text("type").unwrap_or(USUAL_TYPE).to_owned();
            let promise = promise(&kind, "Constraint will be deleted from the orc engine.");
            writes::change(api, &call, Verb::RemoveConstraint { kind }, promise).await
        }
        HttpMethod::Post | HttpMethod::Put => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let kind = call.params.text("type").unwrap_or(USUAL_TYPE);
    let reply = api.queries.ask(&Query::Constraints).await?;
    let Answer::Constraints(all) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let found = all.into_iter().find(|constraint| constraint.kind == kind);
    let found = found.ok_or_else(|| Refused::not_found("No constraint found").stale(reply.stale))?;
    Ok(respond::stale(respond::json(StatusCode::OK, &found), reply.stale))
}

async fn patch(api: &Api, call: &Call) -> HttpResult {
    let text = |name: &str| call.params.text(name).map(str::to_owned);
    let kind = text("type").ok_or_else(|| Refused::bad_request("constraint type required"))?;
    let value = text("value").ok_or_else(|| Refused::bad_request("constraint value required"))?;
    let (equal, soft) = (call.params.boolean("equal", false), call.params.boolean("soft", true));
    let promise = promise(&kind, "Constraints will be patched");
    let constraint = Constraint { kind, equal, value, soft };
    writes::change(api, call, Verb::SetConstraint { constraint }, promise).await
}

fn promise(kind: &str, message: &'static str) -> Promise {
    Promise { check_url: format!("/api/constraints?type={kind}"), message }
}
