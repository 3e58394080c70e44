//! Who sends a request: the address, and the user of this machine. A real server answers with what it knows.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use apiserver::http::browser::Hosts;
use apiserver::listen::{self, Limits, Listeners, Peer, Socket, Transport};
use apiserver::refused::RefusedLog;
use axum::Router;
use axum::extract::{Extension, State};
use fabric::admin::Readiness;
use fabric::shutdown::Shutdown;
use reqwest::Client;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);
/// A user that exists on no machine.
const OTHER: u32 = 4321;

/// A server that answers every request with its client; dropping it ends it.
struct Mirror {
    address: SocketAddr,
    /// Users of requests to `/later`, looked up after `go`.
    users: mpsc::Receiver<Option<u32>>,
    go: Arc<Notify>,
    shutdown: Shutdown,
}

#[derive(Clone)]
struct Later {
    users: mpsc::Sender<Option<u32>>,
    go: Arc<Notify>,
}

impl Mirror {
    async fn start(transport: Transport, socket: Option<&Path>) -> Self {
        fabric::http::install_crypto();
        let socket = match socket {
            Some(path) => Some(Socket::bind(path).await.unwrap()),
            None => None,
        };
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shutdown, go) = (tcp.local_addr().unwrap(), Shutdown::new(), Arc::new(Notify::new()));
        let (sender, users) = mpsc::channel(16);
        let limits = Limits {
            readiness: Readiness::new(),
            shutdown: shutdown.clone(),
            linger: Duration::ZERO,
            grace: Duration::from_secs(1),
            connections_per_peer: 64,
            requests_per_peer: 64,
            hosts: Hosts::default(),
            transport,
            refused: RefusedLog::default(),
        };
        let later = axum::routing::get(look_later).with_state(Later { users: sender, go: go.clone() });
        let router = Router::new().route("/later", later).fallback(show);
        fabric::tasks::spawn("mirror", listen::serve(Listeners { tcp, socket }, router, limits));
        Self { address, users, go, shutdown }
    }

    async fn asked_from(&self, from: [u8; 4], headers: &[(&str, &str)]) -> String {
        let client = Client::builder().local_address(IpAddr::from(from)).timeout(SOON).build().unwrap();
        let request = client.get(format!("http://{}/", self.address));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.send().await.unwrap().text().await.unwrap()
    }

    /// Runs a shell with a connection to the server as file 3.
    fn shell(&self, uid: Option<u32>, script: &str) -> Option<String> {
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; {script}", self.address.port());
        let mut command = Command::new("bash");
        command.arg("-c").arg(script).current_dir("/").stdin(Stdio::null());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        // Only root may become another user.
        Some(String::from_utf8_lossy(&command.output().ok()?.stdout).into_owned())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

async fn show(Extension(peer): Extension<Peer>) -> String {
    format!("{:?} {:?}", peer.address(), peer.uid().await)
}

async fn look_later(State(later): State<Later>, Extension(peer): Extension<Peer>) {
    // A task of its own: this one ends with the connection.
    fabric::tasks::spawn("later", async move {
        later.go.notified().await;
        let _ = later.users.send(peer.uid().await).await;
    });
    std::future::pending::<()>().await;
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

const ASK: &str = r"printf 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&3; cat <&3";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_of_a_client_on_this_machine_is_known() {
    let mirror = Mirror::start(Transport::default(), None).await;
    let expected = |uid: u32| format!("Some(127.0.0.1) Some({uid})");
    let answer = mirror.shell(None, ASK).unwrap();
    assert!(answer.ends_with(&expected(own())), "{answer}");
    match mirror.shell(Some(OTHER), ASK) {
        Some(answer) => assert!(answer.ends_with(&expected(OTHER)), "{answer}"),
        None => assert_ne!(own(), 0, "root may become another user"),
    }
    assert_eq!(mirror.asked_from([127, 0, 0, 2], &[]).await, format!("Some(127.0.0.2) Some({})", own()));
}

/// A closed socket has no owner, and the kernel then shows root.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_gone_is_not_taken_for_root() {
    let ask = r"printf 'GET /later HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n' >&3";
    let looked_up = async {
        loop {
            let mut mirror = Mirror::start(Transport::default(), None).await;
            mirror.shell(Some(OTHER), ask)?;
            mirror.go.notify_one();
            // A server that sees the end of the connection together with the request does not call the handler.
            if let Ok(user) = timeout(Duration::from_secs(1), mirror.users.recv()).await {
                return user;
            }
        }
    };
    let Some(user) = timeout(SOON, looked_up).await.expect("looked up in time") else {
        assert_ne!(own(), 0, "root may become another user");
        return;
    };
    assert_eq!(user, None, "the client has closed its connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_of_a_client_on_the_unix_socket_is_known_and_any_name_may_be_called() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.sock");
    let mirror = Mirror::start(Transport::default(), Some(&path)).await;
    let client = Client::builder().unix_socket(path.clone()).timeout(SOON).build().unwrap();
    let answer = client.get("http://any.name/").send().await.unwrap().text().await.unwrap();
    assert_eq!(answer, format!("None Some({})", own()));
    let page = client.get("http://any.name/").header("Origin", "http://evil.test").send().await.unwrap();
    assert_eq!(page.status(), 403, "a page is refused here too");
    drop(mirror);
    let gone = async {
        while path.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, gone).await.expect("the socket is removed at shutdown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_trusted_proxy_names_the_client_of_a_request() {
    let proxies = vec!["127.0.0.9/32".parse().unwrap()];
    let mirror = Mirror::start(Transport { proxies, ..Transport::default() }, None).await;
    let named = [("X-Forwarded-For", "6.6.6.6, 192.0.2.7")];
    assert_eq!(mirror.asked_from([127, 0, 0, 9], &named).await, "Some(192.0.2.7) None");
    assert_eq!(
        mirror.asked_from([127, 0, 0, 9], &[]).await,
        "Some(127.0.0.9) None",
        "the proxy's own user says nothing"
    );
    let other = mirror.asked_from([127, 0, 0, 2], &named).await;
    assert_eq!(other, format!("Some(127.0.0.2) Some({})", own()), "not a proxy");
    let both = [named[0], ("Forwarded", "for=192.0.2.8")];
    assert!(mirror.asked_from([127, 0, 0, 9], &both).await.contains("Forwarded and X-Forwarded-For"));
}

/// Not a limit that must hold on every machine: it prints what a look-up costs, with `--nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_is_looked_up_in_milliseconds_among_a_thousand_connections() {
    let mirror = Mirror::start(Transport::default(), None).await;
    for open in [0, 1000] {
        let mut held = Vec::new();
        for _ in 0..open {
            held.push(tokio::net::TcpStream::connect(mirror.address).await.unwrap());
        }
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = tokio::net::TcpStream::connect(tcp.local_addr().unwrap()).await.unwrap();
            let (_accepted, client) = tcp.accept().await.unwrap();
            let peer = Peer::connected(client, tcp.local_addr().unwrap());
            for times in [&mut unknown, &mut known] {
                let started = std::time::Instant::now();
                assert_eq!(peer.uid().await, Some(own()));
                times.push(started.elapsed());
            }
            drop(stream);
        }
        unknown.sort_unstable();
        known.sort_unstable();
        println!("{open} more connections: first {:?}, p99 {:?}; then {:?}", unknown[50], unknown[98], known[50]);
        assert!(unknown[50] < Duration::from_millis(200), "{:?}", unknown[50]);
    }
}
