//! The client behind proxies, from `X-Forwarded-For` or `Forwarded` of a trusted proxy. Pure.
//!
//! Each proxy appends the address that it saw. So the list is read from its end: hops of trusted proxies are skipped, and the
//! first other address is the client. What stands before it was written by the client and proves nothing.
//!
//! Example with the trusted proxy 10.0.0.5: `X-Forwarded-For: 6.6.6.6, 192.0.2.7` is the client 192.0.2.7.

use std::net::IpAddr;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Both headers are there: a proxy appends to one of them, and the other is the client's invention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ambiguous;

/// The client of a request that the proxy at `proxy` sent.
pub(super) fn client(headers: &HeaderMap, proxy: IpAddr, trusted: &[IpNet]) -> Result<IpAddr, Ambiguous> {
    let hops = match (headers.contains_key(X_FORWARDED_FOR), headers.contains_key(FORWARDED)) {
        (true, true) => return Err(Ambiguous),
        (true, false) => list(headers, &X_FORWARDED_FOR, address),
        (false, true) => list(headers, &FORWARDED, forwarded_for),
        (false, false) => Vec::new(),
    };
    let mut client = proxy;
    for hop in hops.into_iter().rev() {
        // A proxy that hides the address is the last hop that we know.
        let Some(hop) = hop else { break };
        client = hop;
        if !is_trusted(hop, trusted) {
            break;
        }
    }
    Ok(client)
}

/// Whether a proxy has this address.
pub(super) fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|network| network.contains(&address.to_canonical()))
}

/// Every entry of every header line, in order; none for one that is no address.
fn list(headers: &HeaderMap, name: &HeaderName, read: fn(&str) -> Option<IpAddr>) -> Vec<Option<IpAddr>> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
    lines.flat_map(|line| line.split(',')).map(|entry| read(entry.trim())).collect()
}

/// `for=192.0.2.7;proto=https`
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    address(value.trim_matches('"'))
}

/// An address, perhaps with a port.
fn address(text: &str) -> Option<IpAddr> {
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split(']').next()?.parse().ok();
    }
    let plain = text.parse::<IpAddr>().ok();
    let plain = plain.or_else(|| text.rsplit_once(':').and_then(|(host, _)| host.parse().ok()));
    plain.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn seen(lines: &[(&str, &str)]) -> Result<String, Ambiguous> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        let trusted = ["10.0.0.0/24".parse().unwrap(), "2001:db8::/64".parse().unwrap()];
        client(&headers, "10.0.0.5".parse().unwrap(), &trusted).map(|address| address.to_string())
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_client() {
        for (value, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("6.6.6.6, 192.0.2.7", "192.0.2.7"),
            ("6.6.6.6, 192.0.2.7, 10.0.0.9", "192.0.2.7"),
            ("192.0.2.7:4711", "192.0.2.7"),
            ("2001:db9::1", "2001:db9::1"),
            ("[2001:db9::1]:4711", "2001:db9::1"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("10.0.0.8, 10.0.0.9", "10.0.0.8"),
            ("192.0.2.7, nonsense", "10.0.0.5"),
            ("192.0.2.7, unknown, 10.0.0.9", "10.0.0.9"),
            ("", "10.0.0.5"),
        ] {
            assert_eq!(seen(&[("x-forwarded-for", value)]).as_deref(), Ok(expected), "{value:?}");
        }
        assert_eq!(seen(&[]).as_deref(), Ok("10.0.0.5"), "the proxy says nothing");
        let lines = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.7")];
        assert_eq!(seen(&lines).as_deref(), Ok("192.0.2.7"), "a proxy that adds a line");
    }

    #[test]
    fn the_standard_header_is_read_too() {
        for (value, expected) in [
            ("for=192.0.2.7;proto=https", "192.0.2.7"),
            ("For=6.6.6.6, for=\"[2001:db9::1]:4711\"", "2001:db9::1"),
            ("for=192.0.2.7, for=10.0.0.9", "192.0.2.7"),
            ("for=_hidden", "10.0.0.5"),
            ("proto=https", "10.0.0.5"),
        ] {
            assert_eq!(seen(&[("forwarded", value)]).as_deref(), Ok(expected), "{value:?}");
        }
    }

    #[test]
    fn two_headers_are_refused() {
        assert_eq!(seen(&[("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "192.0.2.7")]), Err(Ambiguous));
    }
}
