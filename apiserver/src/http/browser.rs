//! Keeps web pages out: a page of another site that a user has open must neither read nor change anything.
//!
//! Browsers say which name they called (`Host`) and which page sent a request (`Origin`, `Sec-Fetch-Site`), and a page cannot
//! forge these headers. Other clients send an address or a configured name as `Host` and none of the other two, so nothing
//! changes for them; they may keep their odd content types *because* browsers are refused here.
//!
//! * A page that lets its own name point to this address (DNS rebinding) sends its own name as `Host`. An address as `Host` is
//!   always accepted: no DNS answer can make a browser send one, and clients behind a balancer or NAT call another address than
//!   the one that the connection arrives at.
//! * A page of another origin sends `Origin` with everything that can change something. With a plain GET it sends at most
//!   `Sec-Fetch-Site`, and the browser does not let it read the answer; no GET changes anything.
//!
//! Example: `POST /api/podgroups` from a page of `http://evil.test` carries `Origin: http://evil.test` and is answered 403.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};

use super::respond::Refused;

const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The names under which clients may call this API, beside addresses and `localhost`.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    pub fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| canonical(name)).collect())
    }

    /// Refuses a request that a page of another site may have caused.
    pub fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refused> {
        let host = single(headers, HOST.as_str())?;
        // In absolute form (`GET http://name/path`) the name of the request line counts too.
        for name in [host, uri.authority().map(Authority::as_str)].into_iter().flatten() {
            if !self.is_own(name) {
                let name = name.escape_debug();
                return Err(forbidden(format!(
                    "this API has no name {name}; call it by its address, or start the apiserver with --host NAME for the name that clients use"
                )));
            }
        }
        self.check_page(headers)
    }

    /// Refuses a request of a page, whatever name it called.
    pub fn check_page(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let host = single(headers, HOST.as_str())?;
        if let Some(origin) = single(headers, ORIGIN.as_str())?
            && !is_same(origin, host)
        {
            return Err(forbidden("a page of another origin sent this request; only pages of this API may".to_owned()));
        }
        match single(headers, SEC_FETCH_SITE)? {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => {
                Err(forbidden("a page of another site sent this request; only pages of this API may".to_owned()))
            }
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        // Nothing but a name and a port: `user@name` and `[::1].name` are parsed differently by different programs.
        let port = authority.as_str().strip_prefix(authority.host());
        if !port.is_some_and(|port| port.is_empty() || port.strip_prefix(':').is_some_and(is_number)) {
            return false;
        }
        let name = canonical(authority.host());
        name == "localhost" || is_address(&name) || self.0.contains(&name)
    }
}

/// In lower case, without the final dot that makes a name absolute.
fn canonical(name: &str) -> String {
    let name = name.trim();
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_address(host: &str) -> bool {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    host.parse::<Ipv4Addr>().is_ok() || bracketed.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the origin of a page is the API itself, as the client called it.
fn is_same(origin: &str, host: Option<&str>) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some() && authority.map(str::to_ascii_lowercase) == host.map(str::to_ascii_lowercase)
}

/// The only value of a header. A header that was sent twice is refused: two readers could take different ones.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refused> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (first.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        (Ok(_) | Err(_), _) => {
            Err(Refused::bad_request(format!("the header {name} is not readable, or was sent twice")))
        }
    }
}

fn forbidden(message: String) -> Refused {
    Refused::new(StatusCode::FORBIDDEN, message)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn status(headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        let hosts = Hosts::new(&["deployd.lain".to_owned(), "Api.Example.".to_owned()]);
        hosts.check(&map, &Uri::from_static("/api/podgroups")).map_or_else(|refused| refused.status.as_u16(), |()| 200)
    }

    #[test]
    fn clients_that_are_no_browsers_pass_by_address_and_by_configured_name() {
        for host in [
            "127.0.0.1:9003",
            "10.1.2.3",
            "[::1]:9003",
            "localhost",
            "LOCALHOST:9003",
            "deployd.lain:9003",
            "deployd.lain.",
            "api.example",
        ] {
            assert_eq!(status(&[("host", host)]), 200, "{host}");
        }
        assert_eq!(status(&[]), 200, "a client of HTTP/1.0 sends no Host, a browser always does");
    }

    #[test]
    fn a_name_that_is_not_configured_is_refused() {
        for host in [
            "evil.test:9003",
            "localhost.evil.test",
            "127.0.0.1.evil.test",
            "deployd.lain.evil.test",
            "0x7f.1",
            "2130706433",
            "",
            "a b",
            "user@127.0.0.1",
            "[::1].evil.test",
        ] {
            assert_eq!(status(&[("host", host)]), 403, "{host:?}");
        }
    }

    #[test]
    fn the_name_of_a_request_line_in_absolute_form_counts_too() {
        let host = |uri| Hosts::default().check(&HeaderMap::new(), &Uri::from_static(uri)).is_ok();
        assert!(host("http://127.0.0.1:9003/api/nodes"));
        assert!(!host("http://evil.test/api/nodes"));
    }

    #[test]
    fn only_pages_of_this_api_may_send_requests() {
        let host = ("host", "127.0.0.1:9003");
        for origin in ["http://127.0.0.1:9003", "https://127.0.0.1:9003"] {
            assert_eq!(status(&[host, ("origin", origin)]), 200, "{origin}");
        }
        for origin in [
            "http://evil.test",
            "null",
            "http://127.0.0.1",
            "http://127.0.0.1:9004",
            "file://",
            "chrome-extension://a",
            "",
        ] {
            assert_eq!(status(&[host, ("origin", origin)]), 403, "{origin:?}");
        }
        for (site, expected) in
            [("same-origin", 200), ("none", 200), ("cross-site", 403), ("same-site", 403), ("", 403)]
        {
            assert_eq!(status(&[host, (SEC_FETCH_SITE, site)]), expected, "{site:?}");
        }
    }

    #[test]
    fn a_header_that_is_there_twice_is_refused() {
        assert_eq!(status(&[("host", "127.0.0.1"), ("host", "evil.test")]), 400);
        assert_eq!(status(&[("origin", "http://127.0.0.1"), ("origin", "http://evil.test")]), 400);
    }
}
