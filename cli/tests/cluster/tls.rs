//! docs/operations.md, TLS: its commands and settings, on real servers and processes of this machine.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use fabric::local::{EtcdServer, NatsServer, Syncing, free_port, open_accounts};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::cluster::{program, repository, text};

/// The lines of the blocks of this kind in the section.
fn block(kind: &str) -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/operations.md")).expect("docs/operations.md");
    let (_, section) = page.split_once("\n## TLS\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let fence = format!("```{kind}\n");
    let blocks = section.split(&fence).skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<String> = blocks.flat_map(str::lines).map(str::to_owned).collect();
    assert!(!lines.is_empty(), "no block {kind}");
    lines
}

/// A control plane as the page sets it up, except for the addresses.
struct Secure {
    dir: TempDir,
    api: String,
    _nats: NatsServer,
    _etcd: EtcdServer,
    _processes: Vec<Child>,
}

impl Secure {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for command in block("sh tls").iter().filter(|line| line.starts_with("deployctl ca ")) {
            let output = deployctl(dir.path(), &command.split_whitespace().skip(1).collect::<Vec<_>>()).await;
            assert!(output.status.success(), "{command}: {}", text(&output));
        }
        let here = |line: &str| line.replace("tls/", &format!("{}/tls/", dir.path().display()));
        let tls = block("conf nats").iter().map(|line| here(line) + "\n").collect::<String>();
        let accounts = format!("{}{tls}", open_accounts());
        let home = dir.path().join("nats");
        let nats = NatsServer::start_configured(&home, 0, Syncing::Always, &accounts).await.expect("a NATS server");
        // The plain port is for the test that waits for etcd.
        let (plain, port) = (free_port(), free_port());
        let mut flags: Vec<String> = block("conf etcd").iter().map(|line| here(line)).collect();
        flags.push(format!("--listen-client-urls=http://127.0.0.1:{plain},https://127.0.0.1:{port}"));
        flags.push(format!("--advertise-client-urls=https://127.0.0.1:{port}"));
        let etcd = EtcdServer::start_with(&dir.path().join("etcd"), plain, &flags).await.expect("an etcd");
        let settings = |line: &String| {
            let line = here(line).replace("nats://10.0.0.1:4222", &nats.url());
            let line = line.replace("10.0.0.1:2379", &format!("127.0.0.1:{port}"));
            line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let settings: Vec<(String, String)> = block("conf env").iter().filter_map(settings).collect();
        let api = format!("127.0.0.1:{}", free_port());
        let admin = format!("127.0.0.1:{}", free_port());
        let start = |name: &str, listen: &str| {
            let mut command = Command::new(program(name));
            command.env_clear().envs(settings.clone()).args(["--listen", listen]).kill_on_drop(true);
            // The page about access makes a token; here TLS is the subject.
            command.env("DEPLOYD_ANONYMOUS", "admin@* from uid:self");
            command.spawn().expect("it starts")
        };
        let processes = vec![start("deployd-scheduler", &admin), start("deployd-apiserver", &api)];
        Self { dir, api: format!("https://{api}"), _nats: nats, _etcd: etcd, _processes: processes }
    }

    async fn deployctl(&self, words: &[&str]) -> Output {
        deployctl(self.dir.path(), words).await
    }
}

async fn deployctl(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program("deployctl"));
    command
        .args(words)
        .current_dir(folder)
        .env_remove("DEPLOYD_API")
        .env_remove("DEPLOYD_DIR")
        .env_remove("DEPLOYD_CA");
    command.output().await.expect("deployctl runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_with_tls_everywhere_is_set_up_as_the_page_says() {
    let secure = Secure::start().await;
    let ready = format!("{}/readyz", secure.api);
    let output = secure.deployctl(&["--ca", "tls/ca.pem", "health", "--wait", "60s", &ready]).await;
    assert!(output.status.success(), "{}", text(&output));
    let commands = block("sh tls");
    let user = commands.iter().find(|line| line.contains("--api https://")).expect("the command of a user");
    let words = user.replace("https://10.0.0.1:9003", &secure.api);
    let output = secure.deployctl(&words.split_whitespace().skip(1).collect::<Vec<_>>()).await;
    assert!(output.status.success(), "{user}: {}", text(&output));

    let output = secure.deployctl(&["--api", &secure.api, "node", "list"]).await;
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(text(&output).contains("--ca FILE"), "{}", text(&output));
    let plain = secure.api.replace("https://", "http://");
    let output = secure.deployctl(&["--api", &plain, "node", "list"]).await;
    assert!(!output.status.success() && text(&output).contains("write https://"), "{}", text(&output));
}

/// What a server that asks for no certificate would answer.
async fn greeted(port: u16, words: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    stream.write_all(words.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // The server keeps a connection open until it gives up on the handshake.
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_certificate_joins_neither_nats_nor_etcd() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = deployctl(dir.path(), &["ca", "init", "tls", "--host", "deployd.example"]).await;
    assert!(output.status.success(), "{}", text(&output));
    let here = |line: &String| line.replace("tls/", &format!("{}/tls/", dir.path().display()));
    let (routes, port, peers) = (free_port(), free_port(), free_port());
    let tls = block("conf nats").iter().map(|line| here(line) + "\n").collect::<String>();
    // JetStream of a cluster wants a route; the other server is not there yet.
    let other = free_port();
    let cluster =
        format!("name: deployd\nlisten: \"127.0.0.1:{routes}\"\nroutes: [\"nats://127.0.0.1:{other}\"]\n{tls}");
    let accounts = format!("server_name: first\ncluster {{\n{cluster}}}\n{}", open_accounts());
    let _nats =
        NatsServer::start_configured(&dir.path().join("nats"), 0, Syncing::Always, &accounts).await.expect("NATS");
    let route = greeted(routes, "CONNECT {\"verbose\":true}\r\nPING\r\n").await;
    // Without TLS it begins with INFO.
    assert_eq!(route, "");

    let mut flags: Vec<String> =
        block("conf etcd").iter().filter(|line| line.starts_with("--peer-")).map(here).collect();
    let url = format!("https://127.0.0.1:{peers}");
    flags.push(format!("--listen-peer-urls={url}"));
    flags.push(format!("--initial-advertise-peer-urls={url}"));
    flags.push(format!("--initial-cluster=local={url}"));
    let _etcd = EtcdServer::start_with(&dir.path().join("etcd"), port, &flags).await.expect("an etcd");
    let plain = greeted(peers, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(!plain.contains("200 OK"), "{plain}");
    let ca = std::fs::read(dir.path().join("tls/ca.pem")).expect("the CA");
    let ca = reqwest::Certificate::from_pem(&ca).expect("a certificate");
    let client = fabric::http::client_with(Duration::from_secs(5), |builder| builder.tls_certs_only([ca.clone()]));
    let asked = client.get(format!("{url}/version")).send().await;
    assert!(asked.is_err(), "etcd answers a peer without a certificate: {asked:?}");
    let version = client.get(format!("http://127.0.0.1:{port}/version")).send().await.expect("etcd answers clients");
    assert!(version.status().is_success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_ca_is_not_made_and_the_first_prints_its_hash() {
    let dir = tempfile::tempdir().expect("a folder");
    let init = ["ca", "init", "tls", "--host", "deployd.example"];
    let output = deployctl(dir.path(), &init).await;
    assert!(output.status.success(), "{}", text(&output));
    let hash = text(&output).lines().find_map(|line| line.strip_prefix("CA SHA-256 ").map(str::len));
    assert_eq!(hash, Some(64), "{}", text(&output));
    let output = deployctl(dir.path(), &init).await;
    assert!(!output.status.success() && text(&output).contains("ca issue"), "{}", text(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_joins_over_tls_and_sends_its_token_only_to_the_ca_that_the_token_names() {
    let secure = Secure::start().await;
    let ready = format!("{}/readyz", secure.api);
    let output = secure.deployctl(&["--ca", "tls/ca.pem", "health", "--wait", "60s", &ready]).await;
    assert!(output.status.success(), "{}", text(&output));
    let at_api = ["--api", &secure.api, "--ca", "tls/ca.pem"];
    let create = ["node", "token", "create", "--names", "rack-1", "--uses", "2", "--output", "join.token"];
    let output = secure.deployctl(&[&at_api[..], &create].concat()).await;
    assert!(output.status.success(), "{}", text(&output));
    let token = std::fs::read_to_string(secure.dir.path().join("join.token")).expect("a token");
    let ca = std::fs::read_to_string(secure.dir.path().join("tls/ca.pem")).expect("a CA");
    let hash = fabric::certificates::hash(&ca).expect("a certificate");
    assert!(token.trim().ends_with(&hash), "the token names the CA");
    let join = async |token: &str| {
        let mut command = Command::new(program("deployd-agent"));
        command.args(["join", "--api", &secure.api, "--name", "rack-1", "--token-file", token, "--into", "join"]);
        command.env_clear().current_dir(secure.dir.path()).output().await.expect("it runs")
    };
    let other = token.trim().replace(&hash, &"0".repeat(64));
    std::fs::write(secure.dir.path().join("other.token"), other).expect("written");
    let output = join("other.token").await;
    assert!(!output.status.success() && text(&output).contains("does not have the CA"), "{}", text(&output));
    assert!(!secure.dir.path().join("join").exists(), "nothing was made for another cluster");
    let output = join("join.token").await;
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(std::fs::read_to_string(secure.dir.path().join("join/ca.pem")).expect("the CA"), ca);
    let settings = std::fs::read_to_string(secure.dir.path().join("join/agent.env")).expect("settings");
    assert!(settings.contains("DEPLOYD_NATS_CA=") && settings.contains("DEPLOYD_NATS_CREDENTIALS_FILE="), "{settings}");
    let listed = secure.deployctl(&[&at_api[..], &["node", "token", "list", "-o", "json"]].concat()).await;
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed[0]["Uses"], 1, "the other token was not used");
}
