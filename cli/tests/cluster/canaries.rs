//! Secrets with distinct random texts in every place that holds one, and a search of everything that may not show them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use contract::access::REDACTED;
use contract::access::routes::ROUTES;
use contract::access::token::Token;
use contract::bus::{Identity, Member};
use devcluster::keys::Keys;
use fabric::local::free_port;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::cluster::{Cluster, demo_group, eventually, program, text};
use crate::receiver::{Manner, Receiver};
use crate::requests::{Objects, about};

const SOON: Duration = Duration::from_secs(60);
const GROUP: &str = "secret.web.web";
const DEPENDENCY: &str = "dep-secret";

/// A text that is nowhere else.
fn random() -> String {
    fabric::bus_accounts::generate_key().0
}

/// The secrets of a run, by where each was put.
struct Canaries(BTreeMap<String, String>);

impl Canaries {
    fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn put(&mut self, place: &str) -> String {
        self.put_text(place, random())
    }

    fn put_text(&mut self, place: &str, secret: String) -> String {
        assert!(secret.len() >= 32 && !self.0.values().any(|other| *other == secret), "{place}");
        self.0.insert(place.to_owned(), secret.clone());
        secret
    }

    /// The secrets that a text shows.
    fn shown(&self, found_in: &str, text: &str) -> Vec<String> {
        let shown = self.0.iter().filter(|(_, secret)| text.contains(secret.as_str()));
        shown.map(|(place, _)| format!("{place} in {found_in}")).collect()
    }
}

struct World {
    cluster: Cluster,
    canaries: Canaries,
    viewer: String,
    monitor: String,
    deployer: String,
    /// Fails every notice.
    receiver: Receiver,
    _processes: Vec<Child>,
}

/// A cluster that logs everything, with secrets in its files and its first tokens.
async fn start() -> World {
    let mut canaries = Canaries::new();
    let files = tempfile::tempdir().expect("a folder");
    let file = files.path().join("webhook");
    // 56 of 58 characters are the base64 text of 42 bytes.
    let webhook = canaries.put_text("webhook secret", random()[..56].to_owned());
    std::fs::write(&file, format!("whsec_{webhook}")).expect("written");
    // The cluster keeps its settings for as long as it lives: as long as the test.
    let file: &'static str = String::leak(file.display().to_string());
    let environment = [
        ("DEPLOYD_WEBHOOK_SECRET_FILE", file),
        ("DEPLOYD_RETRY_DELAYS", "100ms"),
        ("DEPLOYD_HEARTBEAT", "1s"),
        ("DEPLOYD_LOG", "debug"),
    ];
    let cluster = Cluster::start_with(&environment, &[]).await;
    keys(&cluster, &mut canaries);
    let mut tokens = Vec::new();
    for (name, binding) in [("viewer", "viewer@*"), ("monitor", "monitor@*"), ("deployer", "deployer@*")] {
        let token = cluster.token(name, &[binding.to_owned()]).await;
        let parsed = Token::parse(&token).expect("a token");
        canaries.put_text(&format!("proof of the token of {name}"), parsed.proof().half);
        canaries.put_text(&format!("token of {name}"), token.rsplit('_').next().expect("a secret").to_owned());
        tokens.push(token);
    }
    let [viewer, monitor, deployer] = tokens.try_into().expect("three tokens");
    let receiver = Receiver::start(Manner::Refuses).await;
    let _processes = processes(&cluster, &mut canaries).await;
    World { cluster, canaries, viewer, monitor, deployer, receiver, _processes }
}

/// The keys that `up` made.
fn keys(cluster: &Cluster, canaries: &mut Canaries) {
    let keys = Keys::of(cluster.folder());
    let read = |path: &Path| std::fs::read_to_string(path).expect("a key").trim().to_owned();
    for (member, name) in [
        (Member::Scheduler, "scheduler-1"),
        (Member::Apiserver, "apiserver-1"),
        (Member::Notifier, "notifier"),
        (Member::Agent, "node-1"),
    ] {
        let text = read(&keys.bus(&Identity { member, name: name.parse().expect("a name") }));
        canaries.put_text(&format!("bus key of {name}"), text.rsplit(':').next().expect("a seed").to_owned());
    }
    for name in ["scheduler-1", "scheduler-2"] {
        let text = read(&keys.signing(name));
        canaries.put_text(&format!("order key of {name}"), text.rsplit(' ').next().expect("a key").to_owned());
    }
}

