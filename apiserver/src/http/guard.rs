//! Admits requests: identifies the client and checks the right of the route, before anything of the request is parsed.
//!
//! Namespaces are checked later: reads by the handlers ([`super::visible`]), changes by the leader.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contract::access::binding::Peer;
use contract::access::{Right, routes};
use contract::command::Refusal;

use super::respond::{HttpResult, Refused};
use super::router::Route;
use super::{Api, body, writes};
use crate::access::{Client, peer_text, source};
use crate::listen;
use crate::rates::Payer;

const METRICS: &str = "/metrics";
const READY: &str = "/readyz";

/// What is known of the client without its token.
pub async fn peer(extensions: &Extensions) -> Peer {
    match extensions.get::<listen::Peer>() {
        Some(peer) => Peer { address: peer.address(), uid: peer.uid().await },
        None => Peer { address: None, uid: None },
    }
}

/// The client of a request that it may send; none for an unknown path, which is 404 for every client. `principal` is set to the
/// owner of its token.
pub async fn admit(
    api: &Api,
    route: &Route,
    headers: &HeaderMap,
    (peer, principal): (Peer, &mut String),
) -> Result<Option<Client>, Refused> {
    if *route == Route::Unknown {
        return Ok(None);
    }
    if let Route::Call(resource, method) = route
        && routes::WITHOUT_CLIENT.contains(&(method.method(), resource.path()))
    {
        api.rates.request(&Payer::Stranger(source(peer)))?;
        return Ok(Some(Client::joining(peer)));
    }
    let identified = api.access.identify(headers, peer).await;
    let payer = identified.as_ref().map_or_else(|_| Payer::Stranger(source(peer)), Client::payer);
    if let Ok(client) = &identified {
        client.proven_name().unwrap_or_default().clone_into(principal);
    }
    api.rates.request(&payer)?;
    let client = identified?;
    if let Route::Call(resource, verb) = route
        && let Some(right) = routes::right_of(verb.method(), resource.path())
    {
        check(&client, right, resource.path())?;
    }
    Ok(Some(client))
}

async fn identify(api: &Api, headers: &HeaderMap, extensions: &Extensions) -> Result<Client, Refused> {
    api.access.identify(headers, peer(extensions).await).await
}

/// Refuses a client that has the right nowhere.
pub fn check(client: &Client, right: Right, object: &str) -> Result<(), Refused> {
    if client.principal.may_somewhere(right) { Ok(()) } else { Err(denied(client, right, object)) }
}

/// 403 with principal, right, object and remedy.
pub fn denied(client: &Client, right: Right, object: &str) -> Refused {
    let (principal, right, object) = (client.principal.name.clone(), right.word().to_owned(), object.to_owned());
    writes::refused(&Refusal::Denied { principal, right, object })
}

/// Refuses a request. Its body is read and ignored: a client that still sends would not see the answer.
pub async fn refuse(request: Request, refused: Refused) -> HttpResult {
    let (parts, body) = request.into_parts();
    let _ = body::read(&parts.headers, body).await;
    Err(refused)
}

/// Guards the routes of health and metrics. Health checks need no client, but only a known one learns why the process is not
/// ready.
pub async fn admin(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    match request.uri().path() {
        METRICS => match monitors(&api, request.headers(), request.extensions()).await {
            Ok(()) => next.run(request).await,
            Err(refused) => {
                let peer = peer_text(peer(request.extensions()).await);
                api.refused.note((peer, String::new()), format!("GET {METRICS}"), refused.status);
                refused.into_response()
            }
        },
        READY => {
            let is_known = api.access.glance(request.headers(), peer(request.extensions()).await).is_some();
            let response = next.run(request).await;
            if is_known { response } else { terse(response.status()) }
        }
        _ => next.run(request).await,
    }
}

async fn monitors(api: &Api, headers: &HeaderMap, extensions: &Extensions) -> Result<(), Refused> {
    let client = identify(api, headers, extensions).await?;
    check(&client, Right::Monitor, METRICS)
}

/// The status without the reason.
fn terse(status: StatusCode) -> Response {
    let text = if status == StatusCode::OK { "ready\n" } else { "not ready\n" };
    (status, Body::from(text)).into_response()
}
