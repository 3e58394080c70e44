//! An agent put on a node by `deploy/install-agent`: what is there afterwards, and that upgrading it touches no container.
//!
//! Nothing here needs a running systemd: the tree is written below a folder, and the program is started as its unit says, with the
//! test listening where systemd would.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::net::UnixDatagram;
use tokio::process::Child;

use crate::cluster::{Cluster, demo_group, eventually, program, repository, text};

/// Runs the installer below `root`.
fn installer(root: &Path, arguments: &[&str]) -> Output {
    let script = repository().join("deploy/install-agent");
    let mut command = Command::new(script);
    command.arg("--root").arg(root).args(arguments).current_dir(repository()).env_remove("DEPLOYD_API");
    command.output().expect("install-agent runs")
}

fn installed(root: &Path, arguments: &[&str]) -> String {
    let output = installer(root, arguments);
    assert!(output.status.success(), "install-agent {arguments:?}: {}", text(&output));
    text(&output)
}

/// Every file below `root` with its mode.
fn tree(root: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let meta = entry.metadata().expect("a file");
            if meta.is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(root).expect("below").display().to_string();
                found.insert(path, meta.permissions().mode() & 0o777);
            }
        }
    }
    found
}

/// An agent that runs as its unit says, and the socket where systemd would listen.
struct Service {
    child: Child,
    systemd: UnixDatagram,
}

impl Service {
    fn start(root: &Path) -> Self {
        let unit = std::fs::read_to_string(root.join("etc/systemd/system/deployd-agent.service")).expect("a unit");
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).expect(key).to_owned();
        let below = |path: &str| root.join(path.trim_start_matches('/'));
        let settings = std::fs::read_to_string(below(&value("EnvironmentFile="))).expect("settings");
        let settings = settings.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
        let socket = root.join("notify");
        // A second start takes the place of the first.
        let _ = std::fs::remove_file(&socket);
        let systemd = UnixDatagram::bind(&socket).expect("a socket");
        let mut command = tokio::process::Command::new(below(&value("ExecStart=")));
        command.env_clear().envs(settings).env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "1500000");
        // Only here: on a node state and keys are at their usual places.
        command.env("DEPLOYD_STATE_DIR", below("/var/lib/deployd/agent")).kill_on_drop(true);
        command.env("DEPLOYD_NATS_CREDENTIALS_FILE", below("/etc/deployd/nats.credentials"));
        command.env("DEPLOYD_ORDER_KEYS_FILE", below("/etc/deployd/orders.pub"));
        Self { child: command.spawn().expect("the agent starts"), systemd }
    }

    /// Waits until the agent says something that begins with `wanted`.
    async fn says(&self, wanted: &str) {
        let listening = async {
            loop {
                let mut buffer = [0; 1024];
                let length = self.systemd.recv(&mut buffer).await.expect("a datagram");
                if String::from_utf8_lossy(&buffer[..length]).starts_with(wanted) {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), listening)
            .await
            .unwrap_or_else(|_| panic!("never said {wanted}"));
    }

    /// What `systemctl stop` does with `KillMode=process`: SIGTERM to the main process.
    async fn stop(mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, Signal::TERM).expect("the signal is sent");
        self.says("STOPPING=1").await;
        let ended = tokio::time::timeout(Duration::from_secs(15), self.child.wait()).await;
        assert!(ended.expect("it ends in time").expect("it ended").success());
    }
}

