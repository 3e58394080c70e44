//! HTTP clients.

use std::sync::Once;
use std::time::Duration;

use reqwest::ClientBuilder;

/// A client with a total `timeout` per request. It follows no redirects, because a callback could otherwise redirect
/// the notifier to an address that its owner cannot reach.
pub fn client(timeout: Duration) -> reqwest::Client {
    client_with(timeout, |builder| builder)
}

/// As [`client`], with further settings.
pub fn client_with(timeout: Duration, configure: impl Fn(ClientBuilder) -> ClientBuilder) -> reqwest::Client {
    install_crypto();
    let builder = || {
        let builder = reqwest::Client::builder()
            .timeout(timeout)
            .connect_timeout(timeout.min(Duration::from_secs(5)))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("deployd/", env!("CARGO_PKG_VERSION")));
        configure(builder)
    };
    builder().build().unwrap_or_else(|error| {
        // A machine without root certificates can still use plain HTTP.
        tracing::warn!(%error, "no root certificates: https requests will fail");
        let none: [reqwest::Certificate; 0] = [];
        builder().tls_certs_only(none).build().expect("a client without certificates has nothing left to fail on")
    })
}

/// Chooses ring once per process: rustls refuses to choose between two crypto providers.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a crypto provider was already chosen");
        }
    });
}
