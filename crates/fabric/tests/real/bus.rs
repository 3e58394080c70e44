//! Core NATS: requests, large messages, reconnecting.

use std::time::Duration;

use fabric::nats::{Args, Bus, Error, RequestError};
use tokio::time::Instant;

use crate::servers::{Nats, within};

/// Answers every request on `subject` with `size` letters until dropped.
async fn letters(bus: &Bus, subject: &str) {
    let mut requests = bus.subscribe(subject).await.unwrap();
    let bus = bus.clone();
    fabric::tasks::spawn("letters", async move {
        while let Some(message) = requests.next().await {
            let size: usize = message.decode().unwrap();
            bus.answer(&message.reply.unwrap(), &"x".repeat(size)).await.unwrap();
        }
    });
}

/// The first request may overtake the subscription of another connection.
async fn ask(bus: &Bus, subject: &str, size: usize) -> String {
    let started = Instant::now();
    loop {
        match bus.request::<_, String>(subject, &size, Duration::from_secs(10)).await {
            Ok(text) => return text,
            Err(RequestError::NoResponders { .. }) if started.elapsed() < Duration::from_secs(5) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_request_without_a_subscriber_fails_immediately() {
    let nats = Nats::start().await;
    let bus = nats.bus("asker").await;
    let started = Instant::now();
    let answer = bus.request::<_, String>("unused", &1, Duration::from_secs(10)).await;
    assert!(matches!(answer, Err(RequestError::NoResponders { .. })), "{answer:?}");
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_request_without_a_reply_fails_at_its_deadline() {
    let nats = Nats::start().await;
    let (asker, silent) = (nats.bus("asker").await, nats.bus("silent").await);
    let _subscription = silent.subscribe("silent").await.unwrap();
    letters(&silent, "marker").await;
    ask(&asker, "marker", 1).await; // The marker came after the subscription on the same connection.
    let started = Instant::now();
    let answer = asker.request::<_, String>("silent", &1, Duration::from_millis(300)).await;
    assert!(matches!(answer, Err(RequestError::TimedOut { .. })), "{answer:?}");
    assert!(started.elapsed() >= Duration::from_millis(300) && started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_reply_of_another_type_is_malformed() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    letters(&bus, "letters").await;
    let answer = bus.request::<_, Vec<u32>>("letters", &3, Duration::from_secs(5)).await;
    assert!(matches!(answer, Err(RequestError::Malformed(_))), "{answer:?}");
}

#[tokio::test]
async fn a_reply_of_five_megabytes_arrives_whole() {
    let nats = Nats::start().await;
    let (asker, answerer) = (nats.bus("asker").await, nats.bus("answerer").await);
    letters(&answerer, "letters").await;
    let text = ask(&asker, "letters", 5_000_000).await;
    assert_eq!(text.len(), 5_000_000);
    assert!(text.bytes().all(|byte| byte == b'x'));
}

#[tokio::test]
async fn a_request_of_three_megabytes_arrives_whole() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    let mut requests = bus.subscribe("long").await.unwrap();
    let answering = bus.clone();
    fabric::tasks::spawn("long", async move {
        while let Some(message) = requests.next().await {
            let text: String = message.decode().unwrap();
            answering.answer(&message.reply.unwrap(), &text.len()).await.unwrap();
        }
    });
    let length: usize = bus.request("long", &"y".repeat(3_000_000), Duration::from_secs(10)).await.unwrap();
    assert_eq!(length, 3_000_000);
}

#[tokio::test]
async fn a_message_above_the_size_limit_is_refused_before_it_is_sent() {
    let nats = Nats::start().await;
    let bus = nats.bus("sender").await;
    let sent = bus.publish("any", &"z".repeat(70 << 20)).await;
    assert!(matches!(sent, Err(Error::TooLarge { .. })), "{sent:?}");
}

#[tokio::test]
async fn the_bus_reconnects_after_a_kill_and_subscriptions_continue() {
    let mut nats = Nats::start().await;
    let bus = nats.bus("survivor").await;
    letters(&bus, "letters").await;
    let connected = bus.connected();
    assert!(*connected.borrow());
    nats.server.kill();
    within(Duration::from_secs(5), "the loss is noticed", || !*connected.borrow()).await;
    let started = Instant::now();
    let refused = bus.request::<_, String>("letters", &1, Duration::from_millis(500)).await;
    assert!(matches!(refused, Err(RequestError::Disconnected)), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(2));
    nats.server.restart().await.unwrap();
    within(Duration::from_secs(5), "the bus is back", || *connected.borrow()).await;
    assert_eq!(ask(&bus, "letters", 3).await, "xxx");
}

#[tokio::test]
async fn a_request_made_while_the_server_restarts_waits_for_it() {
    let mut nats = Nats::start().await;
    let bus = nats.bus("patient").await;
    letters(&bus, "letters").await;
    nats.server.kill();
    within(Duration::from_secs(5), "the loss is noticed", || !*bus.connected().borrow()).await;
    let asking = bus.clone();
    let answer = fabric::tasks::spawn("ask", async move { ask(&asking, "letters", 2).await });
    nats.server.restart().await.unwrap();
    assert_eq!(answer.await.unwrap(), "xx");
}

#[tokio::test]
async fn a_malformed_address_is_refused_without_waiting() {
    let started = Instant::now();
    let refused = Bus::connect(&Args::at("not an address"), "x").await;
    assert!(matches!(refused, Err(Error::Address { .. })), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(1));
}

/// Imitates an old server: sends INFO with an old version.
async fn old_server() -> String {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    fabric::tasks::spawn("old server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (reader, mut writer) = stream.into_split();
            let info = r#"INFO {"server_id":"old","version":"2.9.10","go":"go1","host":"127.0.0.1","port":1,"max_payload":1048576,"proto":1,"headers":true}"#;
            writer.write_all(format!("{info}\r\n").as_bytes()).await.unwrap();
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if line.starts_with("PING") {
                    writer.write_all(b"PONG\r\n").await.unwrap();
                }
            }
        }
    });
    url
}

#[tokio::test]
async fn a_server_older_than_two_ten_is_refused_with_its_version_and_the_remedy() {
    let refused = Bus::connect(&Args::at(old_server().await), "x").await;
    let Err(error @ Error::TooOld { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("2.9.10") && error.to_string().contains("2.10 or newer"), "{error}");
}

#[tokio::test]
async fn a_server_that_syncs_periodically_is_detected() {
    use fabric::local::{NatsServer, Syncing};
    for (syncing, expected) in [(Syncing::Always, true), (Syncing::Periodically, false)] {
        let dir = tempfile::tempdir().unwrap();
        let server = NatsServer::start_syncing(dir.path(), 0, syncing).await.unwrap();
        let bus = Bus::connect(&Args::at(server.url()), "doctor").await.unwrap();
        assert_eq!(bus.syncs_always().await, Some(expected));
    }
}

#[tokio::test]
async fn credentials_come_from_a_file_and_wrong_ones_are_refused_without_waiting() {
    let nats = Nats::start().await;
    let file = nats.dir.path().join("credentials");
    let args = Args { credentials_file: Some(file.clone()), ..Args::at(nats.server.url()) };
    std::fs::write(&file, "local:local\n").unwrap();
    Bus::connect(&args, "known").await.unwrap();
    std::fs::write(&file, "local:wrong\n").unwrap();
    let started = Instant::now();
    let refused = Bus::connect(&args, "unknown").await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(Bus::connect(&args, "test").await, Err(Error::Credentials { .. })));
}