/// The same program with another content.
fn newer(folder: &Path) -> PathBuf {
    let path = folder.join("deployd-agent");
    let mut bytes = std::fs::read(program("deployd-agent")).expect("the program");
    bytes.extend_from_slice(b"newer");
    std::fs::write(&path, bytes).expect("a copy");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installed_agent_joins_runs_an_instance_and_is_upgraded_under_it() {
    let cluster = Cluster::start(&["--nodes", "1", "--extra-node", "rack-1"]).await;
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let root = folder.path();
    let nats = cluster.state()["nats"].as_str().expect("an address").to_owned();
    let listen = format!("DEPLOYD_LISTEN=127.0.0.1:{}", fabric::local::free_port());
    let agent = program("deployd-agent").display().to_string();
    let key = |name: &str| cluster.folder().join("keys").join(name).display().to_string();
    let (credentials, order_keys) = (key("bus/agent.rack-1"), key("orders.pub"));
    let asked = [
        "--binary",
        &agent,
        "--nats-credentials-file",
        &credentials,
        "--order-keys-file",
        &order_keys,
        "--nats",
        &nats,
        "--name",
        "rack-1",
        "--unit",
        "cell-r",
        "--label",
        "rack=7",
        "--cluster",
        cluster.id(),
        "--set",
        &listen,
        "--set",
        "DEPLOYD_ADVERTISE_IP=127.0.0.1",
        "--set",
        "DEPLOYD_PUBLISH_IP=127.0.0.1",
    ];
    installed(root, &asked);
    let service = Service::start(root);
    service.says("READY=1").await;
    service.says("WATCHDOG=1").await;

    let name = format!("rack{}.web.web", std::process::id());
    let mut group = demo_group(&name, 2);
    group["Pod"]["Filters"] = json!(["constraint:unit==cell-r", "constraint:rack==7"]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
    cluster.running(&name, 2, Duration::from_secs(60)).await;
    let before = cluster.exactly(&name, 2, Duration::from_secs(20)).await;
    assert!(before.iter().all(|workload| workload.node == "rack-1"), "{before:?}");
    let mut started = Vec::new();
    for workload in &before {
        started.push(cluster.engine.started_at(&workload.id).await);
    }

    let newer = newer(other.path()).display().to_string();
    let said = installed(root, &["--upgrade", "--binary", &newer]);
    assert!(said.contains("replaces"), "{said}");
    service.stop().await;
    let service = Service::start(root);
    service.says("READY=1").await;
    eventually(Duration::from_secs(20), "the node is alive", async || {
        let (_, nodes) = cluster.call(0, Method::GET, "/api/nodes", None).await;
        let nodes: Vec<contract::api::Node> = serde_json::from_str(&nodes).ok()?;
        nodes.iter().any(|node| node.name == "rack-1" && node.state == "alive").then_some(())
    })
    .await;
    assert_eq!(cluster.exactly(&name, 2, Duration::from_secs(20)).await, before, "not one container is another");
    for (workload, at) in before.iter().zip(&started) {
        assert_eq!(&cluster.engine.started_at(&workload.id).await, at, "{} was not restarted", workload.name);
    }
    // Moving the instances away first is the way out; here they are bound to the node, so they are given up before.
    cluster.accepted(Method::DELETE, &format!("/api/podgroups?name={name}"), None).await;
    cluster.exactly(&name, 0, Duration::from_secs(60)).await;
    let said = installed(root, &["--uninstall", "--api", cluster.api(0)]);
    assert!(said.contains("rack-1 is empty and stays cordoned"), "{said}");
    service.stop().await;
    assert_eq!(tree(root).keys().filter(|path| path.contains("bin/") || path.contains("systemd")).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_installed_with_a_join_token_and_again_without_another_use() {
    let cluster = Cluster::start(&["--nodes", "1"]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (root, token) = (folder.path(), cluster.folder().join("join.token").display().to_string());
    let words = ["node", "token", "create", "--names", "rack-1", "--labels", "unit=cell-r", "--output", &token];
    let made = cluster.deployctl(&words).await;
    assert!(made.status.success(), "{}", text(&made));
    let agent = program("deployd-agent").display().to_string();
    let join = ["--binary", &agent, "--join", cluster.api(0), "--token-file", &token, "--name", "rack-1"];
    let settings = ["--label", "rack=7", "--unit", "other", "--set", "DEPLOYD_MEMORY=1024"];
    let said = installed(root, &[&join[..], &settings, &["--dry-run"]].concat());
    assert!(said.contains("joins") && tree(root).is_empty(), "{said}");
    for _ in 0..2 {
        installed(root, &[&join[..], &settings].concat());
    }
    let nats = cluster.state()["nats"].as_str().expect("an address").to_owned();
    let written = std::fs::read_to_string(root.join("etc/deployd/agent.env")).expect("settings");
    for line in [
        "DEPLOYD_NAME=rack-1",
        &format!("DEPLOYD_NATS={nats}"),
        "DEPLOYD_NATS_CREDENTIALS_FILE=/etc/deployd/join/agent.nk",
        "DEPLOYD_ORDER_KEYS_FILE=/etc/deployd/join/order-keys",
        "DEPLOYD_LABELS=rack=7,unit=cell-r",
        "DEPLOYD_MEMORY=1024",
    ] {
        assert_eq!(written.lines().filter(|found| *found == line).count(), 1, "{line}: {written}");
    }
    let modes = tree(root);
    assert_eq!((modes["etc/deployd/join/agent.nk"], modes["etc/deployd/agent.env"]), (0o600, 0o600));
    for arguments in [["--join", cluster.api(0)], ["--token-file", &token]] {
        assert!(!installer(root, &arguments).status.success(), "{arguments:?}");
    }
}

#[test]
fn the_installed_tree_is_what_the_page_about_operations_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let agent = program("deployd-agent").display().to_string();
    let asked = ["--binary", &agent, "--nats", "nats://a:4222,nats://b:4222", "--name", "n1", "--unit", "cell-a"];
    let said = installed(root, &[&asked[..], &["--dry-run"]].concat());
    assert!(said.contains("writes") && tree(root).is_empty(), "a dry run only speaks: {said}");

    installed(root, &asked);
    let modes = [
        ("etc/deployd/agent.env", 0o600),
        ("etc/systemd/system/deployd-agent.service", 0o644),
        ("usr/local/bin/deployctl", 0o755),
        ("usr/local/bin/deployd-agent", 0o755),
    ];
    assert_eq!(tree(root), modes.map(|(path, mode)| (path.to_owned(), mode)).into());
    assert!(root.join("var/lib/deployd/agent").is_dir());
    let page = std::fs::read_to_string(repository().join("docs/operations.md")).expect("docs/operations.md");
    for (path, _) in modes {
        assert!(page.contains(&format!("`/{path}`")), "docs/operations.md does not name /{path}");
    }

    let again = installed(root, &asked);
    assert!(again.lines().all(|line| line.starts_with("unchanged")), "again changes nothing: {again}");
    installed(root, &["--name", "n2", "--set", "DEPLOYD_MEMORY=1024", "--binary", &agent]);
    let settings = std::fs::read_to_string(root.join("etc/deployd/agent.env")).expect("settings");
    let wanted =
        "DEPLOYD_NAME=n2\nDEPLOYD_NATS=nats://a:4222,nats://b:4222\nDEPLOYD_LABELS=unit=cell-a\nDEPLOYD_MEMORY=1024\n";
    assert!(settings.ends_with(wanted), "what is not named stays: {settings}");
    // An operator's empty line stays too.
    std::fs::write(root.join("etc/deployd/agent.env"), format!("\n{settings}")).expect("settings");
    installed(root, &["--set", "DEPLOYD_MEMORY=2048", "--binary", &agent]);
    let edited = std::fs::read_to_string(root.join("etc/deployd/agent.env")).expect("settings");
    assert_eq!(edited, format!("\n{}", settings.replace("=1024", "=2048")));

    let secret = "nats://deployd:hunter2@a:4222";
    let setting = format!("DEPLOYD_NATS=nats://b:4222,{secret}");
    for wrong in [&["--nats", secret][..], &["--set", &setting]] {
        let output = installer(root, &[&["--binary", &agent], wrong].concat());
        assert_eq!(output.status.code(), Some(64), "{wrong:?}: {}", text(&output));
        let said = text(&output);
        assert!(said.contains("--nats-credentials-file") && !said.contains("hunter2"), "{said}");
    }
    let file = folder.path().join("credentials");
    std::fs::write(&file, "deployd:hunter2").expect("credentials");
    installed(root, &["--binary", &agent, "--nats-credentials-file", file.to_str().expect("a path")]);
    std::fs::remove_file(&file).expect("it was copied");
    assert_eq!(tree(root).get("etc/deployd/nats.credentials"), Some(&0o600));
    let settings = std::fs::read_to_string(root.join("etc/deployd/agent.env")).expect("settings");
    assert!(settings.ends_with("DEPLOYD_NATS_CREDENTIALS_FILE=/etc/deployd/nats.credentials\n"), "{settings}");

    for wrong in [&["--label", "x"][..], &["--set", "A=b c"], &["--nonsense"], &["--name"], &["--binary", "/missing"]] {
        let output = installer(root, &[&["--binary", &agent], wrong].concat());
        assert_eq!(output.status.code(), Some(64), "{wrong:?}: {}", text(&output));
    }
    assert_eq!(installer(root, &["--uninstall"]).status.code(), Some(64), "without an API nothing can be moved away");
    installed(root, &["--uninstall", "--no-drain"]);
    assert_eq!(tree(root).into_keys().collect::<Vec<_>>(), ["etc/deployd/agent.env", "etc/deployd/nats.credentials"]);
    installed(root, &["--uninstall", "--no-drain", "--purge"]);
}
