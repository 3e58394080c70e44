//! An API that answers by path, in the order given, and the program that is run against it.

use std::collections::{BTreeMap, VecDeque};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::Value;
use tokio::process::Command;

/// The program under test.
const DEPLOYCTL: &str = env!("CARGO_BIN_EXE_deployctl");

#[derive(Debug, Default)]
struct Script {
    /// Answers left, by method and path; the last one is given again and again.
    answers: BTreeMap<String, VecDeque<(u16, Value)>>,
    /// What was asked, as `METHOD path?query`, with its body.
    asked: Vec<(String, String)>,
}

/// An API for one test.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    script: Arc<Mutex<Script>>,
    url: String,
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
        fabric::tasks::spawn("server", async move { axum::serve(listener, router).await.expect("it serves") });
        Self { script, url }
    }

    /// Every request but the reads, with its body.
    pub(crate) fn changes(&self) -> Vec<(String, String)> {
        let script = self.script.lock().expect("nobody panicked");
        script.asked.iter().filter(|(line, _)| !line.starts_with("GET ")).cloned().collect()
    }

    /// How many requests it has received.
    pub(crate) fn requests(&self) -> usize {
        self.script.lock().expect("the server does not panic").asked.len()
    }

    /// How often it was asked this.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.script.lock().expect("nobody panicked").asked.iter().filter(|(asked, _)| asked == line).count()
    }

    /// The program with these words, not yet started; nobody watches its output.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(DEPLOYCTL);
        command.args(words).env("DEPLOYD_API", &self.url).env_remove("DEPLOYD_DIR").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) async fn run(&self, words: &[&str]) -> Ended {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.command(words).output()).await;
        Ended::of(&ended.expect("deployctl ends in time").expect("deployctl runs"))
    }
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

async fn answer(State(script): State<Arc<Mutex<Script>>>, request: Request) -> (StatusCode, String) {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let what = format!("{} {}", parts.method, parts.uri.path());
    let mut script = script.lock().expect("nobody panicked");
    script.asked.push((format!("{what}{query}"), String::from_utf8_lossy(&body).into_owned()));
    let answer = script
        .answers
        .get_mut(&what)
        .and_then(|answers| if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() });
    let (status, body) = answer.unwrap_or_else(|| (404, Value::from(format!("nothing was said about {what}"))));
    (StatusCode::from_u16(status).expect("a status"), body.to_string())
}
