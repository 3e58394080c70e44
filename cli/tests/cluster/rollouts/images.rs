//! Versions of the demo image: one binary; each image sets another environment variable.

use axum::http::StatusCode;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;

use super::docker;
use crate::cluster::{IMAGE, repository};

const REPOSITORY: &str = "deployd-test/demo";

/// Answers `version 2`.
pub(super) const SECOND: &str = "deployd-test/demo:second";
/// Answers `version 3`.
pub(super) const THIRD: &str = "deployd-test/demo:third";
/// Ends with an error as soon as it has started.
pub(super) const CRASHING: &str = "deployd-test/demo:crashing";
/// There is no registry it could come from: nothing listens there.
pub(super) const MISSING: &str = "127.0.0.1:1/deployd-test/missing:1";

/// Makes the images that stand beside the usual one.
pub(super) async fn make() {
    image("second", "DEMO_VERSION=2").await;
    image("third", "DEMO_VERSION=3").await;
    image("crashing", "DEMO_EXIT_AFTER_MS=1 DEMO_EXIT_CODE=1").await;
}

async fn image(tag: &str, environment: &str) {
    let binary = std::fs::read(repository().join("target/demo/demo")).expect("the demo; run deploy/build-demo");
    docker::variant(IMAGE, (REPOSITORY, tag), &binary, environment).await;
}

/// An image of a registry that has none.
pub(super) async fn unknown() -> String {
    let unknown = json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).to_string();
    let router = axum::Router::new()
        .route("/v2/", get(async || StatusCode::OK))
        .fallback(async move || (StatusCode::NOT_FOUND, unknown.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    fabric::tasks::spawn("registry", async move { axum::serve(listener, router).await });
    format!("{address}/deployd-test/unknown:1")
}
