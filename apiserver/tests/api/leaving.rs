//! Shutdown: no request fails, and clients move to another apiserver.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::{World, eventually};

const SOON: Duration = Duration::from_secs(10);

fn address(world: &World) -> String {
    world.base.trim_start_matches("http://").to_owned()
}

/// One request on a connection that is kept, and the answer up to its body.
async fn ask(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = async {
        loop {
            let mut part = [0; 1024];
            let count = stream.read(&mut part).await.unwrap();
            answer.extend_from_slice(&part[..count]);
            let text = String::from_utf8_lossy(&answer);
            let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
            if count == 0 || (body.is_some() && body >= length) {
                return text.into_owned();
            }
        }
    };
    timeout(SOON, reading).await.expect("an answer in time")
}

/// Returns when the other side has ended the connection.
async fn ended(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    timeout(SOON, stream.read_to_end(&mut rest)).await.expect("ended in time").expect("ended politely");
    assert!(rest.is_empty(), "{rest:?}");
}

async fn refuses(world: &World) {
    let address = address(world);
    eventually("connections are refused", async || TcpStream::connect(&address).await.is_err().then_some(())).await;
}

#[tokio::test]
async fn while_lingering_it_is_not_ready_and_answers_with_connection_close() {
    let world = World::start_with(&["--linger", "2s"]).await;
    let mut kept = TcpStream::connect(address(&world)).await.unwrap();
    let before = ask(&mut kept, "/healthz").await;
    assert!(before.starts_with("HTTP/1.1 200") && !before.contains("connection: close"), "{before}");
    world.shutdown.trigger();
    eventually("it is not ready", async || {
        let answer = world.get("/readyz").await;
        (answer.status == 503 && answer.text == "shutting down\n").then_some(())
    })
    .await;
    // The connection that was idle all the while, and one that is new.
    let mut fresh = TcpStream::connect(address(&world)).await.unwrap();
    for stream in [&mut kept, &mut fresh] {
        let answer = ask(stream, "/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
        ended(stream).await;
    }
    refuses(&world).await;
    timeout(SOON, world.server).await.expect("it ends in time").unwrap();
}

#[tokio::test]
async fn a_connection_that_came_last_is_answered_before_it_ends() {
    let world = World::start_with(&["--linger", "0s"]).await;
    assert_eq!(world.get("/healthz").await.status, 200);
    let mut last = TcpStream::connect(address(&world)).await.unwrap();
    world.shutdown.trigger();
    refuses(&world).await;
    let answer = ask(&mut last, "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    timeout(SOON, world.server).await.expect("it ends in time").unwrap();
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_does_not_delay_the_shutdown() {
    let world = World::start_with(&["--linger", "1200ms"]).await;
    let mut idle = TcpStream::connect(address(&world)).await.unwrap();
    ask(&mut idle, "/healthz").await;
    world.shutdown.trigger();
    ended(&mut idle).await;
    timeout(SOON, world.server).await.expect("it ends in time").unwrap();
}
