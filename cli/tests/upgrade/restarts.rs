//! Three apiservers behind HAProxy with the configuration of the compose stack, restarted one after the other under load: no
//! request fails.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use devcluster::plan::OWN_USER;
use fabric::local::{EtcdServer, NatsServer, free_port};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::cluster::{eventually, program};
use crate::load::Load;

/// 200 requests a second for a minute.
const REQUESTS: usize = 12_000;
const EVERY: Duration = Duration::from_millis(5);
/// Requests between two restarts: all six are over before the load is.
const BETWEEN: usize = 1500;
const SOON: Duration = Duration::from_secs(30);

/// A process of ours; dropping it kills it.
struct Process {
    child: Child,
    url: String,
}

/// The servers that every process of the test uses, and the folder of their logs.
struct Cluster<'a> {
    folder: &'a Path,
    nats: String,
    etcd: String,
}

impl Cluster<'_> {
    fn start(&self, name: &str, program: &Path, arguments: &[&str]) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join(format!("{name}.log")));
        let log = log.expect("a log");
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
    }

    async fn scheduler(&self) -> Process {
        let listen = format!("127.0.0.1:{}", free_port());
        let arguments = ["--listen", &listen, "--nats", &self.nats, "--etcd", &self.etcd, "--anonymous", OWN_USER];
        let child = self.start("scheduler", &program("deployd-scheduler"), &arguments);
        ready(Process { child, url: format!("http://{listen}") }).await
    }

    /// An apiserver with default settings; programs of this user, HAProxy too, need no token. All requests come from one address.
    async fn apiserver(&self, name: &str, listen: &str) -> Process {
        let own = ["--name", name, "--listen", listen, "--nats", &self.nats];
        let arguments = [&own[..], &["--anonymous", OWN_USER, "--requests-per-second", "0"]].concat();
        let child = self.start(name, &program("deployd-apiserver"), &arguments);
        ready(Process { child, url: format!("http://{listen}") }).await
    }

    /// HAProxy with `deploy/config/haproxy.cfg`, with these addresses in the place of the container names.
    async fn haproxy(&self, listen: &str, apiservers: &[String]) -> Process {
        let mut config =
            include_str!("../../../deploy/config/haproxy.cfg").replace("bind :9003", &format!("bind {listen}"));
        for (number, address) in (1..).zip(apiservers) {
            let server = format!(" apiserver-{number}:9003\n");
            assert!(config.contains(&server), "haproxy.cfg has no{server}");
            config = config.replace(&server, &format!(" {address}\n"));
        }
        let file = self.folder.join("haproxy.cfg");
        std::fs::write(&file, config).expect("the configuration is written");
        let haproxy = fabric::local::find("haproxy").expect("haproxy; `./deploy/need haproxy` gets it");
        let child = self.start("haproxy", &haproxy, &["-db", "-f", file.to_str().expect("a path in UTF-8")]);
        ready(Process { child, url: format!("http://{listen}") }).await
    }
}

async fn ready(process: Process) -> Process {
    let client = fabric::http::client(Duration::from_secs(5));
    eventually(SOON, &format!("{} is ready", process.url), async || {
        let answer = client.get(format!("{}/readyz", process.url)).send().await.ok()?;
        answer.status().is_success().then_some(())
    })
    .await;
    process
}

impl Process {
    /// Sends SIGTERM and waits for exit code 0. Returns how long that took.
    async fn stop(&mut self) -> Duration {
        let started = Instant::now();
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, Signal::TERM).expect("the signal is sent");
        let ended = tokio::time::timeout(SOON, self.child.wait()).await.expect("it ends in time").expect("it ends");
        assert_eq!(ended.code(), Some(0), "{}", self.url);
        started.elapsed()
    }

    /// Requests of the API it has answered since its start.
    async fn answered(&self) -> u64 {
        let client = fabric::http::client(Duration::from_secs(5));
        let page = client.get(format!("{}/metrics", self.url)).send().await.expect("figures");
        let page = page.text().await.expect("text");
        let counts = page.lines().filter(|line| line.starts_with("deployd_api_requests_total"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_apiservers_behind_haproxy_restart_one_after_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let nats = NatsServer::start(&folder.path().join("nats"), 0).await.expect("a nats-server");
    let etcd = EtcdServer::start(&folder.path().join("etcd"), 0).await.expect("an etcd");
    let cluster = Cluster { folder: folder.path(), nats: nats.url(), etcd: etcd.url() };
    let _scheduler = cluster.scheduler().await;
    let addresses = [0; 3].map(|_| format!("127.0.0.1:{}", free_port()));
    let mut apiservers = Vec::new();
    for (number, address) in addresses.iter().enumerate() {
        apiservers.push(cluster.apiserver(&format!("apiserver-{number}"), address).await);
    }
    let front = format!("127.0.0.1:{}", free_port());
    let _haproxy = cluster.haproxy(&front, &addresses).await;

    let load = Load::new(format!("http://{front}"));
    let restarts = async {
        for turn in 0..2 * addresses.len() {
            let (index, from) = (turn % addresses.len(), (turn + 1) * BETWEEN);
            eventually(Duration::from_secs(120), "the load continues", async || {
                (load.answered() >= from).then_some(())
            })
            .await;
            let took = apiservers[index].stop().await;
            apiservers[index] = cluster.apiserver(&format!("apiserver-{index}"), &addresses[index]).await;
            println!("apiserver-{index} was restarted after {from} requests; it left within {took:?}");
        }
    };
    let (took, ()) = tokio::join!(load.run(REQUESTS, EVERY), restarts);

    {
        let seen = load.seen();
        println!(
            "{REQUESTS} requests in {took:?}: {} reads, {} changes, longest {:?}, failed {}",
            seen.reads,
            seen.changes,
            seen.longest,
            seen.failed.len()
        );
        assert_eq!(seen.failed, Vec::<String>::new());
        assert!(seen.changes > REQUESTS / 4, "{} changes", seen.changes);
    }
    let client = fabric::http::client(Duration::from_secs(5));
    eventually(SOON, "every accepted change is in effect", async || {
        let answer = client.get(format!("http://{front}/api/notifies")).send().await.ok()?;
        // None at all is a 404, and no list.
        let known: std::collections::BTreeSet<String> = answer.json().await.unwrap_or_default();
        (known == load.seen().standing).then_some(())
    })
    .await;
    for apiserver in &apiservers {
        assert!(apiserver.answered().await > 0, "{} had nothing to do", apiserver.url);
    }
}
