//! One client cannot keep the others out, nor the monitors behind its own address.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reqwest::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::world::{World, eventually};

const FLAGS: [&str; 4] = ["--connections-per-peer", "64", "--requests-per-peer", "32"];
/// A client that is kept out waits for longer.
const SOON: Duration = Duration::from_secs(5);

fn address(world: &World) -> SocketAddr {
    world.base.trim_start_matches("http://").parse().unwrap()
}

/// A new connection, of another address if need be, with some bytes sent.
async fn connected(world: &World, from: [u8; 4], text: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let mut stream = socket.connect(address(world)).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

const ME: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// The status of one request on a connection of its own.
async fn status(world: &World, from: [u8; 4], path: &str) -> u16 {
    let client = Client::builder().local_address(IpAddr::from(from)).timeout(SOON).build().unwrap();
    client.get(world.at(path)).send().await.map_or(0, |response| response.status().as_u16())
}

/// Whether the server has closed the connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await {
        Ok(Ok(count)) => count == 0,
        Ok(Err(_)) => true,
        Err(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_requests_make_room_for_new_ones() {
    let world = World::start_with(&FLAGS).await;
    let mut half_open = Vec::new();
    for _ in 0..300 {
        half_open.push(connected(&world, ME, "GET /api/cluster HTTP/1.1\r\nHost: a").await);
    }
    for from in [ME, OTHER] {
        assert_eq!(status(&world, from, "/healthz").await, 200, "from {from:?}");
    }
    let mut closed = 0;
    for stream in &mut half_open {
        closed += usize::from(is_closed(stream).await);
    }
    assert!((236..300).contains(&closed), "the oldest make room: {closed} of 300");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_limited_by_address_and_health_checks_are_not() {
    let world = World::start_with(&FLAGS).await;
    let unfinished = "POST /api/podgroups HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n";
    let mut in_flight = Vec::new();
    for _ in 0..32 {
        in_flight.push(connected(&world, ME, unfinished).await);
    }
    eventually("the limit is reached", async || (status(&world, ME, "/api/nothing").await == 429).then_some(())).await;
    for path in ["/healthz", "/metrics"] {
        assert_eq!(status(&world, ME, path).await, 200, "{path}");
    }
    assert_eq!(status(&world, OTHER, "/api/nothing").await, 404, "another address has requests of its own");
    drop(in_flight);
    eventually("places come back", async || (status(&world, ME, "/api/nothing").await == 404).then_some(())).await;
}
