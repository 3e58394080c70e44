//! A compose project under test: started, read, hurt and removed through the ways operators have.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{eventually, repository, text};

/// The image of the processes; `./deploy/test` builds it under this name so that the operator's own stays as it is.
pub(crate) const IMAGE: &str = "deployd-test/deployd:1";
/// How an operator makes the first token of a stack.
const FIRST_TOKEN: [&str; 9] =
    ["exec", "-T", "apiserver-1", "deployctl", "token", "create", "tests", "--role", "admin"];
/// The image of the workloads.
const WORKLOAD: &str = "deployd/demo:1";

pub(crate) struct Project {
    name: String,
    files: Vec<&'static str>,
    port: u16,
    spec: PathBuf,
    /// A name of its own for the demo: containers and networks of one engine need distinct names.
    pub(crate) group: String,
    client: reqwest::Client,
    /// The token of the tests, made as an operator makes the first one.
    token: OnceLock<String>,
    _folder: TempDir,
}

impl Project {
    /// A project that runs `files` of `deploy/`; nothing is started.
    pub(crate) fn new(kind: &str, files: &[&'static str]) -> Self {
        let name = format!("ddtest-{kind}-{}", std::process::id());
        let namespace = name.replace('-', "");
        let group = format!("{namespace}.web.web");
        let folder = tempfile::tempdir().expect("a temporary directory");
        let spec = folder.path().join("demo.json");
        let demo = json!({
            "Name": group, "Namespace": namespace, "NumInstances": 2, "RestartPolicy": 1,
            "Pod": {
                "Filters": ["constraint:group==default"],
                "Containers": [{"Image": WORKLOAD, "CpuLimit": 1, "MemoryLimit": 16 * 1024 * 1024, "Expose": 8080}],
            },
        });
        std::fs::write(&spec, demo.to_string()).expect("the demo's file");
        let image = command("docker", &["image", "inspect", IMAGE]).output().expect("docker runs");
        assert!(image.status.success(), "there is no {IMAGE}: DEPLOYD_IMAGE={IMAGE} ./deploy/images --debug");
        let client = fabric::http::client(Duration::from_secs(15));
        let port = fabric::local::free_port();
        Self { name, files: files.to_vec(), port, spec, group, client, token: OnceLock::new(), _folder: folder }
    }

    /// `docker-compose ARGUMENTS`, however it is called here.
    pub(crate) fn compose(&self, arguments: &[&str]) -> Output {
        let mut command = composer();
        for file in &self.files {
            command.arg("-f").arg(repository().join("deploy").join(file));
        }
        command.args(["-p", &self.name]).args(arguments).current_dir(repository());
        let environment = [
            ("DEPLOYD_IMAGE", IMAGE),
            ("DEPLOYD_CLUSTER", &self.name),
            ("DEMO_SPEC", self.spec.to_str().expect("a path of letters")),
            ("DEPLOYD_PORT", &self.port.to_string()),
        ];
        command.envs(environment).output().expect("docker-compose runs")
    }

    /// The same, and it must succeed.
    pub(crate) fn composed(&self, arguments: &[&str]) -> String {
        let output = self.compose(arguments);
        assert!(output.status.success(), "docker-compose {arguments:?}:\n{}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Starts everything, waits until the demo was deployed, and makes a token.
    pub(crate) async fn up(&self) {
        self.composed(&["up", "--detach"]);
        let demo = self.composed(&["ps", "--quiet", "--all", "demo"]);
        let ended = eventually(Duration::from_secs(120), "the demo is deployed", async || {
            let state = inspect("{{.State.Status}} {{.State.ExitCode}}", &demo)?;
            state.starts_with("exited").then_some(state)
        });
        let ended = ended.await;
        assert_eq!(ended, "exited 0", "{}", text(&self.compose(&["logs", "demo"])));
        self.token.get_or_init(|| self.composed(&FIRST_TOKEN));
    }

    /// The container of a service.
    pub(crate) fn container(&self, service: &str) -> String {
        let id = self.composed(&["ps", "--quiet", service]);
        assert!(!id.is_empty(), "{service} has no container");
        id
    }

    /// Waits until the health check of a service's container says that it is well.
    pub(crate) async fn healthy(&self, service: &str) {
        let id = self.container(service);
        eventually(Duration::from_secs(90), &format!("{service} is healthy"), async || {
            (inspect("{{.State.Health.Status}}", &id)? == "healthy").then_some(())
        })
        .await;
    }

    /// Ids of the workloads on the engine, running or not.
    pub(crate) fn workloads(&self) -> Vec<String> {
        let label = format!("label={}={}", contract::labels::CLUSTER, self.name);
        let ids = docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &label]);
        let mut ids: Vec<String> = ids.lines().map(str::to_owned).collect();
        ids.sort();
        ids
    }

    /// The published port.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// One request to the published port; none without an answer.
    pub(crate) async fn call(&self, method: Method, path: &str, key: Option<&str>) -> Option<(StatusCode, String)> {
        let mut request = self.client.request(method, format!("{}{path}", self.url())).header("Connection", "close");
        if let Some(token) = self.token.get() {
            request = request.bearer_auth(token);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let response = request.send().await.ok()?;
        let status = response.status();
        Some((status, response.text().await.ok()?))
    }

    /// The answer of `/api/cluster`.
    pub(crate) async fn cluster(&self) -> Option<Value> {
        let (status, body) = self.call(Method::GET, "/api/cluster", None).await?;
        (status == StatusCode::OK).then(|| serde_json::from_str(&body).expect("JSON"))
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", text(&self.compose(&["ps", "--all"])));
            eprintln!("{}", text(&self.compose(&["logs", "--tail", "12"])));
        }
        for arguments in
            [&["down", "--volumes", "--timeout", "1"][..], &["run", "--rm", "clear"], &["down", "--volumes"]]
        {
            let output = self.compose(arguments);
            if !output.status.success() {
                eprintln!("docker-compose {arguments:?}: {}", text(&output));
            }
        }
    }
}

/// docker-compose 1.29 or the plugin of version 2: the files are for both.
fn composer() -> Command {
    if Command::new("docker-compose").arg("version").output().is_ok_and(|output| output.status.success()) {
        return Command::new("docker-compose");
    }
    command("docker", &["compose"])
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// What `docker` says; it must succeed.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let output = command("docker", arguments).output().expect("docker runs");
    assert!(output.status.success(), "docker {arguments:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A fact about a container; none when it is not there.
pub(crate) fn inspect(format: &str, id: &str) -> Option<String> {
    let output = command("docker", &["inspect", "--format", format, id]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