/// Further processes with files that `up` has not: a certificate, a password of etcd, and a wrong password of NATS.
async fn processes(cluster: &Cluster, canaries: &mut Canaries) -> Vec<Child> {
    let folder = cluster.folder();
    let tls = folder.join("tls").display().to_string();
    let made = cluster.deployctl(&["ca", "init", &tls, "--host", "127.0.0.1"]).await;
    assert!(made.status.success(), "{}", text(&made));
    let key = std::fs::read_to_string(format!("{tls}/api-key.pem")).expect("a key");
    canaries.put_text("TLS key", key.lines().nth(1).expect("base64 text").to_owned());
    let write = |name: &str, secret: &str| {
        let path = folder.join(name).display().to_string();
        std::fs::write(&path, secret).expect("written");
        path
    };
    let etcd = write("etcd-password", &canaries.put("password of etcd"));
    let nats = write("nats-password", &format!("mallory:{}", canaries.put("password of NATS")));
    let state = cluster.state();
    let (nats_url, etcd_url) = (state["nats"].as_str().expect("a URL"), state["etcd"].as_str().expect("a URL"));
    let bus = |user: &str| folder.join("keys/bus").join(user).display().to_string();
    let (cert, key) = (format!("{tls}/api.pem"), format!("{tls}/api-key.pem"));
    let start = |name: &str, log: &str, flags: &[&str]| {
        let log = std::fs::File::create(folder.join("logs").join(log)).expect("a log");
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(program(name));
        command.args(["--listen", &listen, "--log", "debug", "--nats", nats_url]).args(flags);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log).kill_on_drop(true);
        command.spawn().expect("it starts")
    };
    let tls = ["--tls-cert", &cert, "--tls-key", &key, "--nats-credentials-file", &bus("apiserver.apiserver-1")];
    // The key is no certificate, so the error is about a file full of secrets.
    let wrong = ["--tls-cert", &key, "--tls-key", &key, "--nats-credentials-file", &bus("apiserver.apiserver-1")];
    let of_etcd = |file: &str| folder.join("keys/etcd").join(file).display().to_string();
    let (ca, client, client_key) = (of_etcd("ca.pem"), of_etcd("client.pem"), of_etcd("client-key.pem"));
    let user = ["--etcd", etcd_url, "--etcd-user", "deployd", "--etcd-password-file", &etcd, "--etcd-ca", &ca];
    let user = [&user[..], &["--etcd-cert", &client, "--etcd-key", &client_key]].concat();
    let bus_key = bus("scheduler.scheduler-1");
    vec![
        start("deployd-apiserver", "apiserver-tls.log", &tls),
        start("deployd-apiserver", "apiserver-wrong.log", &wrong),
        start("deployd-apiserver", "apiserver-mallory.log", &["--nats-credentials-file", &nats]),
        start("deployd-scheduler", "scheduler-user.log", &[&user[..], &["--nats-credentials-file", &bus_key]].concat()),
    ]
}

impl World {
    async fn as_client(&self, authorization: &str, method: Method, path: &str, body: Option<&Value>) -> (u16, String) {
        let client = fabric::http::client(Duration::from_secs(20));
        let request = client.request(method, format!("{}{path}", self.cluster.api(0)));
        let request = request.header("Authorization", authorization);
        let request = if let Some(body) = body { request.json(body) } else { request };
        let response = request.send().await.expect("the apiserver answers");
        (response.status().as_u16(), response.text().await.expect("a body"))
    }

