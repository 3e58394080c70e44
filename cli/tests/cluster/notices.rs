//! Notices end to end: each of the nine texts at a real callback, and a callback that does not answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::api::{DeadLetters, Events};
use contract::event::{Event, Kind};
use contract::time::Timestamp;
use fabric::clock::Clock;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::cluster::{Cluster, demo_group, eventually};
use crate::receiver::{Manner, Post, Receiver};

const SOON: Duration = Duration::from_secs(60);
/// Short intervals, so that the test is fast.
const QUICK: [(&str, &str); 4] = [
    ("DEPLOYD_HEARTBEAT", "1s"),
    ("DEPLOYD_REREAD", "2s"),
    ("DEPLOYD_HEALTH_POLL", "1s"),
    ("DEPLOYD_EARLY_EXIT", "2s"),
];

pub(crate) async fn registered(cluster: &Cluster, manner: Manner) -> Receiver {
    let receiver = Receiver::start(manner).await;
    let asked = [("callback", receiver.url())];
    let path = reqwest::Url::parse_with_params("http://api/api/notifies", asked).expect("a URL");
    let path = format!("{}?{}", path.path(), path.query().expect("a callback"));
    cluster.accepted(Method::POST, &path, None).await;
    receiver
}

/// Waits for the notice with this text about this pod; its body is exactly deployd's.
async fn told(receiver: &Receiver, pod: &str, message: &str) -> Value {
    let of = |post: &Post| {
        let body: Value = serde_json::from_str(&post.body).expect("JSON");
        (body["Message"] == message && body["PodName"] == pod).then(|| (post.clone(), body))
    };
    let what = format!("told of {pod}: {message}");
    let (post, body) = eventually(SOON, &what, async || receiver.posted().iter().find_map(of)).await;
    let keys: BTreeSet<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["InstanceNo", "Level", "Message", "Namespace", "PodName", "Timestamp"]));
    assert_eq!((&body["Level"], post.content_type.as_str()), (&json!("Error"), "application/json"));
    assert!(post.body.starts_with("{\"Level\":\"Error\",\"Namespace\":"), "deployd's order, compact: {}", post.body);
    let time = Timestamp::parse(body["Timestamp"].as_str().expect("a text")).expect("a time");
    let age = Clock::start().now().since(time);
    assert!(age < Duration::from_secs(600), "{age:?} ago: {body}");
    body
}

pub(crate) async fn about(receiver: &Receiver, group: &str, instance: u64, message: &str) {
    let body = told(receiver, group, message).await;
    let namespace = group.split('.').next().expect("a first part");
    assert_eq!((&body["Namespace"], &body["InstanceNo"]), (&json!(namespace), &json!(instance)));
}

async fn about_cluster(receiver: &Receiver, who: &str, message: &str) {
    let body = told(receiver, who, message).await;
    assert_eq!((&body["Namespace"], &body["InstanceNo"]), (&json!("Cluster"), &json!(1)));
}

pub(crate) async fn events(cluster: &Cluster, query: &str) -> Vec<Event> {
    let (status, body) = cluster.call(0, Method::GET, &format!("/api/events?{query}"), None).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str::<Events>(&body).expect("events").events
}

async fn create(cluster: &Cluster, group: &Value) {
    cluster.accepted(Method::POST, "/api/podgroups", Some(group)).await;
}

