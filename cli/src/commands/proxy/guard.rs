//! Keeps web pages away from the proxy, as the apiserver does (`apiserver/src/http/browser.rs`).
//!
//! The proxy is stricter: it serves this machine only, so `Host` is a loopback address or `localhost`. The name of an apiserver
//! would be that of another server here.

use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri, header};

use crate::credential::is_loopback_host;

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Refuses a request that a web page may have caused.
pub(super) fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), String> {
    let host = single(headers, header::HOST.as_str())?;
    // In absolute form (`GET http://name/path`) the name of the request line counts too.
    for name in [host, uri.authority().map(Authority::as_str)].into_iter().flatten() {
        if !is_own(name) {
            let name = name.escape_debug();
            return Err(format!("this proxy has no name {name}; call it by 127.0.0.1, [::1] or localhost"));
        }
    }
    if let Some(origin) = single(headers, header::ORIGIN.as_str())?
        && !is_same(origin, host)
    {
        return Err("a page of another origin sent this request; web pages may not use the proxy".to_owned());
    }
    match single(headers, SEC_FETCH_SITE)? {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) => Err("a page of another site sent this request; web pages may not use the proxy".to_owned()),
    }
}

fn is_own(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    // Nothing but a name and a port: `user@name` and `[::1].name` have another reading for every reader.
    let port = authority.as_str().strip_prefix(authority.host());
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    port.is_some_and(|port| port.is_empty() || port.strip_prefix(':').is_some_and(is_number))
        && is_loopback_host(&authority.host().to_ascii_lowercase())
}

fn is_same(origin: &str, host: Option<&str>) -> bool {
    let authority = origin.strip_prefix("http://");
    authority.is_some() && authority.map(str::to_ascii_lowercase) == host.map(str::to_ascii_lowercase)
}

/// The only value of a header. A header that was sent twice is refused: two readers could take different ones.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, String> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (first.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        (Ok(_) | Err(_), _) => Err(format!("the header {name} is not readable, or was sent twice")),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn passes(headers: &[(&str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        check(&map, &Uri::from_static("/api/podgroups")).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_are_served() {
        for host in ["127.0.0.1:9003", "[::1]:9003", "localhost", "LOCALHOST:9003", "127.0.0.2"] {
            assert!(passes(&[("host", host)]), "{host}");
        }
        for host in
            ["10.0.0.1:9003", "evil.test", "localhost.evil.test", "user@127.0.0.1", "[::1].evil.test", "", "2130706433"]
        {
            assert!(!passes(&[("host", host)]), "{host:?}");
        }
        assert!(passes(&[]), "a client of HTTP/1.0 sends no Host, a browser always does");
        assert!(check(&HeaderMap::new(), &Uri::from_static("http://evil.test/api/nodes")).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let host = ("host", "127.0.0.1:9003");
        assert!(passes(&[host, ("origin", "http://127.0.0.1:9003")]));
        for origin in ["http://evil.test", "null", "http://127.0.0.1:9004", "file://", ""] {
            assert!(!passes(&[host, ("origin", origin)]), "{origin:?}");
        }
        for (site, expected) in [("same-origin", true), ("none", true), ("cross-site", false), ("same-site", false)] {
            assert_eq!(passes(&[host, (SEC_FETCH_SITE, site)]), expected, "{site}");
        }
        assert!(!passes(&[("host", "127.0.0.1"), ("host", "evil.test")]));
    }
}
