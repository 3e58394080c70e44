//! Responses in the original's format: two-space JSON with a final newline; errors as `{"message", "data"}`, where `data`
//! repeats the message unless the router refused.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use contract::api::Failure;
use contract::command::Refusal;
use contract::validate::{Flaw, sentence};
use serde::Serialize;

use super::router::Resource;
use crate::peers::Full;

/// Marks answers of a standby, given while there is no leader.
pub const STALE: HeaderName = HeaderName::from_static("deployd-stale");

/// `unknown` in an error answer when the change may still take effect.
pub const OUTCOME: HeaderName = HeaderName::from_static("deployd-outcome");

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Most flaws listed in one message; a body may have ten thousand.
const MOST_FLAWS: usize = 50;

pub type HttpResult = Result<Response, Refused>;

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub status: StatusCode,
    /// The problem and the remedy.
    pub message: String,
    /// Refused by the router: `data` is empty.
    by_router: bool,
    /// `Retry-After` in seconds.
    retry_after: Option<u32>,
    /// Answered by a standby.
    stale: bool,
    /// The body is plain text instead of JSON.
    plain: bool,
    /// It is unknown whether the change was accepted.
    is_unknown: bool,
    /// The leader refused a command.
    is_decided: bool,
}

impl Refused {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            by_router: false,
            retry_after: None,
            stale: false,
            plain: false,
            is_unknown: false,
            is_decided: false,
        }
    }
    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
    /// 400 with the first 50 flaws.
    pub fn flawed(what: &str, flaws: &[Flaw]) -> Self {
        let listed = sentence(&flaws[..flaws.len().min(MOST_FLAWS)]);
        Self::bad_request(match flaws.len().saturating_sub(MOST_FLAWS) {
            0 => format!("{what}: {listed}"),
            more => format!("{what}: {listed}; and {more} more"),
        })
    }
    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
    /// 405 for a method that the resource does not implement.
    pub fn unsupported(word: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("{word} method is not supported"))
    }
    /// 503 with `Retry-After`.
    pub fn unavailable(message: impl Into<String>) -> Self {
        // A failover takes 5 to 8 s; most other outages of the bus are shorter.
        Self { retry_after: Some(2), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }
    /// 503 for a change that was sent but not confirmed: it may still take effect.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { is_unknown: true, ..Self::unavailable(message) }
    }
    /// 503 of an overloaded server, with `Retry-After`.
    pub fn busy(message: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }
    /// 429 at the limit of a peer, 503 at the limit of all peers together.
    pub fn too_many(what: &str, full: Full) -> Self {
        let (status, message) = match full {
            Full::Peer => (
                StatusCode::TOO_MANY_REQUESTS,
                format!("too many {what} of this address; wait until some have ended, or use another apiserver"),
            ),
            Full::All => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("too many {what}; try again in a moment, or use another apiserver"),
            ),
        };
        Self { retry_after: Some(1), ..Self::new(status, message) }
    }
    /// 429 for a client that did something too often, with `Retry-After`.
    pub fn too_often(message: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }
    #[must_use]
    pub fn stale(self, stale: bool) -> Self {
        Self { stale, ..self }
    }
    /// 403 while the read-only switch is on: the only error in plain text.
    pub fn read_only() -> Self {
        Self { plain: true, ..Self::new(StatusCode::FORBIDDEN, Refusal::ReadOnly.to_string()) }
    }
    /// The leader refused the command, which is in the audit log.
    #[must_use]
    pub fn decided(self) -> Self {
        Self { is_decided: true, ..self }
    }
    /// Whether this apiserver refused the request, and not the leader or the read-only switch.
    pub fn is_by_apiserver(&self) -> bool {
        !self.is_decided && !self.plain
    }
    /// Whether the change may still take effect.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }
    pub fn by_router(status: StatusCode, message: &str) -> Self {
        Self { by_router: true, ..Self::new(status, message) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        if self.plain {
            return plain(self.status, self.message);
        }
        let data = if self.by_router { String::new() } else { self.message.clone() };
        let mut response = json(self.status, &Failure { message: self.message, data });
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.is_unknown {
            response.headers_mut().insert(OUTCOME, HeaderValue::from_static("unknown"));
        }
        stale(response, self.stale)
    }
}

