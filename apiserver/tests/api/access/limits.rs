//! Limits of requests, bytes and followers by principal and by address, and the report of what was refused.

use std::time::Duration;

use contract::access::audit::RefusedRequests;
use contract::command::Verb;
use contract::streams::EVENTS;

use super::{Person, client_at, group, records, request};
use crate::leader::Leader;
use crate::world::{Seen, World, eventually, seen};

/// The answer to a request of an address, with a token if there is one.
async fn ask(world: &World, client: &reqwest::Client, person: Option<&Person>, path: &str) -> Seen {
    let mut request = request(client, "GET", world.at(path), None);
    if let Some(person) = person {
        request = request.header("Authorization", person.header());
    }
    seen(request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_limited_by_principal_and_without_a_token_by_address() {
    let (alice, bob) = (Person::new("alice", &["admin"]), Person::new("bob", &["admin"]));
    let flags = ["--anonymous", "viewer from 127.0.3.0/24", "--requests-per-second", "5"];
    let world = World::guarded(&flags).await;
    let _leader = Leader::enforcing(&world.bus, records(&[&alice, &bob]), &["viewer from 127.0.3.0/24"]).await;
    let (first, second) = (client_at(3, 1), client_at(3, 2));
    let until_refused = async |client: &reqwest::Client, person: Option<&Person>| {
        for _ in 0..100 {
            let seen = ask(&world, client, person, "/api/access").await;
            if seen.status != 200 {
                return seen;
            }
        }
        panic!("no request was refused");
    };
    let refused = until_refused(&first, Some(&alice)).await;
    assert!(refused.status == 429 && refused.retry_after, "{}", refused.text);
    assert!(refused.message().contains("--requests-per-second"), "{}", refused.text);
    assert_eq!(ask(&world, &second, Some(&alice), "/api/access").await.status, 429, "at every address");
    assert_eq!(ask(&world, &first, Some(&bob), "/api/access").await.status, 200, "another principal");
    assert_eq!(until_refused(&first, None).await.status, 429);
    assert_eq!(ask(&world, &second, None, "/api/access").await.status, 200, "another address");
    for path in ["/healthz", "/metrics"] {
        let person = (path == "/metrics").then_some(&alice);
        assert_eq!(ask(&world, &first, person, path).await.status, 200, "{path}");
    }
    eventually("the budget refills", async || {
        (ask(&world, &first, Some(&alice), "/api/access").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_limited_by_principal() {
    let (alice, bob) = (Person::new("alice", &["deployer"]), Person::new("bob", &["deployer"]));
    let world = World::guarded(&["--bytes-per-minute", "100"]).await;
    let _leader = Leader::enforcing(&world.bus, records(&[&alice, &bob]), &[]).await;
    let mut statuses = Vec::new();
    for number in 0..4 {
        let body = group("shop", &format!("shop.a{number}"));
        statuses.push(world.send(&alice, "POST", "/api/podgroups", Some(&body)).await);
    }
    let last = statuses.last().unwrap();
    assert!(statuses[0].status == 202 && last.status == 429 && last.retry_after, "{statuses:?}");
    assert!(last.message().contains("--bytes-per-minute"), "{}", last.text);
    assert_eq!(world.read(&alice, "/api/podgroups?all=true").await.status, 200, "reads send no body");
    world.create(&bob, "shop", "shop.b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apiserver_has_room_for_1024_followers_and_one_client_cannot_take_all() {
    let (alice, bob) = (Person::new("alice", &["admin"]), Person::new("bob", &["admin"]));
    let world = World::start_with(&["--followers-per-peer", "32"]).await;
    let _leader = Leader::enforcing(&world.bus, records(&[&alice, &bob]), &["admin from any"]).await;
    world.bus.ensure_stream(&(&EVENTS).into()).await.unwrap();
    let mut followers = Vec::new();
    let follow = async |client: reqwest::Client, person: Option<&Person>| {
        let mut request = client.get(world.at("/api/events?follow=true")).timeout(Duration::from_secs(120));
        if let Some(person) = person {
            request = request.header("Authorization", person.header());
        }
        request.send().await.unwrap()
    };
    // Of one principal at several addresses, then of 31 addresses.
    for number in 0..32 {
        followers.push(follow(client_at(4, 1 + number % 8), Some(&alice)).await);
    }
    assert_eq!(follow(client_at(4, 9), Some(&alice)).await.status(), 429, "her share is taken at every address");
    for number in 0..31 {
        for _ in 0..32 {
            followers.push(follow(client_at(5, 1 + number), None).await);
        }
    }
    assert_eq!(followers.len(), 1024);
    assert!(followers.iter().all(|response| response.status() == 200));
    let refused = follow(client_at(6, 1), Some(&bob)).await;
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (429, true));
    assert_eq!(world.get("/healthz").await.status, 200);
    drop(followers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_requests_are_reported_by_client_and_route() {
    let (viewer, unknown) = (Person::new("viewer", &["viewer"]), Person::new("unknown", &[]));
    let world = World::guarded(&[]).await;
    let leader = Leader::enforcing(&world.bus, records(&[&viewer]), &[]).await;
    let (here, page) = (client_at(7, 1), client_at(7, 2));
    for _ in 0..3 {
        assert_eq!(ask(&world, &here, None, "/api/nodes").await.status, 401);
    }
    for _ in 0..7 {
        ask(&world, &here, Some(&unknown), "/api/nodes").await;
    }
    assert_eq!(ask(&world, &here, Some(&viewer), "/api/backup").await.status, 403);
    assert_eq!(ask(&world, &here, Some(&viewer), "/api/nothing").await.status, 404);
    let foreign = page.post(world.at("/api/podgroups")).header("Origin", "http://evil.test").send().await.unwrap();
    assert_eq!(foreign.status(), 403);
    let denied = world.send(&viewer, "POST", "/api/podgroups", Some(&group("shop", "shop.web"))).await;
    assert_eq!(denied.status, 403, "{}", denied.text);
    world.shutdown.trigger();
    world.server.await.unwrap();
    let reported: Vec<RefusedRequests> = leader
        .stop()
        .await
        .into_iter()
        .flat_map(|command| match command.verb {
            Verb::ReportRefused { requests } => requests,
            other => panic!("{other:?}"),
        })
        .collect();
    let row = |peer: &str, principal: &str, route: &str, status, count| RefusedRequests {
        peer: peer.to_owned(),
        principal: principal.to_owned(),
        route: route.to_owned(),
        status,
        count,
    };
    assert_eq!(
        reported,
        [
            row("127.0.0.1", "viewer", "POST /api/podgroups", 403, 1),
            row("127.0.7.1", "", "GET /api/nodes", 401, 8),
            row("127.0.7.1", "", "GET /api/nodes", 429, 2),
            row("127.0.7.1", "viewer", "GET /api/backup", 403, 1),
            row("127.0.7.2", "", "POST /api/podgroups", 403, 1),
        ]
    );
}