fn misbehaving(name: &str, environment: &[&str]) -> Value {
    let mut group = demo_group(name, 1);
    group["Pod"]["Containers"][0]["Env"] = json!(environment);
    group
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_about_instances_have_the_texts_of_the_original() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    let receiver = registered(&cluster, Manner::Takes).await;
    let mut ill = demo_group("tell.ill.web", 1);
    // The image has no such program, so the check fails whatever the demo says.
    ill["Pod"]["HealthConfig"] = json!({"cmd": "/bin/false", "options": {"interval": 10, "timeout": 3, "retries": 3}});
    create(&cluster, &ill).await;
    create(&cluster, &demo_group("tell.web.web", 3)).await;
    create(&cluster, &misbehaving("tell.oom.web", &["DEMO_EAT_MEMORY_AFTER_MS=300"])).await;
    create(&cluster, &misbehaving("tell.loop.web", &["DEMO_EXIT_AFTER_MS=50", "DEMO_EXIT_CODE=3"])).await;
    cluster.running("tell.web.web", 3, SOON).await;
    let web = cluster.exactly("tell.web.web", 3, SOON).await;
    cluster.engine.kill(&web[0].id).await;
    cluster.engine.remove(&web[1].id).await;
    cluster.engine.disconnect(&web[2].id).await;

    about(&receiver, "tell.web.web", 1, "LAIN found pod down, ready to restart it").await;
    about(&receiver, "tell.web.web", 2, "LAIN found pod missing, ready to redeployd it").await;
    about(&receiver, "tell.web.web", 3, "LAIN found pod lost IP, please inform the SA team").await;
    about(&receiver, "tell.oom.web", 1, "LAIN found pod down with OOM, ready to restart it").await;
    let is_crash_looping = "LAIN found pod restart too many times in a short period, will let it go";
    about(&receiver, "tell.loop.web", 1, is_crash_looping).await;
    about(&receiver, "tell.ill.web", 1, "LAIN found pod Unhealthy, please check your service").await;

    let standing = receiver.posted().iter().filter(|post| post.body.contains(is_crash_looping)).count();
    assert!(standing <= 2, "one for each group that was let go, not one per look: {standing}");
    let incidents = events(&cluster, "kind=incident&group=tell.loop.web").await;
    let explained = |event: &Event| event.message.starts_with(is_crash_looping) && event.message.contains(": exited (");
    assert!(incidents.iter().any(explained), "{incidents:?}");
    let placed = events(&cluster, "kind=placed&group=tell.web.web").await;
    let anew = |event: &Event| event.instance == 2 && event.message.contains("drift 1");
    assert!(placed.len() >= 4 && placed.iter().any(anew), "{placed:?}");
}

/// A socket in the engine's place, which can be taken away.
struct Door {
    socket: PathBuf,
    serving: tokio::task::JoinHandle<()>,
}

