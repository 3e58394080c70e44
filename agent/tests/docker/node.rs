//! A whole agent with real bus, Docker and ledger, and a scheduler's copy of its report.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent::app::App;
use agent::config::Config;
use agent::name_claim::Taken;
use clap::Parser as _;
use contract::fence::{Fence, Term};
use contract::name::NodeName;
use contract::order::{Assignment, Order, OrderMessage, OrderReply};
use contract::report::{PodFacts, Report, ReportMessage};
use contract::state::{RestartPolicy, RunState, TargetState};
use contract::subjects;
use fabric::local::{NatsServer, free_port};
use fabric::nats::{Bus, RequestError, Subscription};
use fabric::shutdown::Shutdown;
use tokio::task::JoinHandle;

use super::docker::{Cluster, SOCKET};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Node {
    pub(crate) bus: Bus,
    pub(crate) name: NodeName,
    reports: Subscription,
    copy: Option<Report>,
    shutdown: Shutdown,
    running: JoinHandle<Result<(), Taken>>,
}

impl Node {
    pub(crate) async fn start(cluster: &Cluster, nats: &NatsServer, home: &Path) -> Self {
        Self::start_with(nats, words(cluster, nats, home)).await
    }
    /// With these words on its command line.
    pub(crate) async fn start_with(nats: &NatsServer, words: Vec<String>) -> Self {
        let shutdown = Shutdown::new();
        let config = Config::parse_from(words);
        let building = Box::pin(App::build(config, shutdown.clone()));
        let (bus, name, reports) = listen(nats).await;
        let running = fabric::tasks::spawn("agent", building.await.expect("builds").run());
        let mut node = Self { bus, name, reports, copy: None, shutdown, running };
        // Ready once it reports.
        node.until(|_| true).await;
        node
    }
    /// The scheduler's side of an agent process.
    pub(crate) async fn of_process(nats: &NatsServer) -> Self {
        let (bus, name, reports) = listen(nats).await;
        let running = fabric::tasks::spawn("nothing", async { Ok(()) });
        Self { bus, name, reports, copy: None, shutdown: Shutdown::new(), running }
    }
    pub(crate) async fn stop(self) {
        self.shutdown.trigger();
        self.running.await.expect("ends").expect("no duplicate agent");
    }
    pub(crate) async fn order(&self, order: &Order) -> OrderReply {
        let (message, subject) = (OrderMessage::Whole(order.clone()), subjects::order(&self.name));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.bus.request(&subject, &message, PATIENCE).await {
                // The report may be of the previous process.
                Err(RequestError::NoResponders { .. }) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                answer => return answer.expect("an answer"),
            }
        }
    }
    /// Folds reports until `done`.
    pub(crate) async fn until(&mut self, done: impl Fn(&Report) -> bool) -> &Report {
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

pub(crate) fn words(cluster: &Cluster, nats: &NatsServer, home: &Path) -> Vec<String> {
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

/// An agent process, killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(words: &[String]) -> Self {
        Self(Command::new(env!("CARGO_BIN_EXE_deployd-agent")).args(&words[1..]).spawn().expect("spawns"))
    }
    /// Also captures its stderr.
    pub(crate) fn spawn_heard(words: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deployd-agent"));
        Self(command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("spawns"))
    }
    /// Waits for its exit; returns the exit code and stderr.
    pub(crate) fn ended(&mut self) -> Option<(Option<i32>, String)> {
        let status = self.0.try_wait().expect("a child")?;
        let mut said = String::new();
        self.0.stderr.take().expect("heard").read_to_string(&mut said).expect("text");
        Some((status.code(), said))
    }
}
impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub(crate) fn order(cluster: &Cluster, generation: u64, instances: u32) -> Order {
    let mut order = Order { fence: Fence { term: Term(1), generation }, ..Order::default() };
    for instance in 1..=instances {
        let pod = cluster.pod(instance);
        order.specs.insert(pod.spec_key(), Arc::new(cluster.spec(1)));
        order.pods.insert(pod, always());
    }
    order
}

pub(crate) fn always() -> Assignment {
    Assignment { target: TargetState::Run, restart_policy: RestartPolicy::Always, ..Assignment::default() }
}

pub(crate) fn runs(facts: Option<&PodFacts>) -> bool {
    facts.is_some_and(|facts| facts.state == RunState::Success)
}

pub(crate) async fn world() -> (NatsServer, tempfile::TempDir) {
    let home = tempfile::tempdir().expect("a directory");
    let nats = NatsServer::start(&home.path().join("nats"), 0).await.expect("a nats-server");
    (nats, home)
}
