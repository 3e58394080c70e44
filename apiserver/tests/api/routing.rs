//! Encoding, the admin routes and shutdown.

use crate::world::{World, seen};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_needs_no_scheduler_and_is_encoded_like_the_original() {
    let world = World::start().await;
    let status = world.get("/api/status").await;
    assert_eq!(status.text, "{\n  \"status\": \"started\"\n}\n");
    assert_eq!((status.status, status.content_type.as_str()), (200, "application/json; charset=UTF-8"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_routes_are_served_beside_the_api() {
    let world = World::start().await;
    crate::world::eventually("readyz", async || (world.get("/readyz").await.status == 200).then_some(())).await;
    assert_eq!(world.get("/healthz").await.status, 200);
    assert_eq!(world.get("/api/status").await.status, 200);
    let metrics = world.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    let line = r#"deployd_api_requests_total{route="/api/status",method="Get",status="200"} 1"#;
    assert!(metrics.text.contains(line), "{}", metrics.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_shutdown_a_request_in_flight_is_finished_and_no_new_one_is_taken() {
    let world = World::start_with(&["--outcome-deadline", "2s"]).await;
    let in_flight = world.client.delete(world.at("/api/podgroups?name=a")).send();
    let in_flight = fabric::tasks::spawn("request", in_flight);
    let waiting = async || world.get("/metrics").await.text.contains("deployd_api_waiting 1").then_some(());
    crate::world::eventually("a waiting request", waiting).await;
    world.shutdown.trigger();
    let answer = seen(in_flight.await.unwrap().unwrap()).await;
    assert_eq!((answer.status, &answer.json()["queued"]), (202, &serde_json::json!(true)));
    world.server.await.unwrap();
    let fresh = fabric::http::client(std::time::Duration::from_secs(2));
    assert!(fresh.get(format!("{}/api/status", world.base)).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_does_not_hold_up_a_shutdown() {
    let world = World::start_with(&["--linger", "0s"]).await;
    let address = world.base.strip_prefix("http://").unwrap();
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    assert_eq!(world.get("/api/status").await.status, 200);
    let started = std::time::Instant::now();
    world.shutdown.trigger();
    world.server.await.unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}
