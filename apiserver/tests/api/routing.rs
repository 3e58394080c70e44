//! Routing, encoding and the admin routes: contract 1.1.

use crate::world::{World, seen};

const RESOURCES: [&str; 20] = [
    "/api/podgroups",
    "/api/depends",
    "/api/events",
    "/api/deadletters",
    "/api/nodes",
    "/api/status",
    "/api/notifies",
    "/api/operations",
    "/api/cluster",
    "/api/ports",
    "/api/cntstatushistory",
    "/api/engine/config",
    "/api/engine/maintenance",
    "/api/guard",
    "/api/constraints",
    "/api/rollouts",
    "/api/revisions",
    "/api/podgroups/plan",
    "/api/backup",
    "/api/restore",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn methods_a_resource_lacks_are_refused_by_name() {
    let world = World::start().await;
    for (path, methods) in [
        ("/api/podgroups", &["PUT"][..]),
        ("/api/depends", &["PATCH"]),
        ("/api/nodes", &["POST", "PUT"]),
        ("/api/nodes/n1", &["POST", "PUT"]),
        ("/api/events", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/deadletters", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/status", &["POST", "PUT", "DELETE"]),
        ("/api/engine/config", &["POST", "PUT", "DELETE"]),
        ("/api/engine/maintenance", &["GET", "POST", "PUT", "DELETE"]),
        ("/api/guard", &["PUT", "PATCH", "DELETE"]),
        ("/api/constraints", &["POST", "PUT"]),
        ("/api/notifies", &["PUT", "PATCH"]),
        ("/api/ports", &["PUT", "PATCH", "DELETE"]),
        ("/api/cntstatushistory", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/operations", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/cluster", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/rollouts", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/revisions", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/podgroups/plan", &["GET", "PUT", "PATCH", "DELETE"]),
        ("/api/backup", &["POST", "PUT", "PATCH", "DELETE"]),
        ("/api/restore", &["GET", "PUT", "PATCH"]),
    ] {
        for method in methods {
            let seen = world.call(method, path, None).await;
            let word = format!("{}{}", &method[..1], method[1..].to_lowercase());
            let message = format!("{word} method is not supported");
            let body = serde_json::json!({"message": message, "data": message});
            assert_eq!((seen.status, seen.json()), (405, body), "{method} {path}");
        }
    }
    for path in RESOURCES {
        let head = world.call("HEAD", path, None).await;
        assert_eq!((head.status, head.text.as_str()), (405, ""), "HEAD {path}");
        let trace = world.call("TRACE", path, None).await;
        assert_eq!(trace.text, "{\n  \"message\": \"Method is not allowed\",\n  \"data\": \"\"\n}\n");
        assert_eq!(trace.status, 405);
        let options = world.client.request(reqwest::Method::OPTIONS, world.at(path)).send().await.unwrap();
        let allow = options.headers()["allow"].to_str().unwrap().to_owned();
        assert!(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"].iter().all(|m| allow.contains(m)));
        assert_eq!((options.status().as_u16(), options.text().await.unwrap().as_str()), (200, ""));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_are_put_right_or_unknown() {
    let world = World::start().await;
    for (method, path, status) in [
        ("GET", "/api/status/?a=1&b=%20x", 301),
        ("GET", "/API/Status?a=1&b=%20x", 301),
        ("GET", "//api//status?a=1&b=%20x", 301),
        ("PATCH", "/api/Status?a=1&b=%20x", 307),
        ("DELETE", "/api/status/?a=1&b=%20x", 307),
    ] {
        let request = world.client.request(method.parse().unwrap(), world.at(path));
        let response = request.send().await.unwrap();
        let location = response.headers()["location"].to_str().unwrap();
        assert_eq!((response.status().as_u16(), location), (status, "/api/status?a=1&b=%20x"), "{method} {path}");
    }
    for path in ["/", "/api", "/api/", "/api/unknown", "/api/status/more", "/etc/passwd"] {
        let seen = world.get(path).await;
        assert_eq!(seen.status, 404, "{path}");
        assert_eq!(seen.text, "{\n  \"message\": \"Page not found\",\n  \"data\": \"\"\n}\n");
    }
}

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
