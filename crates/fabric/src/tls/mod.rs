//! TLS: certificates in files, a server that follows renewed files, and plain sentences for failed handshakes.

mod client;
mod files;
mod problem;
mod server;

use std::net::IpAddr;

pub use client::{ClientFiles, handshake_problem};
pub use files::{Error, FileChanges};
pub use problem::problem;
pub use server::{ServerTls, TlsStream};

/// Whether a host of a URL is this machine, so that traffic to it never reaches a network. Names are not resolved.
pub fn is_loopback(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    inner.eq_ignore_ascii_case("localhost")
        || inner.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_the_name_of_this_machine_are_loopback() {
        for host in ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1", "localhost", "LOCALHOST"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["10.0.0.1", "nats", "localhost.example", "0.0.0.0", "::", "127.0.0.1.example", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
