//! The HTTP handlers. [`entry`] takes every request: it routes, identifies the client, reads parameters, calls the resource and
//! counts.
//!
//! A client gets an answer even when a handler panics or hangs.

pub mod access;
pub mod audience;
pub mod audit;
pub mod backups;
pub mod body;
pub mod browser;
pub mod cluster;
pub mod constraints;
pub mod deadletters;
pub mod depends;
pub mod engine;
pub mod events;
pub mod form;
pub mod guard;
pub mod history;
pub mod join;
pub mod logs;
pub mod node;
pub mod nodes;
pub mod notifies;
pub mod operations;
pub mod params;
pub mod podgroups;
pub mod policies;
pub mod ports;
pub mod redact;
pub mod renamed;
pub mod respond;
pub mod rollout_commands;
pub mod rollouts;
pub mod router;
pub mod status;
pub mod tokens;
pub mod visible;
pub mod writes;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use contract::access::{binding, routes};
use futures_util::FutureExt;

use crate::access::{Access, Client, peer_text};
use crate::commands::Commands;
use crate::debug_vars::{DebugVars, Hit};
use crate::listen::Peer;
use crate::metrics::{self, Metrics};
use crate::queries::{self, Queries};
use crate::rates::Rates;
use crate::read_only::ReadOnlySwitch;
use crate::refused::RefusedLog;
use crate::sessions::Sessions;
use crate::streams::Streams;
use params::Params;
use respond::{HttpResult, Refused};
use router::{HttpMethod, Resource, Route};

/// Longer than all our deadlines together, so only a defect reaches it.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);

/// Shared by all handlers.
#[derive(Debug)]
pub struct Api {
    pub name: String,
    pub commands: Commands,
    pub queries: Queries,
    pub read_only: ReadOnlySwitch,
    pub debug_vars: DebugVars,
    pub metrics: Metrics,
    pub streams: Streams,
    pub sessions: Sessions,
    pub callback_policy: fabric::callback::Policy,
    pub access: Access,
    pub join: join::Offer,
    pub rates: Rates,
    pub refused: RefusedLog,
}

/// One request.
#[derive(Debug)]
pub struct Call {
    pub method: HttpMethod,
    pub resource: Resource,
    /// From the query string and a form body.
    pub params: Params,
    /// The connection it came on.
    pub peer: Peer,
    /// Who sent it. Its token is not among the headers any more.
    pub client: Client,
    pub headers: HeaderMap,
    /// Empty for methods without a body.
    pub body: Bytes,
    /// The name in a path like `/api/nodes/{name}`.
    pub rest: String,
    /// The body was a form, so its content is in `params`.
    pub consumed: bool,
}

/// Answers every request except the admin routes.
pub async fn entry(State(api): State<Arc<Api>>, request: Request) -> Response {
    let started = Instant::now();
    let route = router::route(request.method(), request.uri().path());
    let (path, method) = labels(&route, request.method());
    // On the heap: the future of all handlers together has 16 KiB.
    let response = guarded(Box::pin(serve(&api, route, request))).await;
    let status = response.status().as_u16();
    api.metrics.requests.get_or_create(&metrics::Request { route: path, method, status }).inc();
    let timed = metrics::Timed { route: path, method };
    let took = started.elapsed();
    api.metrics.latency.get_or_create(&timed).observe(took.as_secs_f64());
    if path != Resource::DebugVars.path() {
        api.debug_vars.count(Hit { path, status, took });
    }
    tracing::debug!(path, method, status, "request answered");
    response
}

/// Answers 500 when `work` panics and 503 when it hangs.
async fn guarded(work: impl Future<Output = Response>) -> Response {
    match AssertUnwindSafe(tokio::time::timeout(LONGEST_REQUEST, work)).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            tracing::error!("a request took too long");
            Refused::unavailable("the request took too long").into_response()
        }
        Err(_) => {
            tracing::error!("a request handler panicked");
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error").into_response()
        }
    }
}

async fn serve(api: &Api, route: Route, request: Request) -> Response {
    let peer = guard::peer(request.extensions()).await;
    let (mut principal, line) = (String::new(), request_line(&route));
    match answer(api, route, request, (peer, &mut principal)).await {
        Ok(response) => response,
        Err(refused) => {
            if refused.is_by_apiserver() {
                api.refused.note((peer_text(peer), principal), line, refused.status);
            }
            refused.into_response()
        }
    }
}

/// Method and path of a request, as far as it is known: strangers choose paths.
pub fn request_line(route: &Route) -> String {
    match route {
        Route::Call(resource, method) => format!("{} {}", method.method(), resource.path()),
        Route::Head | Route::Options(_) | Route::NotAllowed(_) | Route::Redirect(_) | Route::Unknown => {
            "other".to_owned()
        }
    }
}

