//! Events and dead letters: looked up without any scheduler, and followed through the end of the bus and of the server.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use contract::event::{Event, Kind};
use contract::notice::DeadLetter;
use contract::streams::{DEAD_LETTERS, EVENTS};
use contract::subjects::{self, DeadLetterKind};
use contract::time::Timestamp;
use fabric::clock::Clock;
use fabric::local::NatsServer;
use fabric::nats::{Args, Bus};
use reqwest::Response;
use serde_json::{Value, json};

use crate::world::{World, eventually};

const DEADLINE: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(20);

fn event(number: u32, group: &str, kind: Kind, at: Timestamp) -> Event {
    Event {
        at,
        kind,
        group: group.parse().ok(),
        instance: number,
        node: "a".parse().ok(),
        message: format!("event {number}"),
        namespace: None,
        reasons: std::collections::BTreeMap::new(),
    }
}

impl World {
    async fn record(&self, event: &Event) {
        self.bus.ensure_stream(&(&EVENTS).into()).await.unwrap();
        let id = format!("{}-{}", event.instance, event.message);
        self.bus.publish_durable(subjects::EVENTS, &id, &[], event, DEADLINE).await.unwrap();
    }

    async fn numbers(&self, query: &str) -> Vec<u64> {
        let seen = self.get(&format!("/api/events{query}")).await;
        assert_eq!(seen.status, 200, "{}", seen.text);
        let list = seen.json()["Events"].as_array().unwrap().clone();
        list.iter().map(|event| event["Instance"].as_u64().unwrap()).collect()
    }

    async fn follow(&self, query: &str, last: Option<u64>) -> Followed {
        let mut request = self.client.get(self.at(&format!("/api/events?follow=true{query}"))).timeout(LONG * 3);
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last.to_string());
        }
        Followed { response: request.send().await.unwrap(), rest: String::new() }
    }
}

/// What a follower has read.
struct Followed {
    response: Response,
    rest: String,
}

