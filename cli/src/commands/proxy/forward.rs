//! Passes one request on to the first apiserver that accepts a connection, and streams both bodies.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderName};
use hyper::{HeaderMap, Request, Response, StatusCode};
use reqwest::{Body, Url};

use crate::api::{Server, Target};

/// Headers that concern one connection, and those that only the proxy itself may set.
const NOT_PASSED: [HeaderName; 9] = [
    header::CONNECTION,
    header::HOST,
    header::ORIGIN,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::FORWARDED,
];
const NOT_PASSED_TEXTS: [&str; 4] = ["keep-alive", "proxy-connection", "sec-fetch-site", "x-forwarded-for"];

/// The answer of an apiserver, or 502 when none accepts a connection or answers.
pub(super) async fn forward(target: &Target, servers: &[Server], request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let headers = passed(&parts.headers);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = Shared(Arc::new(Mutex::new(body)));
    let mut failed = format!("no apiserver answers at {}", target.describe());
    for server in servers {
        let Ok(url) = joined(&server.base, path) else {
            return super::refusal(StatusCode::BAD_REQUEST, "the path of the request cannot be passed on");
        };
        let token = target.credential.as_ref().and_then(|credential| credential.header(&server.url));
        let mut request = server.client.request(parts.method.clone(), url).headers(headers.clone());
        if let Some(token) = token.filter(|_| !headers.contains_key(header::AUTHORIZATION)) {
            request = request.header(header::AUTHORIZATION, token);
        }
        match request.body(Body::wrap(body.clone())).send().await {
            Ok(response) => return answered(response.into()),
            // Nothing was sent, so the next one may get the request.
            Err(error) if error.is_connect() => {}
            Err(_) => {
                failed = format!("{} did not answer, and may have accepted the request", target.describe());
                break;
            }
        }
    }
    super::refusal(StatusCode::BAD_GATEWAY, &failed)
}

fn answered(mut response: Response<Body>) -> Response<Body> {
    let headers = passed(response.headers());
    *response.headers_mut() = headers;
    response
}

/// The path below the URL of the API. The path is taken as it is, so that the apiserver sees what the client sent.
fn joined(base: &Url, path: &str) -> Result<Url, ()> {
    let text = format!("{}{path}", base.as_str().trim_end_matches('/'));
    // A path cannot change the server that the token is for.
    Url::parse(&text).ok().filter(|url| path.starts_with('/') && url.origin() == base.origin()).ok_or(())
}

/// The headers for the other side: without those of one connection.
fn passed(headers: &HeaderMap) -> HeaderMap {
    let mut passed = headers.clone();
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|text| text.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    for name in NOT_PASSED.iter().chain(&named) {
        passed.remove(name);
    }
    for name in NOT_PASSED_TEXTS {
        passed.remove(name);
    }
    passed
}

/// The body of a request. An attempt that found no connection has read nothing of it, so the next attempt can send it.
#[derive(Clone)]
struct Shared(Arc<Mutex<Incoming>>);

impl Shared {
    fn with<T>(&self, use_it: impl FnOnce(&mut Incoming) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl hyper::body::Body for Shared {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.with(|body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_connection_are_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("host", "127.0.0.1:9003"),
            ("transfer-encoding", "chunked"),
            ("x-forwarded-for", "10.0.0.1"),
            ("idempotency-key", "k"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let names: Vec<String> = passed(&headers).keys().map(ToString::to_string).collect();
        assert_eq!(names, ["idempotency-key"]);
    }

    #[test]
    fn a_path_stays_at_the_server_of_the_token() {
        let base: Url = "https://api.example:9003/base/".parse().unwrap();
        assert_eq!(
            joined(&base, "/api/nodes?a=%2F").unwrap().as_str(),
            "https://api.example:9003/base/api/nodes?a=%2F"
        );
        let bare: Url = "https://api.example".parse().unwrap();
        for path in ["@evil.test/", ".evil.test/", ":1/", "", "evil"] {
            assert_eq!(joined(&bare, path), Err(()), "{path:?}");
        }
        assert_eq!(joined(&bare, "//evil.test/x").unwrap().host_str(), Some("api.example"));
    }
}
