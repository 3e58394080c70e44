//! docs/operations.md, "Installation on three machines": its commands and files, in its order, on three machines of their own network.
//!
//! Not run are the checks that are only words, and what needs a package. Two things are changed: names and images of workloads, because all
//! agents share the engine of the test, and the id of the cluster, so that nothing else on this engine is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::time::Duration;

use contract::api::Node;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::cluster::{IMAGE, eventually, program, programs, repository, text};
use crate::docker::Engine;
use crate::machine::{Machine, Service, network};

const SOON: Duration = Duration::from_secs(60);

/// The network of the operator, 10.0.0.9.
const BRIDGE: &str = "
ip link set lo up
ip link add bridge type bridge
ip link set bridge up
ip address add 10.0.0.9/24 dev bridge
";

/// `ssh root@ADDRESS COMMAND`, into the namespaces of the process whose id is in a file beside it.
const SSH: &str = r#"#!/bin/sh
pid=$(cat "$0.${1#root@}")
shift
exec nsenter --target "$pid" --net --mount --uts --pid="/proc/$pid/ns/pid_for_children" sh -c "cd /root; $*"
"#;

/// A block of the page: its words after the language, and its text.
struct Block {
    words: Vec<String>,
    text: String,
}

/// The blocks of the section in their order.
fn page() -> Vec<Block> {
    let page = std::fs::read_to_string(repository().join("docs/operations.md")).expect("docs/operations.md");
    let (_, section) = page.split_once("\n## Installation on three machines\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let fenced = section.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let blocks = fenced.filter_map(|(head, text)| {
        let (_, words) = head.split_once(" machines ")?;
        Some(Block { words: words.split_whitespace().map(str::to_owned).collect(), text: text.to_owned() })
    });
    blocks.collect()
}

/// Three machines, and an operator whose network connects them.
struct Installation {
    folder: TempDir,
    operator: Child,
    machines: Vec<Machine>,
    services: BTreeMap<(String, String), Service>,
    engine: Engine,
    /// Of the cluster and of its workloads.
    id: String,
}

impl Installation {
    async fn begin() -> Self {
        let operator = network();
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Engine::connect().await;
        Engine::ensure_image("deployd-test/demo", &repository().join("target/demo/demo")).await;
        let mut machines = Vec::new();
        for name in ["m1", "m2", "m3"] {
            machines.push(Machine::boot(name, folder.path()).await);
        }
        let id = format!("three{}", std::process::id());
        let installation = Self { folder, operator, machines, services: BTreeMap::new(), engine, id };
        installation.connect().await;
        installation
    }

    /// Cables from each machine to a bridge of the operator, and `ssh` to each.
    async fn connect(&self) {
        let bin = self.folder.path().join("bin");
        std::fs::create_dir(&bin).expect("a folder");
        std::fs::write(bin.join("ssh"), SSH).expect("written");
        self.operated(&format!("chmod 755 bin/ssh\n{BRIDGE}")).await;
        for (number, machine) in (1..).zip(&self.machines) {
            let (pid, address) = (machine.pid(), format!("10.0.0.{number}"));
            std::fs::write(bin.join(format!("ssh.{address}")), pid.to_string()).expect("written");
            let cable = format!("ip link add port{number} type veth peer name lan netns {pid}");
            self.operated(&format!("{cable}\nip link set port{number} master bridge up")).await;
            machine.done(&format!("ip address add {address}/24 dev lan\nip link set lan up")).await;
        }
    }