impl Door {
    fn open(socket: &Path) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let serving = fabric::tasks::spawn("door", async move {
            let mut passing = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                passing.spawn(async move {
                    let mut engine = UnixStream::connect("/var/run/docker.sock").await.expect("the engine's socket");
                    // The side that closes first ends it.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
                });
            }
        });
        Self { socket: socket.to_owned(), serving }
    }

    /// Closes every connection and the listener.
    fn close(self) {
        self.serving.abort();
        std::fs::remove_file(&self.socket).expect("the socket goes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_docker_outage_is_reported_once_and_its_nodes_are_in_the_events() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let socket = folder.path().join("engine.sock");
    let door = Door::open(&socket);
    // The cluster keeps its settings for as long as it lives: as long as the test.
    let host: &'static str = String::leak(format!("unix://{}", socket.display()));
    let environment = [("DOCKER_HOST", host), ("DEPLOYD_ENGINE_AWAY_AFTER", "2s"), ("DEPLOYD_HEARTBEAT", "1s")];
    let cluster = Cluster::start_with(&environment, &[]).await;
    let receiver = registered(&cluster, Manner::Takes).await;
    door.close();
    about_cluster(&receiver, "Cluster-Manager", "LAIN found Cluster Manager Unhealthy, please check your cluster")
        .await;
    let nodes = eventually(SOON, "every node is named", async || {
        let incidents = events(&cluster, "kind=incident").await;
        let nodes: BTreeSet<String> = incidents.into_iter().filter_map(|e| e.node).map(|n| n.to_string()).collect();
        (nodes.len() == 3).then_some(nodes)
    })
    .await;
    assert_eq!(nodes, ["node-1", "node-2", "node-3"].map(str::to_owned).into());
    assert_eq!(receiver.posted().len(), 1, "one notice for all of them");
    let _door = Door::open(&socket);
    eventually(SOON, "the engine answers again", async || {
        let told = events(&cluster, "kind=node").await;
        (told.iter().filter(|event| event.message == "its engine answers again").count() == 3).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_lost_nodes_stop_scheduling_and_are_reported() {
    let cluster = Cluster::start_with(&QUICK, &["--nodes", "5", "--suspect-after", "3s"]).await;
    let receiver = registered(&cluster, Manner::Takes).await;
    // Losses count once the bus has been there for a while: the leader took over after it came.
    eventually(SOON, "the bus has been there for a while", async || {
        let leaders = events(&cluster, "kind=leader").await;
        let since = leaders.last().expect("a leader").at;
        (Clock::start().now().since(since) > Duration::from_secs(14)).then_some(())
    })
    .await;
    for agent in ["agent-1", "agent-2", "agent-3"] {
        cluster.signal(agent, Signal::STOP);
    }
    let text =
        "LAIN found too many cluster nodes stoped in a short period, need stop the engine, please check your cluster";
    about_cluster(&receiver, "Deployd", text).await;
    let (status, body) = cluster.call(0, Method::GET, "/api/status", None).await;
    assert!(status == StatusCode::OK && body.contains("stopped"), "{status} {body}");
    for agent in ["agent-1", "agent-2", "agent-3"] {
        cluster.signal(agent, Signal::CONT);
    }
    let stopped = events(&cluster, "kind=engine").await;
    assert_eq!(stopped.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), ["scheduling was stopped"]);
    let silent = events(&cluster, "kind=incident").await;
    assert!(silent.iter().any(|event| event.message.ends_with("(node-1, node-2, node-3)")), "{silent:?}");
    let suspects = events(&cluster, "kind=node&node=node-1").await;
    assert!(suspects.iter().any(|event| event.kind == Kind::Node && event.message.contains("suspect")), "{suspects:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_fails_is_tried_again_and_what_is_given_up_is_listed() {
    let cluster = Cluster::start_with(&[("DEPLOYD_RETRY_DELAYS", "200ms,400ms")], &[]).await;
    let recovers = registered(&cluster, Manner::Refuses).await;
    let never = registered(&cluster, Manner::Refuses).await;
    create(&cluster, &demo_group("tell.late.web", 1)).await;
    cluster.running("tell.late.web", 1, SOON).await;
    let web = cluster.exactly("tell.late.web", 1, SOON).await;
    cluster.engine.kill(&web[0].id).await;
    eventually(SOON, "a first attempt", async || (!recovers.posted().is_empty()).then_some(())).await;
    recovers.change(Manner::Takes);
    let posts = eventually(SOON, "three attempts", async || {
        let posts = never.posted();
        (posts.len() == 3).then_some(posts)
    })
    .await;
    let waits: Vec<Duration> = posts.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(waits[0] >= Duration::from_millis(200) && waits[1] >= Duration::from_millis(400), "{waits:?}");
    let letter = eventually(SOON, "the dead letter is listed", async || {
        let (_, body) = cluster.call(0, Method::GET, "/api/deadletters?limit=5", None).await;
        serde_json::from_str::<DeadLetters>(&body).ok()?.dead_letters.pop()
    })
    .await;
    assert!(letter.reason.contains("given up, delivery 3"), "{letter:?}");
    // Of the URL only the host: the rest may hold a secret.
    let host: String = never.url().split('/').take(3).collect::<Vec<_>>().join("/");
    assert!(letter.payload.contains(&format!("{host}/…")) && letter.payload.contains("tell.late.web"), "{letter:?}");
    let taken = recovers.posted();
    assert!((2..=3).contains(&taken.len()) && taken.iter().all(|post| post.body == taken[0].body), "{taken:?}");
}
