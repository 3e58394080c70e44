//! A cluster under test: started, read, hurt and taken down through the ways users have.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use contract::api::{ClusterStatus, PodGroupWithSpec};
use contract::state::RunState;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::docker::{Engine, Workload};

/// The image the workloads run.
pub(crate) const IMAGE: &str = "deployd-test/demo:1";

pub(crate) struct Cluster {
    folder: TempDir,
    /// Where its programs are.
    programs: PathBuf,
    /// Settings of all processes of the cluster.
    environment: Vec<(&'static str, &'static str)>,
    id: String,
    apis: Vec<String>,
    pub(crate) engine: Engine,
    client: reqwest::Client,
}

/// Where the programs under test are: in the folder above the one this test binary lies in.
pub(crate) fn programs() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().and_then(Path::parent).expect("target/debug").to_owned()
}

/// One of them.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = programs().join(name);
    assert!(path.exists(), "{} is missing: cargo build --bins", path.display());
    path
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

impl Cluster {
    /// Three nodes, and whatever else `extra` says.
    pub(crate) async fn start(extra: &[&str]) -> Self {
        Self::start_with(&[], extra).await
    }

    /// The same, with settings that all of its processes take from their environment.
    pub(crate) async fn start_with(environment: &[(&'static str, &'static str)], extra: &[&str]) -> Self {
        Self::start_from(programs(), environment, extra).await
    }

    /// The same, with the programs of another folder.
    pub(crate) async fn start_from(
        programs: PathBuf,
        environment: &[(&'static str, &'static str)],
        extra: &[&str],
    ) -> Self {
        let engine = Engine::connect().await;
        for repository in ["deployd-test/demo", "deployd/demo"] {
            Engine::ensure_image(repository, &self::repository().join("target/demo/demo")).await;
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut cluster = Self {
            folder,
            programs,
            environment: environment.to_vec(),
            id: String::new(),
            apis: Vec::new(),
            engine,
            client: fabric::http::client(Duration::from_secs(15)),
        };
        let mut arguments = vec!["up", "--detach", "--no-demo", "--port", "0"];
        arguments.extend(extra);
        let output = cluster.deployctl(&arguments).await;
        assert!(output.status.success(), "deployctl up failed:\n{}", text(&output));
        let state = cluster.state();
        cluster.id = string(&state["cluster"]);
        cluster.apis = state["api"].as_array().expect("api urls").iter().map(string).collect();
        cluster
    }

    pub(crate) async fn deployctl(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.programs.join("deployctl"));
        command.current_dir(repository()).arg("--dir").arg(self.folder.path()).args(arguments).kill_on_drop(true);
        command.envs(self.environment.iter().copied());
        let ended = tokio::time::timeout(Duration::from_secs(180), command.output()).await;
        ended.expect("deployctl ends in time").expect("deployctl runs")
    }