impl Followed {
    /// Id and number of the next event; none at the end.
    async fn next(&mut self) -> Option<(u64, u64)> {
        let read = async {
            loop {
                while let Some((frame, rest)) = self.rest.clone().split_once("\n\n") {
                    self.rest = rest.to_owned();
                    if let Some((id, data)) = frame.strip_prefix("id: ").and_then(|frame| frame.split_once("\ndata: "))
                    {
                        let event: Value = serde_json::from_str(data).unwrap();
                        return Some((id.parse().unwrap(), event["Instance"].as_u64().unwrap()));
                    }
                    assert!(frame.starts_with(": "), "{frame}");
                }
                let chunk = self.response.chunk().await.ok().flatten()?;
                self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        tokio::time::timeout(LONG, read).await.expect("an event or the end in time")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_that_match_are_shown_oldest_first_without_any_scheduler() {
    let world = World::start().await;
    assert_eq!(world.get("/api/events").await.json(), json!({"Events": []}), "there is no stream yet");
    let now = Clock::start().now();
    for number in 1..=1_200 {
        let (group, kind) = if number % 2 == 0 { ("web", Kind::Placed) } else { ("api", Kind::Operation) };
        let at = now - Duration::from_secs(60 * (1_200 - u64::from(number)));
        world.record(&event(number, group, kind, at)).await;
    }
    assert_eq!(world.numbers("").await, (1_101..=1_200).collect::<Vec<_>>());
    assert_eq!(world.numbers("?limit=3").await, [1_198, 1_199, 1_200]);
    assert_eq!(world.numbers("?limit=3&group=web").await, [1_196, 1_198, 1_200]);
    assert_eq!(world.numbers("?limit=2&kind=OPERATION&node=a").await, [1_197, 1_199]);
    assert_eq!(world.numbers("?limit=1000&group=web").await.len(), 600, "across parts");
    assert_eq!(world.numbers("?limit=100000").await.len(), 1_000, "bounded");
    assert_eq!(world.numbers("?since=4m30s").await, [1_196, 1_197, 1_198, 1_199, 1_200]);
    assert_eq!(world.numbers("?group=unknown").await, [0; 0]);
    let seen = world.get("/api/events?limit=1").await.json()["Events"][0].clone();
    let expected = json!({"At": now.to_string(), "Kind": "Placed", "Group": "web", "Instance": 1_200, "Node": "a", "Message": "event 1200"});
    assert_eq!(seen, expected);
    let unknown = world.get("/api/events?kind=other").await;
    assert!(unknown.status == 400 && unknown.message().contains("Unplaceable"), "{}", unknown.text);
    assert_eq!(world.get("/api/events?since=now").await.status, 400);
    assert_eq!(world.call("POST", "/api/events", None).await.status, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_survives_a_restart_of_the_bus_and_resumes_after_its_last_event() {
    let mut world = World::start().await;
    let now = Clock::start().now();
    for number in 1..=3 {
        world.record(&event(number, "web", Kind::Placed, now)).await;
    }
    let mut new = world.follow("&group=web", None).await;
    assert_eq!(new.response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let mut backlog = world.follow("&limit=2", None).await;
    assert_eq!((backlog.next().await, backlog.next().await), (Some((2, 2)), Some((3, 3))));
    world.record(&event(4, "api", Kind::Placed, now)).await;
    assert_eq!(backlog.next().await, Some((4, 4)));
    world.nats.kill();
    world.nats.restart().await.unwrap();
    let recorded = event(5, "web", Kind::Placed, now);
    eventually("the bus is back", async || {
        let stored = world.bus.publish_durable(subjects::EVENTS, "five", &[], &recorded, Duration::from_secs(2)).await;
        stored.ok().map(drop)
    })
    .await;
    assert_eq!((new.next().await, backlog.next().await), (Some((5, 5)), Some((5, 5))));
    drop((new, backlog));
    let mut resumed = world.follow("&limit=1", Some(3)).await;
    assert_eq!((resumed.next().await, resumed.next().await), (Some((4, 4)), Some((5, 5))));
    world.shutdown.trigger();
    assert_eq!(resumed.next().await, None, "a server that leaves ends what it serves");
    tokio::time::timeout(Duration::from_secs(5), world.server).await.expect("it does not wait for followers").unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A follower has read events 1, 2 and 3. Then the bus is restored from a copy that holds event 1 only, and `recorded` are
/// stored before the follower is connected again.
async fn follow_through_a_restore(recorded: &[u32]) -> (World, Followed) {
    let mut world = World::start().await;
    let now = Clock::start().now();
    world.record(&event(1, "web", Kind::Placed, now)).await;
    world.nats.stop().await;
    let (elsewhere, stored) = (tempfile::tempdir().unwrap(), world.directory.path().join("jetstream"));
    copy(&stored, &elsewhere.path().join("jetstream"));
    world.nats.restart().await.unwrap();
    let mut follower = world.follow("&limit=1", None).await;
    assert_eq!(follower.next().await, Some((1, 1)));
    for number in 2..=3 {
        world.record(&event(number, "web", Kind::Placed, now)).await;
        assert_eq!(follower.next().await, Some((u64::from(number), u64::from(number))));
    }
    world.nats.kill();
    let mut restored = NatsServer::start(elsewhere.path(), 0).await.unwrap();
    let bus = Bus::connect(&Args::at(restored.url()), "test").await.unwrap();
    for &number in recorded {
        let event = event(number, "web", Kind::Placed, now);
        bus.publish_durable(subjects::EVENTS, &number.to_string(), &[], &event, DEADLINE).await.unwrap();
    }
    restored.stop().await;
    std::fs::remove_dir_all(&stored).unwrap();
    copy(&elsewhere.path().join("jetstream"), &stored);
    world.nats.restart().await.unwrap();
    (world, follower)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_is_shown_events_that_reuse_the_numbers_of_lost_ones() {
    let (_world, mut follower) = follow_through_a_restore(&[12, 13, 14]).await;
    for shown in [(1, 1), (2, 12), (3, 13), (4, 14)] {
        assert_eq!(follower.next().await, Some(shown));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_beyond_the_end_of_a_restored_stream_gets_the_new_events() {
    let (_world, mut follower) = follow_through_a_restore(&[12]).await;
    for shown in [(1, 1), (2, 12)] {
        assert_eq!(follower.next().await, Some(shown));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_are_limited_and_a_dropped_one_makes_room() {
    let world = World::start_with(&["--followers-per-peer", "4"]).await;
    let now = Clock::start().now();
    world.record(&event(1, "web", Kind::Placed, now)).await;
    let mut followers = Vec::new();
    for _ in 0..4 {
        followers.push(world.follow("&limit=1", None).await);
    }
    let refused = world.get("/api/events?follow=true").await;
    assert!(refused.status == 429 && refused.retry_after, "{}", refused.text);
    assert_eq!(world.get("/api/events").await.status, 200, "a request that does not follow is not refused");
    let other = reqwest::Client::builder().local_address(IpAddr::from([127, 0, 0, 2])).build().unwrap();
    let elsewhere = other.get(world.at("/api/events?follow=true")).send().await.unwrap();
    assert_eq!(elsewhere.status(), 200, "another address has places of its own");
    drop(followers);
    eventually("a place", async || {
        // The server finds out that a client went when it writes to it.
        world.record(&event(2, "web", Kind::Placed, Clock::start().now())).await;
        let response = world.client.get(world.at("/api/events?follow=true")).send().await.unwrap();
        (response.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_newest_last() {
    let world = World::start().await;
    assert_eq!(world.get("/api/deadletters").await.json(), json!({"DeadLetters": []}));
    world.bus.ensure_stream(&(&DEAD_LETTERS).into()).await.unwrap();
    let subject = subjects::dead_letter(DeadLetterKind::Notice);
    for number in 1..=3 {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let letter = DeadLetter::new("somewhere", format!("reason {number}"), b"{\"a\":1}", at);
        world.bus.publish_durable(&subject, &number.to_string(), &[], &letter, DEADLINE).await.unwrap();
    }
    let letter = |number: u32| json!({"Subject": "somewhere", "Reason": format!("reason {number}"), "Payload": "{\"a\":1}", "At": "2023-11-14T22:13:20Z"});
    assert_eq!(world.get("/api/deadletters?limit=2").await.json(), json!({"DeadLetters": [letter(2), letter(3)]}));
}
