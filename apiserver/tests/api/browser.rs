//! A web page of another origin, in a real browser, against the API of the user who opened it.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Html;
use tempfile::TempDir;

use crate::bodies::spec_with;
use crate::leader::{Leader, Manner};
use crate::world::{World, eventually};

const GROUP: &str = "hello.web.web";
const ATTACKS: usize = 10;

/// What the page sent to the server that it came from.
#[derive(Debug, Default)]
struct Told {
    tried: Vec<String>,
    loot: Vec<String>,
    is_done: bool,
}

type Shared = Arc<Mutex<Told>>;

async fn told(State(told): State<Shared>, uri: Uri, body: String) -> &'static str {
    let mut told = told.lock().unwrap();
    match uri.path() {
        "/tried" => told.tried.push(body),
        "/loot" => told.loot.push(body),
        "/done" => told.is_done = true,
        _ => {}
    }
    ""
}

/// Serves the page, and collects what it tells.
async fn evil_server(page: String) -> (u16, Shared) {
    let shared = Shared::default();
    let page = axum::routing::get(move || async move { Html(page) });
    let router = Router::new().route("/", page).fallback(told).with_state(shared.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    fabric::tasks::spawn("evil server", async move { axum::serve(listener, router).await.unwrap() });
    (port, shared)
}

/// Ends the browser with the test.
struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The browser's command line. Every name resolves to this machine, as DNS rebinding would have it.
fn browser(profile: &TempDir, words: &[&str]) -> Command {
    let mut command = Command::new("chromium");
    command
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--host-resolver-rules=MAP *.test 127.0.0.1")
        .args(words)
        .stderr(Stdio::null());
    command
}

async fn open(url: &str) -> Browser {
    let profile = tempfile::tempdir().unwrap();
    let child = browser(&profile, &["--remote-debugging-port=0", url]).stdout(Stdio::null()).spawn();
    Browser { child: child.expect("chromium starts (./deploy/need test installs it)"), _profile: profile }
}

fn page(api: &str) -> String {
    let spec = spec_with(GROUP, "evil.web.web");
    let spec: serde_json::Value = serde_json::from_str(&spec).unwrap();
    let spec = spec.to_string();
    let (name, value) = spec.split_at(spec.len() - 1);
    let attribute = |text: &str| text.replace('&', "&amp;").replace('"', "&quot;").replace('\'', "&#39;");
    include_str!("browser.html")
        .replace("SPEC_NAME", &attribute(&attribute(&format!("{name},\"x\":\""))))
        .replace("SPEC_VALUE", &attribute(&attribute(&format!("\"{value}"))))
        .replace("SPEC", &serde_json::to_string(&spec).unwrap())
        .replace("API", api)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_reads_and_changes_nothing() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", &spec_with(GROUP, GROUP)).await.status, 202);

    let (port, shared) = evil_server(page(&world.base)).await;
    let _browser = open(&format!("http://evil.test:{port}/")).await;
    eventually("the page ends", async || shared.lock().unwrap().is_done.then_some(())).await;

    {
        let told = shared.lock().unwrap();
        assert_eq!(told.tried.len(), ATTACKS, "{:?}", told.tried);
        assert!(told.loot.is_empty(), "{:?}", told.loot);
    }
    let commands = leader.stop().await;
    assert_eq!(commands.len(), 1, "only the test's own command arrived: {commands:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_name_points_to_the_api_reads_nothing() {
    let world = World::start().await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    assert_eq!(world.post("/api/podgroups", &spec_with(GROUP, GROUP)).await.status, 202);
    let port = world.base.rsplit(':').next().unwrap().to_owned();
    let dump = async |host: &str| {
        let profile = tempfile::tempdir().unwrap();
        let url = format!("http://{host}:{port}/api/podgroups?name={GROUP}");
        let mut command = browser(&profile, &["--dump-dom", &url]);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = tokio::time::timeout(Duration::from_secs(30), output).await.unwrap().unwrap().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let by_address = dump("127.0.0.1").await;
    assert!(by_address.contains("NumInstances"), "the user's own request is answered: {by_address}");
    let by_name = dump("rebind.test").await;
    assert!(by_name.contains("has no name") && !by_name.contains("NumInstances"), "{by_name}");
    leader.stop().await;
}
