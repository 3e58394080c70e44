//! `/api/notifies`: callback URLs.

use axum::http::StatusCode;
use contract::command::Verb as Change;
use contract::query::{Answer, Query};
use url::Url;

use super::respond::{self, HttpResult, Refused};
use super::router::{Resource, Verb};
use super::writes::{self, Promise};
use super::{Api, Call};
use crate::{queries, view};

/// Longest callback URL: the common limit of browsers and proxies.
const LONGEST_URL: usize = 2048;

pub async fn call(api: &Api, call: Call) -> HttpResult {
    match call.verb {
        Verb::Get => get(api).await,
        Verb::Post => post(api, call).await,
        Verb::Delete => delete(api, call).await,
        Verb::Put | Verb::Patch => Err(Refused::unsupported(call.verb.word())),
    }
}

async fn get(api: &Api) -> HttpResult {
    let reply = api.queries.ask(&Query::Callbacks).await?;
    let Answer::Callbacks(urls) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    if urls.is_empty() {
        return Err(Refused::not_found("No notify found").stale(reply.stale));
    }
    Ok(respond::stale(respond::json(StatusCode::OK, &view::callbacks(urls)), reply.stale))
}

async fn post(api: &Api, call: Call) -> HttpResult {
    let callback = call.params.text("callback").ok_or_else(|| Refused::bad_request("constaint type required"))?;
    check(callback).map_err(|why| Refused::bad_request(format!("callback url not valid: {why}")))?;
    let change = Change::AddCallback { url: callback.to_owned() };
    writes::change(api, &call, change, promise("notify will be added")).await
}

async fn delete(api: &Api, call: Call) -> HttpResult {
    let callback = call.params.text("callback").ok_or_else(|| Refused::bad_request("callback value requird"))?;
    let change = Change::RemoveCallback { url: callback.to_owned() };
    writes::change(api, &call, change, promise("notify uri will be deleted from the orc engine.")).await
}

fn promise(message: &'static str) -> Promise {
    Promise { check_url: Resource::Notifies.path().to_owned(), message }
}

/// Accepts absolute http and https URLs; the original also accepted bare paths, which cannot be posted to.
fn check(text: &str) -> Result<(), String> {
    if text.len() > LONGEST_URL {
        return Err(format!("is {} bytes long, at most {LONGEST_URL} are allowed", text.len()));
    }
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("must start with http:// or https://, not {}:", url.scheme()));
    }
    // The parser drops blanks and line ends silently, but the text itself is stored and compared.
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("must not contain blanks or control characters".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_http_urls_are_callbacks() {
        for good in ["http://a", "https://a.b:8443/x?y=z", "HTTP://127.0.0.1/"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let long = format!("http://a/{}", "x".repeat(3000));
        for bad in ["/x", "a.b/c", "ftp://a/", "file:///etc/passwd", "http://", "http://a/ b", "javascript:x", &long] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
