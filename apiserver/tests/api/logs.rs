//! Logs of the instances of a group, from fake agents.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use contract::logs::{LogLine, LogStream, LogTime};
use contract::session::{LogSelection, SessionContent, SessionReply, SessionRequest};
use contract::subjects;
use contract::time::Timestamp;
use fabric::nats::Bus;
use reqwest::Response;
use serde_json::{Value, json};

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::{World, eventually};

const LONG: Duration = Duration::from_secs(20);

/// What a fake agent has and what it was asked for.
#[derive(Debug, Clone, Default)]
struct FakeNode {
    lines: Arc<Mutex<Vec<LogLine>>>,
    opened: Arc<Mutex<Vec<LogSelection>>>,
    closed: Arc<Mutex<usize>>,
}

impl FakeNode {
    /// From now on node `name` has these lines for every container; times are in seconds.
    async fn start(bus: &Bus, name: &str, lines: &[(i64, &str)]) -> Self {
        let node = Self::default();
        lines.iter().for_each(|(time, text)| node.write(*time, text));
        let mut requests = bus.subscribe(&subjects::session(&name.parse().unwrap())).await.unwrap();
        bus.flush().await.unwrap();
        let (bus, fake) = (bus.clone(), node.clone());
        fabric::tasks::spawn("node", async move {
            while let Some(request) = requests.next().await {
                if let Some(reply) = fake.answer(request.decode().unwrap()) {
                    bus.answer(&request.reply.unwrap(), &reply).await.unwrap();
                }
            }
        });
        node
    }

    fn write(&self, time: i64, text: &str) {
        let time = LogTime::from_nanos(time * 1_000_000_000);
        self.lines.lock().unwrap().push(LogLine { time, stream: LogStream::Stdout, line: text.to_owned() });
    }

    fn answer(&self, request: SessionRequest) -> Option<SessionReply> {
        match request {
            SessionRequest::Open { what: SessionContent::Log(selection) } => {
                let session = if selection.follow { "follow" } else { "once" }.to_owned();
                self.opened.lock().unwrap().push(selection);
                Some(SessionReply::Opened { session, started_at: Timestamp::NEVER, at: Timestamp::NEVER })
            }
            SessionRequest::Read { session, from, .. } => {
                let all = self.lines.lock().unwrap().clone();
                let next = u64::try_from(all.len()).unwrap();
                let lines = all.into_iter().skip(usize::try_from(from).unwrap()).collect();
                Some(SessionReply::Lines { lines, next, is_end: session == "once" })
            }
            SessionRequest::Close { .. } => {
                *self.closed.lock().unwrap() += 1;
                None
            }
        }
    }
}

impl World {
    /// Creates `hello.web.web` with this number of instances; the last one of three has no node.
    async fn group(&self, count: u32) {
        let spec = spec_with("\"NumInstances\":2", &format!("\"NumInstances\":{count}"));
        assert_eq!(self.post("/api/podgroups", &spec).await.status, 202);
    }
}

