//! Streams: durable publishing and reading in order through every restart.

use std::time::Duration;

use fabric::nats::{Bus, Error, StreamPosition, StreamReader, StreamSpec};

use crate::servers::Nats;

const DEADLINE: Duration = Duration::from_secs(10);

fn spec() -> StreamSpec {
    StreamSpec::new("JOURNAL", &["journal"])
}

async fn store(bus: &Bus, number: u64) -> fabric::nats::DurableAck {
    bus.publish_durable("journal", &format!("id-{number}"), &[("Kind", "test")], &number, DEADLINE).await.unwrap()
}

async fn next(reader: &mut StreamReader) -> u64 {
    let stored = tokio::time::timeout(DEADLINE, reader.next()).await.expect("in time").unwrap();
    serde_json::from_slice(&stored.payload).unwrap()
}

#[tokio::test]
async fn a_second_message_with_the_same_id_is_flagged_and_not_stored() {
    let nats = Nats::start().await;
    let bus = nats.bus("writer").await;
    bus.ensure_stream(&spec()).await.unwrap();
    let first = store(&bus, 1).await;
    let again = store(&bus, 1).await;
    assert!(!first.duplicate && again.duplicate);
    assert_eq!(first.sequence, again.sequence);
    assert_eq!(store(&bus, 2).await.sequence, first.sequence + 1);
}

#[tokio::test]
async fn a_message_without_a_stream_is_refused() {
    let nats = Nats::start().await;
    let bus = nats.bus("writer").await;
    let refused = bus.publish_durable("journal", "1", &[], &1, Duration::from_secs(3)).await;
    assert!(matches!(refused, Err(Error::NoStream { .. })), "{refused:?}");
}

#[tokio::test]
async fn headers_and_positions_are_returned() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    let identity = bus.ensure_stream(&spec()).await.unwrap();
    store(&bus, 7).await;
    let mut reader = bus.read_stream("JOURNAL", 0).await.unwrap();
    assert_eq!(reader.identity(), Some(&identity));
    let stored = reader.next().await.unwrap();
    assert_eq!((stored.sequence, stored.header("Kind"), stored.subject.as_str()), (1, Some("test"), "journal"));
}

#[tokio::test]
async fn a_reader_survives_a_kill_of_the_server_without_gap_or_repeat() {
    let mut nats = Nats::start().await;
    let (writer, reading) = (nats.bus("writer").await, nats.bus("reader").await);
    let identity = writer.ensure_stream(&spec()).await.unwrap();
    let mut reader = reading.read_stream("JOURNAL", 0).await.unwrap();
    let mut seen = Vec::new();
    for round in 0..3_u64 {
        for number in 0..50 {
            store(&writer, round * 100 + number).await;
        }
        for _ in 0..20 {
            seen.push(next(&mut reader).await);
        }
        nats.server.kill();
        nats.server.restart().await.unwrap();
        assert!(!store(&writer, round * 100 + 50).await.duplicate);
    }
    while seen.len() < 3 * 51 {
        seen.push(next(&mut reader).await);
    }
    let expected: Vec<u64> = (0..3).flat_map(|round| (0..=50).map(move |number| round * 100 + number)).collect();
    assert_eq!(seen, expected);
    assert_eq!(writer.ensure_stream(&spec()).await.unwrap(), identity);
    let nothing = tokio::time::timeout(Duration::from_millis(300), reader.next()).await;
    assert!(nothing.is_err(), "a message came twice: {nothing:?}");
}

#[tokio::test]
async fn a_reader_starts_after_its_position_and_skips_purged_messages() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    bus.ensure_stream(&spec()).await.unwrap();
    for number in 1..=10 {
        store(&bus, number).await;
    }
    let mut reader = bus.read_stream("JOURNAL", 4).await.unwrap();
    assert_eq!(next(&mut reader).await, 5);
    bus.purge_up_to("JOURNAL", 7).await.unwrap();
    let mut late = bus.read_stream("JOURNAL", 0).await.unwrap();
    assert_eq!(next(&mut late).await, 8);
}

#[tokio::test]
async fn a_deleted_stream_is_detected_and_the_next_one_has_another_identity() {
    let mut nats = Nats::start().await;
    let bus = nats.bus("both").await;
    let before = bus.ensure_stream(&spec()).await.unwrap();
    store(&bus, 1).await;
    let mut reader = bus.read_stream("JOURNAL", 0).await.unwrap();
    assert_eq!(next(&mut reader).await, 1);
    nats.server.kill();
    std::fs::remove_dir_all(nats.dir.path().join("jetstream")).unwrap();
    nats.server.restart().await.unwrap();
    let lost = tokio::time::timeout(DEADLINE, reader.next()).await.expect("in time");
    assert!(matches!(lost, Err(Error::StreamLost { .. })), "{lost:?}");
    let after = bus.ensure_stream(&spec()).await.unwrap();
    assert_ne!(before, after);
}

#[tokio::test]
async fn a_stream_that_was_replaced_between_two_reads_is_detected() {
    let mut nats = Nats::start().await;
    let (reading, writing) = (nats.bus("reader").await, nats.bus("writer").await);
    reading.ensure_stream(&spec()).await.unwrap();
    store(&writing, 1).await;
    let mut reader = reading.read_stream("JOURNAL", 0).await.unwrap();
    assert_eq!(next(&mut reader).await, 1);
    nats.server.kill();
    std::fs::remove_dir_all(nats.dir.path().join("jetstream")).unwrap();
    nats.server.restart().await.unwrap();
    writing.ensure_stream(&spec()).await.unwrap();
    store(&writing, 2).await;
    let lost = tokio::time::timeout(DEADLINE, reader.next()).await.expect("in time");
    assert!(matches!(lost, Err(Error::StreamLost { .. })), "{lost:?}");
}

