//! `/api/access` (ours): whether clients must prove who they are, and what the client may do.

use axum::http::StatusCode;
use contract::access::Right;
use contract::access::table::{AccessPatch, AccessView};
use contract::command::Verb;

use super::respond::{self, HttpResult, Refused};
use super::router::{HttpMethod, Resource};
use super::writes::{self, Promise};
use super::{Api, Call};

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => Ok(respond::json(StatusCode::OK, &view(api, call))),
        HttpMethod::Patch => patch(api, call).await,
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Delete => Err(Refused::unsupported(call.method.word())),
    }
}

fn view(api: &Api, call: &Call) -> AccessView {
    let principal = &call.client.principal;
    let is_admin = principal.may(Right::Administer, None);
    AccessView {
        enforced: api.access.is_enforced(),
        principal: principal.name.clone(),
        bindings: principal.bindings.clone(),
        anonymous: if is_admin { api.access.anonymous().to_vec() } else { Vec::new() },
    }
}

async fn patch(api: &Api, call: &Call) -> HttpResult {
    let AccessPatch { enforced } = serde_json::from_slice(&call.body).map_err(|error| {
        Refused::bad_request(format!("the body should be JSON such as {{\"Enforced\": true}}: {error}"))
    })?;
    let settled = writes::settle(api, call, Verb::EnforceAccess { enforced }).await?;
    api.access.refresh().await;
    let message = match enforced {
        true => "Clients must prove who they are.",
        false => "Every client that reaches the API may do everything.",
    };
    Ok(writes::accepted(&settled, Promise { check_url: Resource::Access.path().to_owned(), message }))
}
