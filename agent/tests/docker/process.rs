//! The whole agent: real bus, real engine, real ledger.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::app::App;
use agent::config::Config;
use clap::Parser as _;
use contract::fence::{Fence, Term};
use contract::name::NodeName;
use contract::order::{Assignment, Order, OrderMessage, OrderReply};
use contract::query::{InspectReply, InspectRequest};
use contract::report::{PodFacts, Report, ReportMessage};
use contract::state::{RestartPolicy, RunState, TargetState};
use contract::subjects;
use fabric::local::{NatsServer, free_port};
use fabric::nats::{Bus, Subscription};
use fabric::shutdown::Shutdown;
use tokio::task::JoinHandle;

use super::docker::{Cluster, SOCKET, in_cluster};

const PATIENCE: Duration = Duration::from_secs(30);

struct Node {
    bus: Bus,
    name: NodeName,
    reports: Subscription,
    copy: Option<Report>,
    shutdown: Shutdown,
    running: JoinHandle<()>,
}

impl Node {
    async fn start(cluster: &Cluster, nats: &NatsServer, home: &Path) -> Self {
        let shutdown = Shutdown::new();
        let config = Config::parse_from(words(cluster, nats, home));
        let building = Box::pin(App::build(config, shutdown.clone()));
        let (bus, name, reports) = listen(nats).await;
        let running = fabric::tasks::spawn("agent", building.await.expect("builds").run());
        let mut node = Self { bus, name, reports, copy: None, shutdown, running };
        // As to a scheduler: a node is there once it reports.
        node.until(|_| true).await;
        node
    }
    async fn stop(self) {
        self.shutdown.trigger();
        self.running.await.expect("ends");
    }
    async fn order(&self, order: &Order) -> OrderReply {
        let message = OrderMessage::Whole(order.clone());
        self.bus.request(&subjects::order(&self.name), &message, PATIENCE).await.expect("an answer")
    }
    /// Folds reports until `done`.
    async fn until(&mut self, done: impl Fn(&Report) -> bool) -> &Report {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.copy.as_ref().is_some_and(&done) {
            let message = tokio::time::timeout_at(deadline, self.reports.next()).await;
            let message = message.unwrap_or_else(|_| panic!("never came: {:?}", self.copy)).expect("a report");
            match message.decode::<ReportMessage>().expect("readable") {
                ReportMessage::Whole(report) => self.copy = Some(report),
                ReportMessage::Delta(delta) => {
                    if !self.copy.as_mut().is_some_and(|copy| copy.apply(&delta)) {
                        self.copy = None;
                        self.bus.publish(&subjects::resync(&self.name), &()).await.expect("asks");
                    }
                }
                ReportMessage::Heartbeat(heartbeat) => {
                    if self.copy.as_ref().is_none_or(|copy| copy.head.stamp != heartbeat.stamp) {
                        self.bus.publish(&subjects::resync(&self.name), &()).await.expect("asks");
                    }
                }
            }
        }
        self.copy.as_ref().expect("just folded")
    }
}

async fn listen(nats: &NatsServer) -> (Bus, NodeName, Subscription) {
    let bus = Bus::connect(&fabric::nats::Args::at(nats.url()), "test").await.expect("connects");
    let name: NodeName = "n1".parse().expect("a name");
    let reports = bus.subscribe(&subjects::report(&name)).await.expect("subscribes");
    (bus, name, reports)
}

fn words(cluster: &Cluster, nats: &NatsServer, home: &Path) -> Vec<String> {
    let pairs = [
        ("--name", "n1".to_owned()),
        ("--cluster", cluster.id.clone()),
        ("--state-dir", home.join("state").display().to_string()),
        ("--docker", SOCKET.to_owned()),
        ("--volume-root", home.join("volumes").display().to_string()),
        ("--publish-ip", "127.0.0.1".to_owned()),
        ("--advertise-ip", "127.0.0.1".to_owned()),
        ("--listen", format!("127.0.0.1:{}", free_port())),
        ("--nats", nats.url()),
        ("--heartbeat", "300ms".to_owned()),
    ];
    let program = std::iter::once("deployd-agent".to_owned());
    program.chain(pairs.into_iter().flat_map(|(key, value)| [key.to_owned(), value])).collect()
}

/// The agent as a process of its own, killed when it is let go of.
struct Process(Child);

impl Process {
    fn spawn(words: &[String]) -> Self {
        Self(Command::new(env!("CARGO_BIN_EXE_deployd-agent")).args(&words[1..]).spawn().expect("spawns"))
    }
}
impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn order(cluster: &Cluster, generation: u64, instances: u32) -> Order {
    let mut order = Order { fence: Fence { term: Term(1), generation }, ..Order::default() };
    for instance in 1..=instances {
        let pod = cluster.pod(instance);
        order.specs.insert(pod.spec_key(), Arc::new(cluster.spec(1)));
        let assignment = Assignment { target: TargetState::Run, restart_policy: RestartPolicy::Always };
        order.pods.insert(pod, assignment);
    }
    order
}

fn runs(facts: Option<&PodFacts>) -> bool {
    facts.is_some_and(|facts| facts.state == RunState::Success)
}