#[tokio::test]
async fn a_position_after_the_end_of_the_stream_is_an_error() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    bus.ensure_stream(&spec()).await.unwrap();
    store(&bus, 1).await;
    let behind = bus.read_stream("JOURNAL", 5).await;
    assert!(matches!(behind, Err(Error::StreamBehind { after: 5, last: 1, .. })), "{behind:?}");
}

#[tokio::test]
async fn a_position_whose_number_was_reused_is_an_error() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    bus.ensure_stream(&spec()).await.unwrap();
    for number in 1..=3 {
        store(&bus, number).await;
    }
    let mut reader = bus.read_stream("JOURNAL", 1).await.unwrap();
    let place = tokio::time::timeout(DEADLINE, reader.next()).await.expect("in time").unwrap().place();
    assert_eq!((place.sequence, bus.holds("JOURNAL", place).await.unwrap()), (2, Some(true)));
    let mut same = bus.read_stream("JOURNAL", place).await.unwrap();
    assert_eq!(next(&mut same).await, 3);
    let replaced = StreamPosition { stored_at: place.stored_at.map(|time| time - 1), ..place };
    let rewound = bus.read_stream("JOURNAL", replaced).await;
    assert!(matches!(rewound, Err(Error::StreamRewound { sequence: 2, .. })), "{rewound:?}");
    bus.purge_up_to("JOURNAL", 2).await.unwrap();
    assert_eq!(bus.holds("JOURNAL", place).await.unwrap(), None);
    let mut after_a_purge = bus.read_stream("JOURNAL", place).await.unwrap();
    assert_eq!(next(&mut after_a_purge).await, 3);
}

#[tokio::test]
async fn the_state_of_a_stream_has_its_size_and_the_servers_time() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    let identity = bus.ensure_stream(&spec()).await.unwrap();
    let clock = fabric::clock::Clock::start();
    for number in 1..=3 {
        store(&bus, number).await;
    }
    bus.purge_up_to("JOURNAL", 1).await.unwrap();
    let state = bus.stream_state("JOURNAL").await.unwrap();
    assert_eq!((state.identity, state.first_sequence), (identity, 2));
    assert!(state.bytes > 0 && state.bytes < 1_000, "{}", state.bytes);
    let server_time = state.server_time.expect("nats-server 2.10 or newer tells its time");
    let now = clock.now();
    assert!(now.since(server_time).max(server_time.since(now)) < Duration::from_secs(30), "{server_time} {now}");
    assert!(now.since(state.first_stored_at) < Duration::from_secs(30));
}

#[tokio::test]
async fn ensuring_with_other_settings_updates_the_stream_and_keeps_its_messages() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    let identity = bus.ensure_stream(&spec()).await.unwrap();
    store(&bus, 1).await;
    let longer = StreamSpec { max_age: Duration::from_secs(3600), ..spec() };
    assert_eq!(bus.ensure_stream(&longer).await.unwrap(), identity);
    let mut reader = bus.read_stream("JOURNAL", 0).await.unwrap();
    assert_eq!(next(&mut reader).await, 1);
}

#[tokio::test]
async fn a_stream_is_read_backwards_part_by_part() {
    let nats = Nats::start().await;
    let bus = nats.bus("both").await;
    assert!(bus.read_back("JOURNAL").await.unwrap().is_none(), "there is no such stream");
    bus.ensure_stream(&spec()).await.unwrap();
    assert!(bus.read_back("JOURNAL").await.unwrap().unwrap().part(5).await.unwrap().is_none(), "it is empty");
    for number in 1..=12 {
        store(&bus, number).await;
    }
    bus.purge_up_to("JOURNAL", 2).await.unwrap();
    let mut reader = bus.read_back("JOURNAL").await.unwrap().unwrap();
    assert_eq!(reader.last(), 12);
    store(&bus, 13).await;
    let mut parts = Vec::new();
    while let Some(part) = reader.part(5).await.unwrap() {
        parts.push(part.iter().map(|stored| stored.sequence).collect::<Vec<_>>());
    }
    assert_eq!(parts, [vec![8, 9, 10, 11, 12], vec![3, 4, 5, 6, 7]]);
}

#[tokio::test]
async fn notes_survive_ensuring_the_stream_and_are_deleted_with_it() {
    let mut nats = Nats::start().await;
    let bus = nats.bus("writer").await;
    bus.ensure_stream(&spec()).await.unwrap();
    bus.note_on_stream("JOURNAL", &[("owner", "me".to_owned()), ("from", "7".to_owned())]).await.unwrap();
    bus.note_on_stream("JOURNAL", &[("owner", "you".to_owned())]).await.unwrap();
    store(&bus, 1).await;
    let other = StreamSpec { max_bytes: 1 << 20, ..spec() };
    bus.ensure_stream(&other).await.unwrap();
    let noted = bus.stream_notes("JOURNAL").await.unwrap();
    assert_eq!((noted.note("owner"), noted.note("from"), noted.note("else")), (Some("you"), Some("7"), None));
    assert_eq!(noted.last_sequence, 1);
    nats.server.kill();
    std::fs::remove_dir_all(nats.dir.path().join("jetstream")).unwrap();
    nats.server.restart().await.unwrap();
    bus.ensure_stream(&spec()).await.unwrap();
    assert_eq!(bus.stream_notes("JOURNAL").await.unwrap().note("owner"), None);
}