    pub(crate) fn state(&self) -> Value {
        let file = std::fs::read(self.folder.path().join("state.json")).expect("state.json");
        serde_json::from_slice(&file).expect("state.json is JSON")
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn api(&self, index: usize) -> &str {
        &self.apis[index]
    }

    pub(crate) fn child(&self, name: &str) -> Option<u32> {
        let state = self.state();
        let child = state["children"].as_array()?.iter().find(|child| child["name"] == name)?.clone();
        child["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
    }

    /// Every process and its id.
    pub(crate) fn processes(&self) -> Vec<(String, Option<u64>)> {
        let state = self.state();
        let children = state["children"].as_array().expect("children").iter();
        children.map(|child| (string(&child["name"]), child["pid"].as_u64())).collect()
    }

    /// Every process's log.
    pub(crate) fn logs(&self) -> Vec<(String, String)> {
        let Ok(logs) = std::fs::read_dir(self.folder.path().join("logs")) else { return Vec::new() };
        let read = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(&path).unwrap_or_default());
        logs.flatten().map(|entry| read(entry.path())).collect()
    }

    /// Sends a signal to a process of the cluster by its id.
    pub(crate) fn signal(&self, name: &str, signal: rustix::process::Signal) {
        let pid = self.child(name).unwrap_or_else(|| panic!("{name} runs"));
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
        rustix::process::kill_process(pid, signal).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// `kill -9` of the process that watches over the others; they live on.
    pub(crate) fn kill_supervisor(&self) {
        self.signal_supervisor(rustix::process::Signal::KILL);
    }

    /// Sends a signal to the process that watches over the others.
    pub(crate) fn signal_supervisor(&self, signal: rustix::process::Signal) {
        let pid = self.state()["supervisor"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).expect("a supervisor");
        rustix::process::kill_process(pid, signal).expect("the signal is sent");
    }

    /// Where it keeps its state, logs and data.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn kill(&self, name: &str) {
        self.signal(name, rustix::process::Signal::KILL);
    }

    /// Waits until the process runs again under another id than `before`.
    pub(crate) async fn restarted(&self, name: &str, before: Option<u32>) {
        eventually(Duration::from_secs(20), &format!("{name} is started again"), async || {
            let now = self.child(name);
            (now.is_some() && now != before).then_some(())
        })
        .await;
    }

    pub(crate) async fn call(
        &self,
        api: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> (StatusCode, String) {
        let mut request = self.client.request(method, format!("{}{path}", self.apis[api]));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.expect("the apiserver answers");
        let status = response.status();
        (status, response.text().await.expect("a body"))
    }

    /// A mutation that must be accepted; waits while another operation holds the lock.
    pub(crate) async fn accepted(&self, method: Method, path: &str, body: Option<&Value>) {
        eventually(Duration::from_secs(90), &format!("{method} {path} is accepted"), async || {
            let (status, text) = self.call(0, method.clone(), path, body).await;
            match status.as_u16() {
                202 => Some(()),
                423 | 503 => None,
                _ => panic!("{method} {path}: {status} {text}"),
            }
        })
        .await;
    }

    pub(crate) async fn group(&self, api: usize, name: &str) -> Option<PodGroupWithSpec> {
        let (status, body) = self.call(api, Method::GET, &format!("/api/podgroups?name={name}"), None).await;
        match status {
            StatusCode::OK => Some(serde_json::from_str(&body).expect("a PodGroupWithSpec")),
            StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE => None,
            other => panic!("GET {name}: {other} {body}"),
        }
    }

    /// Waits until the API says that all of `count` instances run.
    pub(crate) async fn running(&self, name: &str, count: usize, within: Duration) -> PodGroupWithSpec {
        eventually(within, &format!("{count} instances of {name} run"), async || {
            let group = self.group(0, name).await?;
            let all = group.pods.len() == count && group.pods.iter().all(|pod| pod.state == RunState::Success);
            (all && group.state == RunState::Success).then_some(group)
        })
        .await
    }

    /// Waits until the engine has exactly the instances 1..=count of the group, each once and running.
    pub(crate) async fn exactly(&self, name: &str, count: u32, within: Duration) -> Vec<Workload> {
        let wanted: Vec<u32> = (1..=count).collect();
        eventually(within, &format!("exactly {count} containers of {name}"), async || {
            let all = self.engine.of_group(&self.id, name).await;
            let mut instances: Vec<u32> = all.iter().filter(|c| c.running).map(|c| c.instance).collect();
            instances.sort_unstable();
            (instances == wanted && all.len() == wanted.len()).then_some(all)
        })
        .await
    }

    /// Name and term of the leader.
    pub(crate) async fn leader(&self) -> Option<(String, u64)> {
        let (status, body) = self.call(1, Method::GET, "/api/cluster", None).await;
        if status != StatusCode::OK {
            return None;
        }
        let cluster: ClusterStatus = serde_json::from_str(&body).expect("a ClusterStatus");
        (cluster.term > 0).then_some((cluster.leader, cluster.term))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        let mut down = std::process::Command::new(self.programs.join("deployctl"));
        let ended = down.arg("--dir").arg(self.folder.path()).args(["down", "--purge"]).output();
        if let Ok(output) = ended
            && !output.status.success()
        {
            eprintln!("deployctl down: {}", text(&output));
        }
    }
}

impl Cluster {
    /// The last log lines of every process, for the failure message.
    fn show_logs(&self) {
        for (path, log) in self.logs() {
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(15)..].join("\n");
            eprintln!("--- {path}\n{last}");
        }
    }
}

/// A group of `count` demo instances.
pub(crate) fn demo_group(name: &str, count: u32) -> Value {
    let namespace = name.split('.').next().expect("a first part");
    json!({
        "Name": name, "Namespace": namespace, "NumInstances": count, "RestartPolicy": 1,
        "Pod": {
            "Name": name, "Namespace": namespace, "Annotation": "{}", "Filters": ["constraint:group==default"],
            "Containers": [{"Image": IMAGE, "CpuLimit": 1, "MemoryLimit": 16 * 1024 * 1024, "Expose": 8080}],
        },
    })
}

/// Asks again until there is an answer; the only waiting in these tests.
pub(crate) async fn eventually<T>(within: Duration, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    loop {
        pause.tick().await;
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
    }
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