    /// Runs commands where the operator keeps the secrets.
    async fn operate(&self, script: &str) -> Output {
        let bin = self.folder.path().join("bin");
        let path = format!("{}:{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display(), programs().display());
        let mut command = Command::new("nsenter");
        let script = format!("umask 077\n{script}");
        command.args(["--target", &self.operator.id().expect("it runs").to_string(), "--net"]);
        command.args(["bash", "-euc", &script]);
        command.current_dir(self.folder.path()).env_clear().env("PATH", path).kill_on_drop(true);
        command.env("HOME", self.folder.path()).output().await.expect("nsenter runs")
    }

    async fn operated(&self, script: &str) -> String {
        let output = self.operate(script).await;
        assert!(output.status.success(), "operator: {script}\n{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Does what a block of the page says.
    async fn follow(&mut self, block: &Block) {
        let here = block.text.replace("demo.web.web", &self.group()).replace("\"demo\"", &format!("\"{}\"", self.id));
        let here = here.replace("deployd/demo:1", IMAGE);
        let here = here.replace("deploy/install-agent", &format!("deploy/install-agent --cluster {}", self.id));
        match block.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["each"] => self.on_each(&here).await,
            ["operator"] => drop(self.operated(&here).await),
            [path] if path.starts_with('/') => {
                for machine in &self.machines {
                    machine.write(path, &here).await;
                }
            }
            [file] if file.contains('.') => std::fs::write(self.folder.path().join(file), here).expect("written"),
            ref other => panic!("a block for {other:?}"),
        }
    }

    /// Runs commands on every machine, then starts the units that they name everywhere before it waits for them.
    async fn on_each(&mut self, script: &str) {
        let script = format!("cd {}\n{script}", crate::machine::PACKAGE);
        futures_util::future::join_all(self.machines.iter().map(|machine| machine.done(&script))).await;
        let mut started = Vec::new();
        for machine in &self.machines {
            for unit in machine.asked() {
                let service = machine.start(&unit).await;
                started.push(((machine.name.clone(), unit), service));
            }
        }
        for (name, mut service) in started {
            service.ready().await;
            self.services.insert(name, service);
        }
    }

    fn service(&mut self, machine: &str, unit: &str) -> &mut Service {
        self.services.get_mut(&(machine.to_owned(), unit.to_owned())).expect("it was started")
    }

    fn group(&self) -> String {
        format!("{}.web.web", self.id)
    }

    async fn nodes(&self) -> Vec<Node> {
        let listed = self.operated("deployctl node list -o json").await;
        serde_json::from_str(&listed).expect("nodes")
    }

    /// The nodes of the instances, when exactly `count` of them run.
    async fn places(&self, count: usize) -> Vec<String> {
        eventually(SOON, &format!("{count} instances run"), async || {
            let all = self.engine.of_group(&self.id, &self.group()).await;
            let are_running = all.len() == count && all.iter().all(|workload| workload.running);
            are_running.then(|| all.into_iter().map(|workload| workload.node).collect())
        })
        .await
    }

    /// The orders that the agent of a machine has answered, by its own count.
    async fn orders(&self, machine: usize) -> Vec<String> {
        let ask = "exec 3<>/dev/tcp/127.0.0.1/9013; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
        let metrics = self.machines[machine].done(ask).await;
        let orders: Vec<_> =
            metrics.lines().filter(|line| line.starts_with("deployd_agent_orders")).map(str::to_owned).collect();
        assert!(!orders.is_empty(), "{metrics}");
        orders
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for ((machine, unit), service) in &self.services {
                let log = service.log();
                let lines: Vec<&str> = log.lines().collect();
                eprintln!("--- {unit} of {machine}\n{}", lines[lines.len().saturating_sub(15)..].join("\n"));
            }
        }
        // Running agents would create the containers again.
        self.services.clear();
        self.machines.clear();
        let mut clear = std::process::Command::new(program("deployctl"));
        let output = clear.args(["clear", "--cluster", &self.id]).output().expect("deployctl runs");
        assert!(output.status.success() || std::thread::panicking(), "{}", text(&output));
    }
}

#[tokio::test]
async fn three_machines_are_installed_as_the_page_says_and_a_revoked_node_receives_nothing() {
    let mut installation = Installation::begin().await;
    let (revoke, install): (Vec<_>, Vec<_>) = page().into_iter().partition(|block| block.words == ["revoke"]);
    for block in &install {
        installation.follow(block).await;
    }
    let nodes = installation.nodes().await;
    let alive: BTreeSet<_> = nodes.iter().filter(|node| node.state == "alive").map(|node| node.name.as_str()).collect();
    assert_eq!(alive, ["m1", "m2", "m3"].into(), "{nodes:?}");
    let places: BTreeSet<_> = installation.places(3).await.into_iter().collect();
    assert_eq!(places.len(), 3, "one instance on each node: {places:?}");
    // The firewall: clients reach the API, and only the control plane reaches etcd.
    for (port, is_open) in [(9003, true), (4222, true), (2379, false), (6222, false)] {
        let probe = installation.operate(&format!("timeout 1 bash -c '</dev/tcp/10.0.0.1/{port}'")).await;
        assert_eq!(probe.status.success(), is_open, "port {port}");
    }

    for block in &revoke {
        installation.operated(&block.text).await;
    }
    eventually(SOON, "the connection is closed", async || {
        installation.service("m3", "deployd-agent").log().contains("connection to NATS lost").then_some(())
    })
    .await;
    let orders = installation.orders(2).await;
    installation.operated(&format!("deployctl scale --wait {} 6", installation.group())).await;
    let places: BTreeSet<_> = installation.places(6).await.into_iter().collect();
    assert_eq!(places, ["m1", "m2"].map(str::to_owned).into());
    assert!(installation.service("m3", "deployd-agent").runs(), "it tries to connect again");
    assert_eq!(installation.orders(2).await, orders, "no order reached it");
    assert!(installation.nodes().await.iter().all(|node| node.name != "m3"));

    installation.machines[2].kill("deployd-agent").await;
    installation.service("m3", "deployd-agent").ended().await;
    let mut again = installation.machines[2].start("deployd-agent").await;
    assert!(!again.ended().await.success(), "NATS refuses its key");
    assert!(again.log().to_lowercase().contains("authorization"), "{}", again.log());
}

#[test]
fn systemd_accepts_the_units_of_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let units = page().into_iter().filter(|block| block.words[0].ends_with(".service"));
    let mut verified = 0;
    for block in units {
        let path = folder.path().join(block.words[0].rsplit('/').next().expect("a name"));
        // The servers are not installed here; systemd only looks whether there is a program.
        let ours = program("deployctl").display().to_string();
        let content = block
            .text
            .replace("/usr/local/bin/nats-server", &ours)
            .replace("/usr/local/bin/etcd ", &format!("{ours} "));
        std::fs::write(&path, content).expect("a copy");
        let verify = std::process::Command::new("systemd-analyze").arg("verify").arg(&path).output();
        let output = verify.expect("systemd-analyze: ./deploy/need gets it");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(output.status.success() && !text(&output).contains(&name), "{name}: {}", text(&output));
        verified += 1;
    }
    assert_eq!(verified, 2);
}
