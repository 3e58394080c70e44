//! An API that answers by path, in the order given, and the program that is run against it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::AbortHandle;

/// The program under test.
const DEPLOYCTL: &str = env!("CARGO_BIN_EXE_deployctl");

/// The status of an answer that never comes.
pub(crate) const NEVER: u16 = 0;

/// Members of a body that become headers of the answer.
const HEADERS: [(&str, &str); 3] =
    [("unknown", "Deployd-Outcome"), ("stale", "Deployd-Stale"), ("retry_after", "Retry-After")];

#[derive(Debug, Default)]
struct Script {
    /// Answers left, by method and path; the last one is given again and again.
    answers: BTreeMap<String, VecDeque<(u16, Value)>>,
    /// What was asked, as `METHOD path?query`, with its body.
    asked: Vec<(String, String)>,
    /// The idempotency keys of the changes, in the order they were asked for.
    keys: Vec<String>,
    /// The users that the changes name.
    users: Vec<String>,
    /// The header `Authorization` of every request; empty where there was none.
    authorizations: Vec<String>,
    /// The id of the restore that was sent last; `{restore}` in an answer stands for it.
    restore: String,
}

/// An API for one test.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    script: Arc<Mutex<Script>>,
    url: String,
    serving: AbortHandle,
    /// The configuration of the user that runs the program.
    config: Arc<TempDir>,
}

impl Server {
    /// Listens, and answers each `METHOD path` as the entries of that path say, one after the other.
    pub(crate) async fn start(answers: &[(&str, u16, Value)]) -> Self {
        let mut script = Script::default();
        for (what, status, body) in answers {
            script.answers.entry((*what).to_owned()).or_default().push_back((*status, body.clone()));
        }
        let script = Arc::new(Mutex::new(script));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let serving = async move { axum::serve(listener, router).await.expect("it serves") };
        let serving = fabric::tasks::spawn("server", serving).abort_handle();
        let config = Arc::new(tempfile::tempdir().expect("a folder"));
        Self { script, url, serving, config }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Refuses connections from now on.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }

    /// Waits until it has received `count` requests that begin with `line`.
    pub(crate) async fn until_asked(&self, line: &str, count: usize) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        let asked = || {
            let script = self.script.lock().expect("the server does not panic");
            script.asked.iter().filter(|(asked, _)| asked.starts_with(line)).count()
        };
        while asked() < count {
            assert!(tokio::time::Instant::now() < deadline, "{line} was not asked {count} times");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Every request but the reads, with its body.
    pub(crate) fn changes(&self) -> Vec<(String, String)> {
        let script = self.script.lock().expect("no holder of the lock panicked");
        script.asked.iter().filter(|(line, _)| !line.starts_with("GET ")).cloned().collect()
    }

    /// How many requests it has received.
    pub(crate) fn requests(&self) -> usize {
        self.script.lock().expect("the server does not panic").asked.len()
    }

    /// The idempotency keys of all changes, in order.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.script.lock().expect("the server does not panic").keys.clone()
    }

    /// The users that the changes name, in order.
    pub(crate) fn users(&self) -> Vec<String> {
        self.script.lock().expect("the server does not panic").users.clone()
    }

    /// The header `Authorization` of every request, in order.
    pub(crate) fn authorizations(&self) -> Vec<String> {
        self.script.lock().expect("the server does not panic").authorizations.clone()
    }

    /// Where the program keeps contexts.
    pub(crate) fn contexts(&self) -> PathBuf {
        self.config.path().join("deployd/contexts.json")
    }

    /// How often it was asked this.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.script
            .lock()
            .expect("no holder of the lock panicked")
            .asked
            .iter()
            .filter(|(asked, _)| asked == line)
            .count()
    }

    /// The program with these arguments, not yet started; its output is not a terminal.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(DEPLOYCTL);
        command.args(words).env("DEPLOYD_API", &self.url).env_remove("DEPLOYD_DIR").kill_on_drop(true);
        command.env("XDG_CONFIG_HOME", self.config.path()).env_remove("DEPLOYD_CA");
        command.env_remove("DEPLOYD_TOKEN").env_remove("DEPLOYD_TOKEN_FILE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) async fn run(&self, words: &[&str]) -> Ended {
        run(self.command(words)).await
    }

    /// The same, and no flag or variable names this API.
    pub(crate) async fn run_elsewhere(&self, words: &[&str]) -> Ended {
        let mut command = self.command(words);
        command.env_remove("DEPLOYD_API").current_dir(self.config.path());
        run(command).await
    }
}

/// Runs a program to its end.
pub(crate) async fn run(mut command: Command) -> Ended {
    let ended = tokio::time::timeout(Duration::from_secs(30), command.output()).await;
    Ended::of(&ended.expect("deployctl ends in time").expect("deployctl runs"))
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response<String> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let what = format!("{} {}", parts.method, parts.uri.path());
    let key = parts.headers.get("Idempotency-Key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
    let authorization = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    script.lock().expect("the server does not panic").authorizations.push(authorization.to_owned());
    let user = parts.headers.get("X-Deployd-User").and_then(|user| user.to_str().ok()).map(str::to_owned);
    script.lock().expect("the server does not panic").users.extend(user);
    let (status, body) = next(&script, &what, &query, &body, &key);
    let restore = script.lock().expect("the server does not panic").restore.clone();
    if status == NEVER {
        std::future::pending::<()>().await;
    }
    let mut response = Response::new(body.to_string().replace("{key}", &key).replace("{restore}", &restore));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    // Each request has its own connection, so that none survives `stop`.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    for (member, header) in HEADERS {
        let value = match &body[member] {
            Value::Bool(true) if member == "unknown" => "unknown".to_owned(),
            Value::Bool(true) => "true".to_owned(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        response.headers_mut().insert(header, value.parse().expect("a header"));
    }
    response
}

/// Records a request and takes the next answer to it.
fn next(script: &Mutex<Script>, what: &str, query: &str, body: &[u8], key: &str) -> (u16, Value) {
    let mut script = script.lock().expect("the server does not panic");
    if !key.is_empty() {
        script.keys.push(key.to_owned());
    }
    let body = String::from_utf8_lossy(body).into_owned();
    if let Some((_, rest)) = body.split_once(r#""restore":""#) {
        script.restore = rest.split('"').next().unwrap_or_default().to_owned();
    }
    script.asked.push((format!("{what}{query}"), body));
    let answer = script
        .answers
        .get_mut(what)
        .and_then(|answers| if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() });
    answer.unwrap_or_else(|| (404, Value::from(format!("nothing was said about {what}"))))
}
