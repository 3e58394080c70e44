//! Three apiservers behind one address, restarted in turn under load, twice: no request fails.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

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

/// Where everything is.
struct Place<'a> {
    folder: &'a Path,
    nats: String,
    etcd: String,
}

impl Place<'_> {
    fn start(&self, name: &str, words: &[&str]) -> Child {
        let (what, words) = words.split_first().expect("a program");
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join(format!("{name}.log")));
        let log = log.expect("a log");
        let mut command = Command::new(program(what));
        command.args(words).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    async fn scheduler(&self) -> Process {
        let listen = format!("127.0.0.1:{}", free_port());
        let words = ["deployd-scheduler", "--listen", &listen, "--nats", &self.nats, "--etcd", &self.etcd];
        ready(Process { child: self.start("scheduler", &words), url: format!("http://{listen}") }).await
    }

    /// The one at this address, with its settings as they come.
    async fn apiserver(&self, name: &str, listen: &str) -> Process {
        let words = ["deployd-apiserver", "--name", name, "--listen", listen, "--nats", &self.nats];
        ready(Process { child: self.start(name, &words), url: format!("http://{listen}") }).await
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
    /// Told to stop; how long that took. It must have ended well.
    async fn stop(&mut self) -> Duration {
        let asked = Instant::now();
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, Signal::TERM).expect("the signal is sent");
        let ended = tokio::time::timeout(SOON, self.child.wait()).await.expect("it ends in time").expect("it ends");
        assert_eq!(ended.code(), Some(0), "{}", self.url);
        asked.elapsed()
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
async fn apiservers_behind_a_balancer_are_restarted_in_turn_and_no_request_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let nats = NatsServer::start(&folder.path().join("nats"), 0).await.expect("a nats-server");
    let etcd = EtcdServer::start(&folder.path().join("etcd"), 0).await.expect("an etcd");
    let place = Place { folder: folder.path(), nats: nats.url(), etcd: etcd.url() };
    let _scheduler = place.scheduler().await;
    let addresses = [0; 3].map(|_| format!("127.0.0.1:{}", free_port()));
    let mut apiservers = Vec::new();
    for (number, address) in addresses.iter().enumerate() {
        apiservers.push(place.apiserver(&format!("apiserver-{number}"), address).await);
    }
    let front = format!("127.0.0.1:{}", free_port());
    let to = addresses.join(",");
    let balancer = place.start("balance", &["deployctl", "balance", "--listen", &front, "--to", &to]);
    let _balancer = ready(Process { child: balancer, url: format!("http://{front}") }).await;

    let load = Load::new(format!("http://{front}"));
    let restarts = async {
        for turn in 0..2 * addresses.len() {
            let (index, from) = (turn % addresses.len(), (turn + 1) * BETWEEN);
            eventually(Duration::from_secs(120), "the load goes on", async || (load.answered() >= from).then_some(()))
                .await;
            let took = apiservers[index].stop().await;
            apiservers[index] = place.apiserver(&format!("apiserver-{index}"), &addresses[index]).await;
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
