//! The log of a container: read from Docker, and by an apiserver through sessions.

use std::time::Duration;

use agent::docker::LogSource;
use contract::logs::{LogLine, LogStream, LogTime};
use contract::pod_id::PodId;
use contract::session::{LogSelection, SessionContent, SessionRefusal, SessionReply, SessionRequest};
use contract::spec::{LogConfig, PodSpec};
use contract::subjects;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::docker::{Cluster, in_cluster};
use super::node::{Node, PATIENCE, order, runs, world};

const GRACE: Duration = Duration::from_secs(10);

fn whole(pod: &PodId) -> LogSelection {
    LogSelection { pod: pod.clone(), container: 0, tail: None, since: None, previous: false, follow: false }
}

/// A pod whose container writes as the demo's variables say.
async fn writes(cluster: &Cluster, variables: &[&str]) -> PodSpec {
    let mut spec = cluster.spec(1);
    spec.containers[0].image = cluster.fresh_image().await;
    spec.containers[0].env = variables.iter().map(|&variable| variable.to_owned()).collect();
    spec
}

impl Cluster {
    async fn lines(&self, source: &LogSource, selection: LogSelection) -> Vec<LogLine> {
        let lines = self.engine("n1").log_lines(source, &selection).await.expect("a log");
        tokio::time::timeout(PATIENCE, lines.try_collect()).await.expect("it ends").expect("readable")
    }
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.line.as_str()).collect()
}

#[tokio::test]
async fn lines_are_selected_by_number_time_and_run() {
    in_cluster(async |cluster: &Cluster| {
        let (engine, pod) = (cluster.engine("n1"), cluster.pod(1));
        let spec = writes(cluster, &["DEMO_LINES=2"]).await;
        let made = engine.create(&cluster.plan(&spec, 0)).await.expect("creates").expect("is there");
        let source = async || engine.log_source(&pod, 0).await.expect("looks").expect("is there");
        let first = source().await;
        assert_eq!(
            (first.id.as_str(), first.driver.as_str(), first.started_at),
            (made.id.as_str(), "json-file", made.started_at)
        );
        let run = ["line 1", "line 2", "demo listens on 8080"];
        let all = loop {
            let all = cluster.lines(&first, whole(&pod)).await;
            if all.len() == run.len() {
                break all;
            }
        };
        assert_eq!(texts(&all), run);
        let last_two = cluster.lines(&first, LogSelection { tail: Some(2), ..whole(&pod) }).await;
        assert_eq!(texts(&last_two), &run[1..]);
        let since = cluster.lines(&first, LogSelection { since: Some(all[1].time), ..whole(&pod) }).await;
        assert_eq!(texts(&since), &run[1..]);
        let later = LogTime::from_nanos(all[2].time.as_nanos() + 1);
        assert_eq!(cluster.lines(&first, LogSelection { since: Some(later), ..whole(&pod) }).await, []);
        let previous = LogSelection { previous: true, ..whole(&pod) };
        assert_eq!(cluster.lines(&first, previous.clone()).await, [], "it has started once");

        engine.stop(&made.id, GRACE).await.expect("stops");
        assert_eq!(texts(&cluster.lines(&source().await, whole(&pod)).await), run, "also while it is down");
        engine.start(&made.id).await.expect("starts");
        let second = source().await;
        assert_eq!(texts(&cluster.lines(&second, previous.clone()).await), run);
        let last = LogSelection { tail: Some(1), ..previous };
        assert_eq!(texts(&cluster.lines(&second, last).await), ["demo listens on 8080"]);
        assert_eq!(engine.log_source(&cluster.pod(2), 0).await.expect("looks"), None);
        assert_eq!(engine.log_source(&pod, 1).await.expect("looks"), None);
    })
    .await;
}