fn shown(instance: u32, node: &str, seconds: i64, text: &str) -> Value {
    let time = LogTime::from_nanos(seconds * 1_000_000_000).to_string();
    json!({"Instance": instance, "Container": 0, "Node": node, "Time": time, "Stream": "stdout", "Line": text})
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_merged_by_time_and_an_instance_that_cannot_be_read_says_why() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    world.group(3).await;
    let first = FakeNode::start(&world.bus, "n1", &[(1, "a"), (3, "c\u{1b}")]).await;
    let second = FakeNode::start(&world.bus, "n2", &[(2, "b"), (4, "d")]).await;
    let seen = world.get("/api/logs?name=hello.web.web&tail=5&since=1970-01-01T00:00:01Z").await;
    assert_eq!((seen.status, seen.content_type.as_str()), (200, "application/x-ndjson"), "{}", seen.text);
    let (problems, lines): (Vec<Value>, Vec<Value>) =
        objects(&seen.text).into_iter().partition(|object| object["Error"].is_string());
    let expected =
        [shown(1, "n1", 1, "a"), shown(2, "n2", 2, "b"), shown(1, "n1", 3, "c\u{1b}"), shown(2, "n2", 4, "d")];
    assert_eq!(lines, expected);
    assert_eq!(problems, [json!({"Instance": 3, "Container": 0, "Error": "the instance has no node yet"})]);
    let asked = first.opened.lock().unwrap()[0].clone();
    assert_eq!((asked.tail, asked.since, asked.follow), (Some(5), Some(LogTime::from_nanos(1_000_000_000)), false));
    assert_eq!(asked.pod.to_string(), "hello.web.web.v0-i1-d0");
    eventually("the sessions are closed", async || {
        (*first.closed.lock().unwrap() == 1 && *second.closed.lock().unwrap() == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_an_agent_that_knows_logs_is_named_with_the_remedy() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    world.group(2).await;
    let _first = FakeNode::start(&world.bus, "n1", &[(1, "a")]).await;
    let seen = world.get("/api/logs?name=hello.web.web").await;
    let found = objects(&seen.text);
    assert!(found.contains(&shown(1, "n1", 1, "a")), "{}", seen.text);
    let problem = found.iter().find_map(|object| object["Error"].as_str()).expect("an error");
    for part in ["no agent of n2 answers", "older than this apiserver", "deployctl bus-keys"] {
        assert!(problem.contains(part), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_exist_is_404_and_what_makes_no_sense_400() {
    let world = World::start().await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    world.group(2).await;
    let named = "name=hello.web.web";
    for (query, status, part) in [
        (String::new(), 400, "No pod group name provided."),
        ("name=a.b.c".to_owned(), 404, "No such pod group name=a.b.c"),
        (format!("{named}&instance=3"), 404, "hello.web.web has no instance 3; it has the instances 1 to 2"),
        (format!("{named}&container=1"), 404, "no container 1; they have the containers 0 to 0"),
        (format!("{named}&since=soon"), 400, "neither a time"),
        (format!("{named}&tail=few"), 400, "tail: \"few\" is not a number"),
        (format!("{named}&follow=true&previous=true"), 400, "exclude each other"),
    ] {
        let seen = world.get(&format!("/api/logs?{query}")).await;
        assert!(seen.status == status && seen.message().contains(part), "{query}: {} {}", seen.status, seen.text);
    }
}

/// The next object of an answer; none at its end.
async fn next(response: &mut Response, rest: &mut String) -> Option<Value> {
    let read = async {
        loop {
            if let Some((line, more)) = rest.clone().split_once('\n') {
                more.clone_into(rest);
                if !line.is_empty() {
                    return Some(serde_json::from_str(line).unwrap());
                }
            } else {
                let chunk = response.chunk().await.ok().flatten()?;
                rest.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        }
    };
    tokio::time::timeout(LONG, read).await.expect("an object or the end in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_gets_new_lines_counts_as_a_follower_and_ends_with_the_server() {
    let world = World::start_with(&["--followers-per-peer", "1"]).await;
    let _leader = Leader::start(&world.bus, Manner::Leads).await;
    world.group(1).await;
    let node = FakeNode::start(&world.bus, "n1", &[(1, "a")]).await;
    let path = "/api/logs?name=hello.web.web&follow=true&after=1.0=1970-01-01T00:00:01Z";
    let mut response = world.client.get(world.at(path)).timeout(LONG * 3).send().await.unwrap();
    let mut rest = String::new();
    assert_eq!(next(&mut response, &mut rest).await, Some(shown(1, "n1", 1, "a")));
    assert_eq!(node.opened.lock().unwrap()[0].since, Some(LogTime::from_nanos(1_000_000_000)));
    let refused = world.get("/api/logs?name=hello.web.web").await;
    assert!(refused.status == 429 && refused.retry_after, "{}", refused.text);
    node.write(2, "b");
    assert_eq!(next(&mut response, &mut rest).await, Some(shown(1, "n1", 2, "b")));
    world.shutdown.trigger();
    assert_eq!(next(&mut response, &mut rest).await, None);
    tokio::time::timeout(LONG, world.server).await.expect("it does not wait for readers").unwrap();
}
