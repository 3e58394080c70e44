//! `/api/operations`: the outcome of a command (ours).

use axum::http::StatusCode;
use contract::name::CommandId;
use contract::query::{Answer, Query};

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
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
    let id = call.params.text("id").ok_or_else(|| Refused::bad_request("No operation id provided."))?;
    let unknown = || Refused::not_found("No such operation, or not decided yet, or decided long ago");
    let id: CommandId = id.parse().map_err(|_| unknown())?;
    let reply = api.queries.ask(&Query::Operation { id }).await?;
    let Answer::Operation(outcome) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let outcome = outcome.ok_or_else(|| unknown().stale(reply.stale))?;
    Ok(respond::stale(respond::json(StatusCode::OK, &view::operation(&outcome)), reply.stale))
}
