//! One nats-server, one etcd, any number of scheduler processes, and a client of theirs.

use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::time::Duration;

use contract::command::{Command, Outcome, Verb};
use contract::query::{Answer, Query, Reply};
use contract::subjects;
use contract::time::Timestamp;
use fabric::etcd::Store;
use fabric::local::{EtcdServer, NatsServer, free_port};
use fabric::nats::{Bus, Subscription};
use tempfile::TempDir;
use testkit::samples::{ADMIN, admin};
use tokio::time::Instant;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Cluster {
    pub(crate) nats: NatsServer,
    pub(crate) etcd: EtcdServer,
    pub(crate) bus: Bus,
    pub(crate) store: Store,
    pub(crate) dir: TempDir,
}

pub(crate) struct Scheduler {
    child: Child,
    admin: String,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let nats = NatsServer::start(&dir.path().join("nats"), 0).await.unwrap();
        let etcd = EtcdServer::start(&dir.path().join("etcd"), 0).await.unwrap();
        let bus = Bus::connect(&fabric::nats::Args::at(nats.url()), "test").await.unwrap();
        let store = Store::connect(&fabric::etcd::Args::at(etcd.url())).await.unwrap();
        Self { nats, etcd, bus, store, dir }
    }

    pub(crate) fn program(&self, name: &str) -> (Program, String) {
        let admin = format!("127.0.0.1:{}", free_port());
        let mut program = Program::new(env!("CARGO_BIN_EXE_deployd-scheduler"));
        program.args(["--name", name, "--listen", &admin, "--nats", &self.nats.url(), "--etcd", &self.etcd.url()]);
        program.args(["--anonymous", ADMIN, "--accept-nodes", "*"]);
        let log = std::fs::File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        program.stdout(Stdio::null()).stderr(log);
        (program, format!("http://{admin}"))
    }

    /// Starts a scheduler and waits until it is ready.
    pub(crate) async fn scheduler(&self, name: &str) -> Scheduler {
        self.scheduler_with(name, &[]).await
    }

    pub(crate) async fn scheduler_with(&self, name: &str, settings: &[&str]) -> Scheduler {
        let (mut program, admin) = self.program(name);
        program.args(settings);
        let scheduler = Scheduler { child: program.spawn().unwrap(), admin };
        let started = Instant::now();
        while scheduler.get("/readyz").await.is_none_or(|(status, _)| status != 200) {
            assert!(started.elapsed() < LIMIT, "{name} is not ready: {}", self.log(name));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        scheduler
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Sends a command as an apiserver does; the subscription receives its outcome.
    pub(crate) async fn command(&self, id: &str, verb: Verb) -> Subscription {
        let (parsed, at, by) = (id.parse().unwrap(), Timestamp::from_millis(1), "test".to_owned());
        let command = Command { id: parsed, at, by, verb, digest: None, credentials: admin() };
        self.send_raw(id, &command).await
    }

    /// Sends any value as a command.
    pub(crate) async fn send_raw<T: serde::Serialize>(&self, id: &str, value: &T) -> Subscription {
        let inbox = self.bus.inbox();
        let outcome = self.bus.subscribe(&inbox).await.unwrap();
        let headers = [(subjects::REPLY_HEADER, inbox.as_str())];
        let started = Instant::now();
        loop {
            let stored =
                self.bus.publish_durable(subjects::COMMANDS, id, &headers, value, Duration::from_secs(5)).await;
            match stored {
                Ok(_) => return outcome,
                Err(error) => assert!(started.elapsed() < LIMIT, "{error}"),
            }
        }
    }

    pub(crate) async fn ask_leader(&self, query: &Query) -> Option<Reply> {
        self.bus.request(subjects::QUERY_LEADER, query, Duration::from_secs(2)).await.ok()
    }

    /// Name and term of the leader, once there is one.
    pub(crate) async fn leader(&self) -> (String, u64) {
        let started = Instant::now();
        loop {
            if let Some(Reply { stale: false, answer: Answer::Cluster(view), .. }) =
                self.ask_leader(&Query::Cluster).await
                && let Some(term) = view.term
            {
                return (view.scheduler, term.0);
            }
            assert!(started.elapsed() < LIMIT, "no scheduler leads");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the leader has at least `count` callbacks.
    pub(crate) async fn callbacks(&self, count: usize) -> Vec<String> {
        let started = Instant::now();
        loop {
            if let Some(Reply { answer: Answer::Callbacks(urls), .. }) = self.ask_leader(&Query::Callbacks).await
                && urls.len() >= count
            {
                return urls;
            }
            assert!(started.elapsed() < LIMIT, "not {count} callbacks in time");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) fn add_callback(number: usize) -> Verb {
    Verb::AddCallback { url: format!("http://127.0.0.1:1/{number:04}") }
}

pub(crate) async fn outcome(reply: &mut Subscription) -> Outcome {
    let message = tokio::time::timeout(LIMIT, reply.next()).await.expect("an outcome in time").expect("open");
    message.decode().unwrap()
}

impl Scheduler {
    pub(crate) async fn get(&self, path: &str) -> Option<(u16, String)> {
        let client = fabric::http::client(Duration::from_secs(10));
        let answer = client.get(format!("{}{path}", self.admin)).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < LIMIT, "the scheduler does not exit");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}
