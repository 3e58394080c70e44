//! The one way to make an HTTP client.

use std::sync::Once;
use std::time::Duration;

/// A client that gives a request `timeout` in all and follows no redirect: a callback that redirects could otherwise
/// be led to an address its owner may not reach.
pub fn client(timeout: Duration) -> reqwest::Client {
    install_crypto();
    let builder = || {
        reqwest::Client::builder()
            .timeout(timeout)
            .connect_timeout(timeout.min(Duration::from_secs(5)))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("deployd/", env!("CARGO_PKG_VERSION")))
    };
    builder().build().unwrap_or_else(|error| {
        // A machine without root certificates can still speak plain HTTP.
        tracing::warn!(%error, "no root certificates: https will be refused");
        let none: [reqwest::Certificate; 0] = [];
        builder().tls_certs_only(none).build().expect("a client without certificates has nothing left to fail on")
    })
}

/// rustls refuses to guess between two crypto providers; ours is ring, chosen once per process.
pub fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("a crypto provider was already chosen");
        }
    });
}