#[tokio::test]
async fn a_followed_log_continues_until_the_container_exits() {
    in_cluster(async |cluster: &Cluster| {
        let (engine, pod) = (cluster.engine("n1"), cluster.pod(1));
        let spec = writes(cluster, &["DEMO_LINE_EVERY_MS=50"]).await;
        let made = engine.create(&cluster.plan(&spec, 0)).await.expect("creates").expect("is there");
        let source = engine.log_source(&pod, 0).await.expect("looks").expect("is there");
        let follow = LogSelection { follow: true, ..whole(&pod) };
        let mut lines = std::pin::pin!(engine.log_lines(&source, &follow).await.expect("a log"));
        for _ in 0..10 {
            tokio::time::timeout(PATIENCE, lines.next()).await.expect("in time").expect("a line").expect("readable");
        }
        cluster.kill(&made.id).await;
        let rest = async { while lines.next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, rest).await.expect("the log ends with the container");
    })
    .await;
}

impl Node {
    async fn session(&self, request: &SessionRequest) -> SessionReply {
        self.bus.request(&subjects::session(&self.name), request, PATIENCE).await.expect("an answer")
    }

    async fn open(&self, selection: LogSelection) -> SessionReply {
        self.session(&SessionRequest::Open { what: SessionContent::Log(selection) }).await
    }

    async fn opened(&self, selection: LogSelection) -> String {
        match self.open(selection).await {
            SessionReply::Opened { session, .. } => session,
            other => panic!("{other:?}"),
        }
    }

    async fn read(&self, session: &str, from: u64) -> SessionReply {
        self.session(&SessionRequest::Read { session: session.to_owned(), from, wait_millis: 1000 }).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gives_every_line_once_to_a_slow_reader_whose_replies_are_lost() {
    const LINES: u64 = 20_000;
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let mut wanted = order(cluster, 1, 1);
        let pod = cluster.pod(1);
        let count = format!("DEMO_LINES={LINES}");
        wanted.specs.insert(pod.spec_key(), std::sync::Arc::new(writes(cluster, &[&count]).await));
        node.order(&wanted).await;
        node.until(|report| runs(report.pods.get(&pod))).await;
        let session = node.opened(LogSelection { follow: true, ..whole(&pod) }).await;
        let (mut from, mut seen, mut largest) = (0, Vec::new(), 0);
        while seen.len() < usize::try_from(LINES).expect("small") {
            let lost = node.read(&session, from).await;
            largest = largest.max(serde_json::to_vec(&lost).expect("encodes").len());
            let SessionReply::Lines { lines, next, is_end: false } = node.read(&session, from).await else {
                panic!("after {from}: {lost:?}")
            };
            seen.extend(lines.into_iter().filter(|line| line.line.starts_with("line ")));
            from = next;
        }
        assert!((100_000..300_000).contains(&largest), "{largest} bytes");
        let number = |line: &LogLine| line.line[5..].parse::<u64>().expect("a number");
        assert!(seen.iter().all(|line| (line.stream == LogStream::Stderr) == number(line).is_multiple_of(3)));
        // Docker may swap lines of the two streams, but neither loses nor repeats one.
        let mut numbers: Vec<u64> = seen.iter().map(number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=LINES));

        let close = SessionRequest::Close { session: session.clone() };
        node.bus.publish(&subjects::session(&node.name), &close).await.expect("sends");
        let gone = SessionReply::Refused(SessionRefusal::NoSession);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while node.read(&session, from).await != gone {
            assert!(tokio::time::Instant::now() < deadline, "it is still open");
        }
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused_with_the_reason() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let mut wanted = order(cluster, 1, 1);
        let pod = cluster.pod(1);
        let mut spec = cluster.spec(1);
        spec.containers[0].log_config = LogConfig { kind: "none".to_owned(), ..LogConfig::default() };
        wanted.specs.insert(pod.spec_key(), std::sync::Arc::new(spec));
        node.order(&wanted).await;
        node.until(|report| runs(report.pods.get(&pod))).await;
        let session = node.opened(whole(&pod)).await;
        let unreadable = SessionRefusal::Unreadable { driver: "none".to_owned() };
        assert_eq!(node.read(&session, 0).await, SessionReply::Refused(unreadable));
        assert_eq!(node.open(whole(&cluster.pod(2))).await, SessionReply::Refused(SessionRefusal::NoContainer));
        let later: SessionReply =
            node.bus.request(&subjects::session(&node.name), &"later", PATIENCE).await.expect("an answer");
        assert_eq!(later, SessionReply::Refused(SessionRefusal::Unsupported));
        node.stop().await;
    })
    .await;
}
