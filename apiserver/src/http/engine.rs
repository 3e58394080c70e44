//! The switches: `/api/engine/config` and `/api/engine/maintenance` (read-only, maintenance), `/api/guard` (replace missing
//! instances).
//!
//! The leader stores them, so all apiservers share them. A change of the configuration is answered with the new
//! configuration, queried after the change took effect.

use axum::http::StatusCode;
use contract::command::Verb;
use contract::lenient_json;
use contract::query::{Answer, Query};
use serde::{Deserialize, Serialize};

use super::respond::{self, HttpResult, Refused};
use super::router::{HttpMethod, Resource};
use super::writes::{self, Promise};
use super::{Api, Call};
use crate::queries;

/// `GET /api/engine/config`.
#[derive(Debug, Serialize)]
struct Config {
    readonly: bool,
    maintenance: bool,
}

/// `PATCH /api/engine/config`: an absent switch stays as it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Partial {
    readonly: Option<bool>,
    maintenance: Option<bool>,
}

#[derive(Debug, Serialize)]
struct GuardBody {
    guard: &'static str,
}

#[derive(Debug, Serialize)]
struct Switched {
    successed: &'static str,
}

pub async fn config(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => show(api).await,
        HttpMethod::Patch => {
            let body: Partial = lenient_json::from_slice(&call.body)
                .map_err(|error| Refused::bad_request(format!("Invalid Engine Config params format: {error}")))?;
            configure(api, &call, body).await
        }
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Delete => Err(Refused::unsupported(call.method.word())),
    }
}

pub async fn maintenance(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Patch => {
            let on = call.params.boolean("on", false);
            configure(api, &call, Partial { readonly: None, maintenance: Some(on) }).await
        }
        HttpMethod::Get | HttpMethod::Post | HttpMethod::Put | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

pub async fn guard(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => {
            let reply = api.queries.ask(&Query::Engine).await?;
            let Answer::Engine(engine) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
            let guard = if engine.guarding { "working" } else { "sleeping" };
            Ok(respond::stale(respond::json(StatusCode::OK, &GuardBody { guard }), reply.stale))
        }
        HttpMethod::Post => {
            let working = call.params.boolean("work", false);
            switch_guard(api, &call, working).await
        }
        HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => Err(Refused::unsupported(call.method.word())),
    }
}

async fn configure(api: &Api, call: &Call, Partial { readonly, maintenance }: Partial) -> HttpResult {
    let settled = writes::settle(api, call, Verb::Configure { readonly, maintenance }).await;
    api.read_only.invalidate();
    let settled = settled?;
    if settled.queued {
        // Queued without a leader: the result is not known yet.
        let check_url = Resource::EngineConfig.path().to_owned();
        let promise = Promise { check_url, message: "engine config will be patched" };
        return Ok(writes::accepted(&settled, promise));
    }
    show(api).await
}

async fn show(api: &Api) -> HttpResult {
    let reply = api.queries.ask(&Query::Engine).await?;
    let Answer::Engine(engine) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let config = Config { readonly: engine.readonly, maintenance: engine.maintenance };
    Ok(respond::stale(respond::json(StatusCode::OK, &config), reply.stale))
}

/// Always 200, as in the original; a change that was not stored is answered `Failed`.
async fn switch_guard(api: &Api, call: &Call, working: bool) -> HttpResult {
    let successed = match writes::settle(api, call, Verb::Guard { working }).await {
        Ok(_) => "OK",
        Err(refused) if refused.status == StatusCode::SERVICE_UNAVAILABLE => "Failed",
        Err(refused) => return Err(refused),
    };
    Ok(respond::json(StatusCode::OK, &Switched { successed }))
}