    /// Environment values of a group, of a dependency pod, and of specs that are refused.
    async fn workload(&mut self) {
        let mut group = demo_group(GROUP, 1);
        let with = |spec: &mut Value, secret: &str| {
            spec["Containers"][0]["Env"] = json!([format!("PASSWORD={secret}")]);
        };
        with(&mut group["Pod"], &self.canaries.put("environment of a group"));
        self.cluster.accepted(Method::POST, "/api/podgroups", Some(&group)).await;
        self.cluster.running(GROUP, 1, SOON).await;
        let mut pod = group["Pod"].clone();
        pod["Name"] = json!(DEPENDENCY);
        with(&mut pod, &self.canaries.put("environment of a dependency pod"));
        self.cluster.accepted(Method::POST, "/api/depends", Some(&pod)).await;
        let mut refused = group.clone();
        refused["NumInstances"] = json!(-1);
        with(&mut refused["Pod"], &self.canaries.put("environment of a spec with a flaw"));
        let mut privileged = group.clone();
        privileged["Name"] = json!("secret.other.web");
        privileged["Pod"]["Name"] = json!("secret.other.web");
        privileged["Pod"]["Containers"][0]["SystemVolumes"] = json!(["/:/host"]);
        with(&mut privileged["Pod"], &self.canaries.put("environment of a spec that the policy refuses"));
        for (body, status) in [(refused, 400), (privileged, 403), (group.clone(), 405)] {
            let (seen, text) = self.cluster.call(0, Method::POST, "/api/podgroups", Some(&body)).await;
            assert_eq!(seen.as_u16(), status, "{text}");
        }
        let mut patched = group["Pod"].clone();
        with(&mut patched, &self.canaries.put("environment of the next revision"));
        let path = format!("/api/podgroups?name={GROUP}&cmd=spec");
        self.cluster.accepted(Method::PATCH, &path, Some(&patched)).await;
        self.cluster.running(GROUP, 1, SOON).await;
    }

    /// Callbacks whose URLs hold secrets, and a notice that none of them takes.
    async fn callbacks(&mut self) {
        let host: String = self.receiver.url().split('/').take(3).collect::<Vec<_>>().join("/");
        let (path, query) = (self.canaries.put("path of a callback"), self.canaries.put("query of a callback"));
        let url = format!("{host}/hook/{path}?token={query}");
        let asked = reqwest::Url::parse_with_params("http://api/api/notifies", [("callback", url)]).expect("a URL");
        let asked = format!("{}?{}", asked.path(), asked.query().expect("a callback"));
        self.cluster.accepted(Method::POST, &asked, None).await;
        let password = self.canaries.put("password of a refused callback");
        let refused =
            format!("/api/notifies?callback={}", host.replace("http://", &format!("http://user:{password}@")));
        let (status, text) = self.cluster.call(0, Method::POST, &refused, None).await;
        assert_eq!(status.as_u16(), 400, "{text}");
        let running = self.cluster.exactly(GROUP, 1, SOON).await;
        self.cluster.engine.kill(&running[0].id).await;
        eventually(SOON, "a notice is given up", async || {
            let (_, body) = self.cluster.call(0, Method::GET, "/api/deadletters", None).await;
            body.contains("given up").then_some(())
        })
        .await;
        assert!(!self.receiver.posted().is_empty());
    }

    /// Requests whose credentials are wrong.
    async fn wrong_credentials(&mut self) {
        let other = Token::from_random(random().as_bytes()[..40].try_into().expect("40 bytes")).reveal();
        self.canaries.put_text("an unknown token", other.rsplit('_').next().expect("a secret").to_owned());
        let basic = self.canaries.put("a password in a header");
        for header in [format!("Bearer {other}"), format!("Basic {basic}"), format!("Bearer {basic}")] {
            let (status, text) = self.as_client(&header, Method::GET, "/api/nodes", None).await;
            assert_eq!(status, 401, "{text}");
        }
        let query = format!("/api/nodes?token={}", self.canaries.put("a token in a query"));
        self.as_client("Bearer nonsense", Method::GET, &query, None).await;
    }