async fn world() -> (NatsServer, tempfile::TempDir) {
    let home = tempfile::tempdir().expect("a directory");
    let nats = NatsServer::start(&home.path().join("nats"), 0).await.expect("a nats-server");
    (nats, home)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_made_true_and_a_killed_container_runs_again_at_once() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        let wanted = order(cluster, 1, 2);
        let fence = wanted.fence;
        assert_eq!(node.order(&wanted).await, OrderReply::Accepted { fence, digest: wanted.digest() });
        let (first, second) = (cluster.pod(1), cluster.pod(2));
        let report = node.until(|report| runs(report.pods.get(&first)) && runs(report.pods.get(&second))).await;
        assert_eq!(report.head.applied, fence);
        let container = report.pods[&first].containers[0].clone();
        assert!(container.running && !container.ip.is_empty());

        let killed = Instant::now();
        cluster.kill(&container.id).await;
        let again = |report: &Report| {
            report.pods.get(&first).is_some_and(|facts| facts.restarts == 1) && runs(report.pods.get(&first))
        };
        let facts = node.until(again).await.pods[&first].clone();
        println!("killed to reported running: {} ms", killed.elapsed().as_millis());
        assert_eq!(facts.containers[0].id, container.id);
        let down = facts.containers[0].started_at.since(facts.containers[0].finished_at);
        println!("down for {} ms by the engine's clock", down.as_millis());
        assert!(down < Duration::from_secs(5), "restarted only after {down:?}");

        assert!(matches!(node.order(&order(cluster, 2, 0)).await, OrderReply::Accepted { .. }));
        node.until(|report| report.pods.is_empty()).await;
        assert!(cluster.containers().await.is_empty());
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_keeps_its_fence_and_its_containers() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        node.order(&order(cluster, 5, 1)).await;
        let pod = cluster.pod(1);
        let before = node.until(|report| runs(report.pods.get(&pod))).await.pods[&pod].containers[0].clone();
        node.stop().await;
        assert!(cluster.is_running(&before.id).await, "an agent that stops leaves its containers running");

        let mut node = Node::start(cluster, &nats, home.path()).await;
        let stale = node.order(&order(cluster, 4, 0)).await;
        assert_eq!(stale, OrderReply::Stale { have: order(cluster, 5, 1).fence });
        let after = node.until(|report| runs(report.pods.get(&pod))).await.pods[&pod].containers[0].clone();
        assert_eq!((after.id, after.started_at), (before.id, before.started_at));
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_about_containers_are_answered_with_the_engines_documents() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let mut node = Node::start(cluster, &nats, home.path()).await;
        node.order(&order(cluster, 1, 2)).await;
        let (first, second) = (cluster.pod(1), cluster.pod(2));
        node.until(|report| runs(report.pods.get(&first)) && runs(report.pods.get(&second))).await;
        let question = InspectRequest { pods: vec![first.clone(), cluster.pod(9)] };
        let answer: InspectReply =
            node.bus.request(&subjects::inspect(&node.name), &question, PATIENCE).await.expect("an answer");
        assert_eq!(answer.pods.keys().collect::<Vec<_>>(), [&first]);
        let detail = &answer.pods[&first][0];
        assert!(detail.state.running && detail.name == format!("/{first}"));
        assert_eq!((detail.node.name.as_str(), detail.node.ip.as_str()), ("n1", "127.0.0.1"));
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_nobody_can_read_is_refused_and_kept_as_a_dead_letter() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let node = Node::start(cluster, &nats, home.path()).await;
        let mut letters = node.bus.subscribe(subjects::ALL_DEAD_LETTERS).await.expect("subscribes");
        let reply: OrderReply =
            node.bus.request(&subjects::order(&node.name), &"nonsense", PATIENCE).await.expect("an answer");
        assert!(matches!(reply, OrderReply::Failed { .. }), "{reply:?}");
        let letter = tokio::time::timeout(PATIENCE, letters.next()).await.expect("in time").expect("a letter");
        let letter: contract::notice::DeadLetter = letter.decode().expect("readable");
        assert!(letter.payload.contains("nonsense"), "{letter:?}");
        node.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_in_the_middle_of_work_finishes_it_and_makes_nothing_twice() {
    const PODS: u32 = 8;
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let words = words(cluster, &nats, home.path());
        let (bus, name, reports) = listen(&nats).await;
        let agent = Process::spawn(&words);
        let idle = fabric::tasks::spawn("nothing", async {});
        let mut node = Node { bus, name, reports, copy: None, shutdown: Shutdown::new(), running: idle };
        node.until(|_| true).await;
        let began = Instant::now();
        assert!(matches!(node.order(&order(cluster, 1, PODS)).await, OrderReply::Accepted { .. }));
        node.until(|report| report.pods.values().any(|facts| !facts.containers.is_empty())).await;
        drop(agent);

        let _again = Process::spawn(&words);
        let all = |report: &Report| {
            report.pods.len() == PODS as usize && report.pods.values().all(|facts| facts.state == RunState::Success)
        };
        let report = node.until(all).await;
        println!("{PODS} pods in {} ms, with a kill between", began.elapsed().as_millis());
        assert!(report.pods.values().all(|facts| facts.restarts == 0), "nothing was restarted");
        assert_eq!(cluster.containers().await.len(), PODS as usize);
    })
    .await;
}