fn plain(status: StatusCode, message: String) -> Response {
    let mut response = Response::new(Body::from(message + "\n"));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// Truncates text of a client.
pub fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(200).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    cut
}

/// A JSON answer.
pub fn json<T: Serialize + ?Sized>(status: StatusCode, body: &T) -> Response {
    let (status, text) = match serde_json::to_string_pretty(body) {
        Ok(text) => (status, escaped(without_empty_log_options(text))),
        // Our types always serialize; if one ever failed, the client still gets an answer.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{{\"message\": {:?}}}", error.to_string())),
    };
    let mut response = Response::new(Body::from(text + "\n"));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Marks an answer of a standby.
pub fn stale(mut response: Response, stale: bool) -> Response {
    if stale {
        response.headers_mut().insert(STALE, HeaderValue::from_static("true"));
    }
    response
}

/// The answer to OPTIONS.
pub fn options(resource: Resource) -> Response {
    let mut response = Response::new(Body::empty());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(resource.allow()));
    response
}

/// The answer to an unknown method.
pub fn method_not_allowed(resource: Resource) -> Response {
    let mut response = Refused::by_router(StatusCode::METHOD_NOT_ALLOWED, "Method is not allowed").into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(resource.allow()));
    response
}

/// Redirects to the canonical path: 301 for GET, 307 for methods with a body.
pub fn redirect(method: &Method, path: &str, query: Option<&str>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() =
        if *method == Method::GET { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT };
    let target = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    // A query from a URI is a valid header value; if not, redirect without the query.
    let target = HeaderValue::try_from(target).or_else(|_| HeaderValue::try_from(path));
    if let Ok(target) = target {
        response.headers_mut().insert(LOCATION, target);
    }
    response
}

/// Empty options of a log driver are `"Config": null`, as in the original. Stored specs keep `{}`: their digests must not
/// change, and older schedulers cannot decode `null`. Quotes inside strings are escaped, so this matches only the field.
fn without_empty_log_options(text: String) -> String {
    const EMPTY: &str = "\"Config\": {}";
    if text.contains(EMPTY) { text.replace(EMPTY, "\"Config\": null") } else { text }
}

/// Escapes HTML characters like Go's JSON encoder; they occur only inside strings.
fn escaped(text: String) -> String {
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_keep_the_query_and_the_method() {
        let location = |r: &Response| r.headers()[LOCATION].to_str().unwrap().to_owned();
        let get = redirect(&Method::GET, "/api/nodes", Some("a=1&b=%20"));
        assert_eq!((get.status().as_u16(), location(&get).as_str()), (301, "/api/nodes?a=1&b=%20"));
        let patch = redirect(&Method::PATCH, "/api/nodes", None);
        assert_eq!((patch.status().as_u16(), location(&patch).as_str()), (307, "/api/nodes"));
    }

    #[test]
    fn html_is_escaped_like_go_does() {
        assert_eq!(escaped("\"a<b>&c\"".to_owned()), "\"a\\u003cb\\u003e\\u0026c\"");
        assert_eq!(escaped("plain".to_owned()), "plain");
    }

    #[test]
    fn a_log_driver_without_options_is_shown_as_the_original_does() {
        let shown = |value| without_empty_log_options(serde_json::to_string_pretty(&value).unwrap());
        let spec = serde_json::json!({"LogConfig": {"Type": "", "Config": {}}, "Annotation": "\"Config\": {}"});
        let expected = serde_json::json!({"LogConfig": {"Type": "", "Config": null}, "Annotation": "\"Config\": {}"});
        assert_eq!(shown(spec), serde_json::to_string_pretty(&expected).unwrap());
        let options = serde_json::json!({"Config": {"max-size": "10m"}});
        assert_eq!(shown(options.clone()), serde_json::to_string_pretty(&options).unwrap());
    }

    #[test]
    fn data_repeats_the_message_unless_the_router_refused() {
        assert!(!Refused::bad_request("x").by_router);
        assert!(Refused::by_router(StatusCode::NOT_FOUND, "Page not found").by_router);
        assert_eq!(Refused::unsupported("Get").message, "Get method is not supported");
    }
}