    /// Every GET of a client; metrics are among them.
    async fn reads(&self, name: &str, token: &str) -> Vec<(String, String)> {
        let spec = String::new();
        let objects = Objects { namespace: "secret".to_owned(), group: GROUP.to_owned(), spec };
        let mut paths: Vec<String> = vec!["/api/podgroups?all=true".to_owned(), "/api/nodes/node-1".to_owned()];
        paths.extend(ROUTES.iter().filter(|route| route.method == "GET").map(|route| about(route, &objects).path));
        let mut texts = Vec::new();
        for path in paths {
            let (_, text) = self.as_client(&format!("Bearer {token}"), Method::GET, &path, None).await;
            texts.push((format!("GET {path} by {name}"), text));
        }
        texts
    }

    /// What operators and admins read: it explains, and shows no secret either.
    async fn explanations(&self) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        for path in ["/api/events?limit=1000", "/api/deadletters?limit=1000", "/api/audit?limit=1000", "/api/tokens"] {
            let (status, text) = self.cluster.call(0, Method::GET, path, None).await;
            assert!(status.is_success() && text.len() > 100, "{path}: {status} {text}");
            texts.push((format!("GET {path}"), text));
        }
        let client = fabric::http::client(Duration::from_secs(5));
        for child in self.cluster.state()["children"].as_array().expect("children") {
            if !["scheduler", "agent", "notifier", "apiserver"].contains(&child["role"].as_str().expect("a role")) {
                continue;
            }
            let url = format!("http://{}/metrics", child["listen"].as_str().expect("an address"));
            let text = client.get(&url).send().await.expect("metrics").text().await.expect("text");
            assert!(text.contains("deployd_"), "{url}: {text}");
            texts.push((format!("metrics of {}", child["name"]), text));
        }
        texts
    }
}

/// The command line of every process of this machine.
fn command_lines() -> Vec<(String, String)> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path().join("cmdline"));
    let read = |path: std::path::PathBuf| Some((path.display().to_string(), std::fs::read(path).ok()?));
    let lines = processes.filter_map(read).map(|(path, raw)| (path, String::from_utf8_lossy(&raw).into_owned()));
    let lines: Vec<(String, String)> = lines.collect();
    assert!(lines.iter().any(|(_, line)| line.contains("deployd-scheduler")), "our processes are among them");
    lines
}

/// The logs of all processes, of which none is missing.
fn logs(cluster: &Cluster) -> Vec<(String, String)> {
    let logs = cluster.logs();
    let has = |name: &str| logs.iter().any(|(path, log)| path.ends_with(&format!("{name}.log")) && log.len() > 100);
    for name in ["apiserver-1", "scheduler-1", "agent-1", "notifier", "-tls", "-wrong", "-mallory", "-user"] {
        assert!(has(name), "no log of {name}");
    }
    logs
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_shows_in_logs_reads_events_dead_letters_the_audit_log_metrics_or_process_lists() {
    let mut world = start().await;
    world.workload().await;
    world.callbacks().await;
    world.wrong_credentials().await;
    assert!(world.canaries.0.len() >= 20, "{} canaries", world.canaries.0.len());

    let seen = world.reads("deployer", &world.deployer).await;
    let seen: Vec<String> = seen.iter().flat_map(|(place, text)| world.canaries.shown(place, text)).collect();
    let of = |kind: &str| seen.iter().any(|shown| shown.starts_with(kind));
    assert!(of("environment of the next revision") && of("environment of a dependency pod"), "{seen:?}");

    let mut texts = world.reads("viewer", &world.viewer).await;
    let shown = texts.iter().filter(|(_, text)| text.contains(&format!("PASSWORD={REDACTED}"))).count();
    assert!(shown >= 3, "the viewer sees the name of the variable in {shown} answers");
    texts.extend(world.reads("monitor", &world.monitor).await);
    texts.extend(world.explanations().await);
    texts.extend(command_lines());
    texts.extend(logs(&world.cluster));
    let found: Vec<String> = texts.iter().flat_map(|(place, text)| world.canaries.shown(place, text)).collect();
    println!("{} canaries, {} texts, {} found", world.canaries.0.len(), texts.len(), found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
