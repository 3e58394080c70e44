//! Writes answers the way deployd's clients read them: two-space JSON with a final newline, errors as
//! `{"message", "data"}` where `data` repeats the message unless the router itself refused.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use contract::api::Failure;
use contract::command::Refusal;
use contract::validate::{Flaw, sentence};
use serde::Serialize;

use super::router::Resource;
use crate::peers::Full;

/// Header of answers that a standby gave because nobody leads.
pub const STALE: HeaderName = HeaderName::from_static("deployd-stale");

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Most flaws told at once: a body may hold ten thousand, and nobody reads that.
const MOST_FLAWS: usize = 50;

/// What a handler gives back.
pub type Answer = Result<Response, Refused>;

/// A request that is not done, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status.
    pub status: StatusCode,
    /// What is wrong and what to do.
    pub message: String,
    /// The router refused: `data` stays empty.
    by_router: bool,
    /// Seconds after which another try makes sense.
    retry_after: Option<u32>,
    /// A standby said so, and it may be behind.
    stale: bool,
    /// The body is the bare message, and not JSON.
    plain: bool,
}

impl Refused {
    /// A refusal of a handler.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), by_router: false, retry_after: None, stale: false, plain: false }
    }
    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
    /// 400 with every flaw, but not more than a person reads.
    pub fn flawed(what: &str, flaws: &[Flaw]) -> Self {
        let told = sentence(&flaws[..flaws.len().min(MOST_FLAWS)]);
        Self::bad_request(match flaws.len().saturating_sub(MOST_FLAWS) {
            0 => format!("{what}: {told}"),
            more => format!("{what}: {told}; and {more} more"),
        })
    }
    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
    /// 405 for a method the resource does not implement.
    pub fn unsupported(word: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("{word} method is not supported"))
    }
    /// 503 with a hint when to come back.
    pub fn unavailable(message: impl Into<String>) -> Self {
        // A fail-over takes 5 to 8 s; most other troubles of the bus are over sooner.
        Self { retry_after: Some(2), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }
    /// 503 of a server that has too much to do, with the seconds after which another try makes sense.
    pub fn busy(message: impl Into<String>, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }
    /// 429 when a peer has too much of something, 503 when all peers together have.
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
    /// The same refusal, marked as one that may be behind.
    #[must_use]
    pub fn stale(self, stale: bool) -> Self {
        Self { stale, ..self }
    }
    /// 403 while the engine refuses changes: the one refusal that is plain text.
    pub fn read_only() -> Self {
        Self { plain: true, ..Self::new(StatusCode::FORBIDDEN, Refusal::ReadOnly.to_string()) }
    }
    /// The router's own refusal.
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
        stale(response, self.stale)
    }
}

fn plain(status: StatusCode, message: String) -> Response {
    let mut response = Response::new(Body::from(message + "\n"));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// A client's text, cut so that an answer stays small.
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
        // Bodies are our own types with string keys; should one ever fail, a client still gets an answer.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{{\"message\": {:?}}}", error.to_string())),
    };
    let mut response = Response::new(Body::from(text + "\n"));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// The same answer, marked as one that may be behind.
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

/// The answer to a method nobody knows.
pub fn method_not_allowed(resource: Resource) -> Response {
    let mut response = Refused::by_router(StatusCode::METHOD_NOT_ALLOWED, "Method is not allowed").into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(resource.allow()));
    response
}

/// The way to the right path: 301 for GET, 307 for methods whose body must come along.
pub fn redirect(method: &Method, path: &str, query: Option<&str>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() =
        if *method == Method::GET { StatusCode::MOVED_PERMANENTLY } else { StatusCode::TEMPORARY_REDIRECT };
    let target = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    // A query that came in as a URI is made of characters a header may hold; if not, the bare path still helps.
    let target = HeaderValue::try_from(target).or_else(|_| HeaderValue::try_from(path));
    if let Ok(target) = target {
        response.headers_mut().insert(LOCATION, target);
    }
    response
}

/// A log driver without options is `"Config": null`, as in the original. Stored specs keep `{}`: their digests must not change,
/// and an older scheduler could not read `null`. Within a string every quote is escaped, so this only matches the field.
fn without_empty_log_options(text: String) -> String {
    const EMPTY: &str = "\"Config\": {}";
    if text.contains(EMPTY) { text.replace(EMPTY, "\"Config\": null") } else { text }
}

/// Go's JSON escapes what could end an HTML script; these characters only occur inside strings.
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
