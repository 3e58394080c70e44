//! `deployctl proxy`: programs without a token use the token of the user; web pages and other users cannot.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;

use crate::login::{ACCESS, token, view};
use crate::server::Server;

const SOON: Duration = Duration::from_secs(20);

/// A running proxy; dropping it kills it.
struct Proxy {
    child: Child,
    address: String,
}

async fn start(server: &Server, urls: &str, words: &[&str]) -> Proxy {
    let mut command = server.command(&[&["proxy", "--listen", "127.0.0.1:0"], words].concat());
    command.env("DEPLOYD_API", urls).env("DEPLOYD_TOKEN", token(1));
    let mut child = command.spawn().expect("deployctl runs");
    let mut lines = BufReader::new(child.stdout.take().expect("an output")).lines();
    let line = tokio::time::timeout(SOON, lines.next_line()).await.expect("it starts in time").expect("a line");
    let line = line.expect("the proxy starts");
    let address = line.strip_prefix("http://").and_then(|rest| rest.split(' ').next()).expect("an address").to_owned();
    assert!(line.contains("as alice (deployer@shop)"), "{line}");
    Proxy { child, address }
}

impl Proxy {
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let client = fabric::http::client_with(SOON, reqwest::ClientBuilder::no_proxy);
        let mut request = client.get(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.expect("the proxy answers");
        (response.status().as_u16(), response.text().await.expect("a body"))
    }
}

async fn api() -> Server {
    Server::start(&[
        (ACCESS, 200, view()),
        ("GET /api/nodes", 200, json!([{"Name": "n1"}])),
        ("POST /api/podgroups", 202, json!({"message": "ok"})),
    ])
    .await
}

#[tokio::test]
async fn requests_of_programs_without_a_token_get_that_of_the_user() {
    let server = api().await;
    // The first apiserver is away: the next one gets the request with its body.
    let urls = format!("http://127.0.0.1:1,{}", server.url());
    let proxy = start(&server, &urls, &[]).await;
    let (status, body) = proxy.get("/api/nodes?a=1", &[]).await;
    assert_eq!((status, body.as_str()), (200, r#"[{"Name":"n1"}]"#));
    let client = fabric::http::client_with(SOON, reqwest::ClientBuilder::no_proxy);
    let url = format!("http://{}/api/podgroups?x=%2F", proxy.address);
    let answer = client.post(url).body(r#"{"Name":"a"}"#).send().await.expect("the proxy answers");
    assert_eq!(answer.status().as_u16(), 202);
    assert_eq!(server.changes(), [("POST /api/podgroups?x=%2F".to_owned(), r#"{"Name":"a"}"#.to_owned())]);
    // A program with a token of its own acts as its own principal.
    proxy.get("/api/nodes", &[("authorization", "Bearer own")]).await;
    let bearer = format!("Bearer {}", token(1));
    assert_eq!(server.authorizations(), [bearer.as_str(), &bearer, &bearer, "Bearer own"]);
    server.stop();
    let (status, body) = proxy.get("/api/nodes", &[]).await;
    assert!(status == 502 && body.contains("no apiserver answers"), "{status} {body}");
}

#[tokio::test]
async fn requests_of_web_pages_are_refused_and_not_passed_on() {
    let server = api().await;
    let proxy = start(&server, &server.url(), &[]).await;
    let before = server.requests();
    for header in [
        ("host", "evil.test:9003"),
        ("host", "10.0.0.1"),
        ("origin", "http://evil.test"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let (status, body) = proxy.get("/api/nodes", &[header]).await;
        assert!(status == 403 && body.contains("deployctl proxy"), "{header:?}: {status} {body}");
    }
    assert_eq!(server.requests(), before);
}

/// Runs as root: only root can start a program of another user.
#[tokio::test]
async fn programs_of_another_user_are_refused_unless_their_user_is_allowed() {
    const ANOTHER_USER: u32 = 65_533;
    assert!(rustix::process::geteuid().is_root(), "this test starts a program of another user and needs root");
    let server = api().await;
    for (words, expected) in [(&[][..], "403"), (&["--allow-uid", "65533"], "200")] {
        let proxy = start(&server, &server.url(), words).await;
        let script = format!(
            "exec 3<>/dev/tcp/{}; printf 'GET /api/nodes HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
            proxy.address.replace(':', "/")
        );
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script]).uid(ANOTHER_USER).gid(ANOTHER_USER).stdin(Stdio::null());
        let output = tokio::process::Command::from(command).output().await.expect("bash runs");
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{words:?}: {answer} {output:?}");
    }
}

/// An apiserver that sends its answer in two parts and waits for the second part of the request in between.
#[tokio::test]
async fn both_bodies_are_streamed() {
    let server = api().await;
    let upstream = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", upstream.local_addr().expect("an address"));
    let serving = fabric::tasks::spawn("upstream", async move {
        // The first connection asks for the access, the second one is the test's.
        for is_test in [false, true] {
            let (mut stream, _) = upstream.accept().await.expect("a connection");
            if !is_test {
                read_until(&mut stream, "\r\n\r\n").await;
                let body = view().to_string();
                let head = format!("HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.expect("answered");
                continue;
            }
            read_until(&mut stream, "first").await;
            stream
                .write_all(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none \r\n")
                .await
                .expect("answered");
            read_until(&mut stream, "second").await;
            stream.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.expect("answered");
        }
    });
    let proxy = start(&server, &url, &[]).await;
    let mut stream = TcpStream::connect(&proxy.address).await.expect("the proxy listens");
    let head = "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}5\r\nfirst\r\n").as_bytes()).await.expect("sent");
    read_until(&mut stream, "one ").await;
    stream.write_all(b"6\r\nsecond\r\n0\r\n\r\n").await.expect("sent");
    read_until(&mut stream, "two").await;
    tokio::time::timeout(SOON, serving).await.expect("it ends in time").expect("the upstream ends");
}

async fn read_until(stream: &mut TcpStream, text: &str) {
    let mut read = String::new();
    let reading = async {
        while !read.contains(text) {
            let mut bytes = [0; 1024];
            let length = stream.read(&mut bytes).await.expect("readable");
            assert!(length > 0, "{text:?} does not come: {read}");
            read.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    };
    tokio::time::timeout(SOON, reading).await.unwrap_or_else(|_| panic!("{text:?} does not come"));
}

#[tokio::test]
async fn a_proxy_ends_with_ctrl_c() {
    let server = api().await;
    let mut proxy = start(&server, &server.url(), &[]).await;
    let pid = proxy.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("it runs"), rustix::process::Signal::INT).expect("the signal is sent");
    let ended = tokio::time::timeout(SOON, proxy.child.wait()).await.expect("it ends in time").expect("it ends");
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn a_proxy_for_others_or_without_a_token_does_not_start() {
    let server = api().await;
    let ended = server.run(&["proxy", "--listen", "0.0.0.0:0"]).await;
    assert!(ended.code == Some(2) && ended.err.contains("127.0.0.1"), "{ended:?}");
    let ended = server.run(&["proxy", "--listen", "127.0.0.1:0"]).await;
    assert!(ended.code == Some(2) && ended.err.contains("deployctl login"), "{ended:?}");
}