/// Answers a request. `principal` is set to the owner of its token.
async fn answer(
    api: &Api,
    route: Route,
    request: Request,
    (peer, principal): (binding::Peer, &mut String),
) -> HttpResult {
    let client = match guard::admit(api, &route, request.headers(), (peer, principal)).await {
        Ok(client) => client,
        Err(refused) => return guard::refuse(request, refused).await,
    };
    if is_change(&route, &request) && api.read_only.is_on().await {
        return guard::refuse(request, Refused::read_only()).await;
    }
    Ok(match (route, client) {
        (Route::Call(resource, method), Some(client)) => return call(api, (resource, method), client, request).await,
        (Route::Head, _) => Refused::unsupported("Head").into_response(),
        (Route::Options(resource), _) => respond::options(resource),
        (Route::NotAllowed(resource), _) => respond::method_not_allowed(resource),
        (Route::Redirect(path), _) => respond::redirect(request.method(), path, request.uri().query()),
        (Route::Unknown | Route::Call(..), _) => {
            Refused::by_router(StatusCode::NOT_FOUND, "Page not found").into_response()
        }
    })
}

/// Whether the read-only switch applies: to everything except GET, OPTIONS, redirects, plans, `/api/engine` and what takes access
/// away.
fn is_change(route: &Route, request: &Request) -> bool {
    match route {
        Route::Options(_) | Route::Redirect(_) | Route::Call(Resource::Plan, HttpMethod::Post) => false,
        Route::Call(resource, method) if routes::passes_read_only(method.method(), resource.path()) => false,
        Route::Call(..) | Route::Head | Route::NotAllowed(_) | Route::Unknown => {
            ![Method::GET, Method::OPTIONS].contains(request.method())
                && !request.uri().path().starts_with(router::ALWAYS_OPEN)
        }
    }
}

async fn call(api: &Api, (resource, method): (Resource, HttpMethod), client: Client, request: Request) -> HttpResult {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(AUTHORIZATION);
    let body = if method.has_body() { paid_body(api, &client, (&parts.headers, body)).await? } else { Bytes::new() };
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let form = if method.has_body() { form::read(content_type, body.clone()).await } else { None };
    let consumed = form.is_some();
    let params = Params::new(parts.uri.query(), form.unwrap_or_default());
    let rest = router::rest(parts.uri.path()).to_owned();
    let peer = parts.extensions.get::<Peer>().cloned().unwrap_or_else(|| Peer::of_user(None));
    let call = Call { method, resource, params, peer, client, headers: parts.headers, body, rest, consumed };
    if !resource.implements(method) {
        return Err(Refused::unsupported(method.word()));
    }
    match resource {
        Resource::PodGroups => podgroups::call(api, call).await,
        Resource::Depends => depends::call(api, call).await,
        Resource::Nodes => nodes::call(api, call).await,
        Resource::Node => node::call(api, &call).await,
        Resource::Status => status::call(api, call).await,
        Resource::EngineConfig => engine::config(api, call).await,
        Resource::Maintenance => engine::maintenance(api, call).await,
        Resource::Guard => engine::guard(api, call).await,
        Resource::Constraints => constraints::call(api, call).await,
        Resource::DebugVars => Ok(respond::json(StatusCode::OK, &api.debug_vars.page())),
        Resource::Notifies => notifies::call(api, call).await,
        Resource::Operations => operations::call(api, &call).await,
        Resource::Cluster => cluster::call(api, &call).await,
        Resource::Ports => ports::call(api, &call).await,
        Resource::History => history::call(api, &call).await,
        Resource::Events => events::call(api, &call).await,
        Resource::Logs => logs::call(api, &call).await,
        Resource::DeadLetters => deadletters::call(api, &call).await,
        Resource::Rollouts => rollouts::rollouts(api, &call).await,
        Resource::Revisions => rollouts::revisions(api, &call).await,
        Resource::Plan => rollouts::plan(api, &call).await,
        Resource::Backup => backups::backup(api, &call).await,
        Resource::Restore => backups::restore(api, &call).await,
        Resource::Policies => policies::call(api, &call).await,
        Resource::Tokens => tokens::call(api, &call).await,
        Resource::JoinTokens => join::tokens(api, &call).await,
        Resource::Join => join::join(api, &call).await,
        Resource::Access => access::call(api, &call).await,
        Resource::Audit => audit::call(api, &call).await,
    }
}

/// Reads the body of a client that has bytes left.
async fn paid_body(api: &Api, client: &Client, (headers, body): (&HeaderMap, Body)) -> Result<Bytes, Refused> {
    let payer = client.payer();
    let is_allowed = api.rates.body(&payer);
    let read = body::read(headers, body).await;
    is_allowed?;
    let read = read?;
    api.rates.count_bytes(&payer, read.len());
    Ok(read)
}

fn labels(route: &Route, method: &Method) -> (&'static str, &'static str) {
    match route {
        Route::Call(resource, method) => (resource.path(), method.word()),
        Route::Head | Route::Options(_) | Route::NotAllowed(_) | Route::Redirect(_) | Route::Unknown => {
            ("other", if *method == Method::GET { HttpMethod::Get.word() } else { "other" })
        }
    }
}

impl From<fabric::nats::Error> for Refused {
    fn from(error: fabric::nats::Error) -> Self {
        tracing::warn!(%error, "could not read the stream");
        Self::unavailable(format!("{error}; try again in a moment"))
    }
}

impl From<queries::Error> for Refused {
    fn from(error: queries::Error) -> Self {
        tracing::warn!(%error, "the query failed");
        Self::unavailable(format!("{error}; try again in a moment"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_gets_an_answer_when_the_handler_panics_or_hangs() {
        let panics = guarded(async { panic!("a fault") }).await;
        assert_eq!(panics.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let hangs = guarded(std::future::pending()).await;
        assert_eq!(hangs.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
