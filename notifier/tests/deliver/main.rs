//! Delivery as receivers see it: a real notifier on a real nats-server, posting to real HTTP servers.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod internal;
mod receiver;
mod secrets;
mod signatures;
mod world;

use std::time::{Duration, Instant};

use contract::notice::DeadLetter;
use contract::subjects;
use receiver::{Manner, Receiver};
use world::{World, eventually, notice};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_is_posted_in_the_format_of_the_original() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let notifier = world.notifier(&[]).await;
    world.publish(&notice(&receiver.url(), 2)).await;
    let posted = receiver.wait_for(1).await;
    assert_eq!(posted[0].content_type, "application/json");
    assert_eq!(
        posted[0].body,
        r#"{"Level":"Error","Namespace":"hello","PodName":"hello.web.web","InstanceNo":2,"Timestamp":"2023-11-14T22:13:20Z","Message":"LAIN found pod down, ready to restart it"}"#
    );
    eventually("acknowledged", async || (world.unsettled().await == 0).then_some(())).await;
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_and_hanging_callbacks_do_not_delay_others() {
    let world = World::start().await;
    let (hanging, good) = (Receiver::start(Manner::Hangs).await, Receiver::start(Manner::Takes).await);
    let dead = format!("http://127.0.0.1:{}/", fabric::local::free_port());
    // More notices for the hanging callback than its queue holds.
    for n in 0..150 {
        world.publish(&notice(&hanging.url(), n)).await;
        world.publish(&notice(&dead, n)).await;
    }
    let notifier = world.notifier(&["--timeout", "30s", "--retry-delays", "5m"]).await;
    hanging.wait_for(1).await;
    let started = Instant::now();
    for n in 0..20 {
        world.publish(&notice(&good.url(), n)).await;
    }
    good.wait_for(20).await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(hanging.posted().len(), 1, "a queue posts one notice at a time");
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_callback_is_retried_by_the_schedule_until_the_notice_is_a_dead_letter() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Refuses).await;
    let notifier = world.notifier(&["--retry-delays", "100ms,300ms,500ms"]).await;
    world.publish(&notice(&receiver.url(), 1)).await;
    let letter = world.dead_letter(1).await;
    assert!(letter.reason.ends_with("500 Internal Server Error"), "without the answer: {}", letter.reason);
    assert!(
        letter.payload.contains("hello.web.web")
            && letter.subject.starts_with(subjects::ALL_NOTICES.trim_end_matches('>'))
    );
    let posted = receiver.posted();
    assert_eq!(posted.len(), 4);
    for (pair, delay) in posted.windows(2).zip([100, 300, 500]) {
        let waited = pair[1].at.duration_since(pair[0].at);
        assert!(waited >= Duration::from_millis(delay), "{waited:?} is less than {delay} ms");
    }
    eventually("taken off the queue", async || (world.unsettled().await == 0).then_some(())).await;
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_that_can_never_be_delivered_becomes_a_dead_letter_immediately() {
    let world = World::start().await;
    let notifier = world.notifier(&[]).await;
    world.publish(&notice("file:///etc/passwd", 1)).await;
    world.publish(&"not a notice").await;
    let reasons = [world.dead_letter(1).await.reason, world.dead_letter(2).await.reason];
    assert!(reasons.iter().any(|reason| reason.contains("must start with http:// or https://")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("cannot be read")), "{reasons:?}");
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let world = World::start().await;
    let target = Receiver::start(Manner::Takes).await;
    let receiver = Receiver::start(Manner::Redirects(target.url())).await;
    let notifier = world.notifier(&["--retry-delays", "100ms"]).await;
    world.publish(&notice(&receiver.url(), 1)).await;
    assert!(world.dead_letter(1).await.reason.contains("307"));
    assert_eq!((receiver.posted().len(), target.posted().len()), (2, 0));
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_notifier_loses_nothing() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let refusing = Receiver::start(Manner::Refuses).await;
    // ack-wait outlasts the test: the first notifier must return what it fetched and did not post.
    let settings = ["--ack-wait", "5m", "--retry-delays", "500ms,500ms,500ms,500ms,500ms,500ms"];
    let first = world.notifier(&settings).await;
    for n in 0..50 {
        world.publish(&notice(&receiver.url(), n)).await;
    }
    world.publish(&notice(&refusing.url(), 1)).await;
    refusing.wait_for(1).await;
    receiver.wait_for(5).await;
    first.stop().await;
    refusing.change(Manner::Takes);
    let before = refusing.posted().len();
    let second = world.notifier(&settings).await;
    eventually("everything settled", async || (world.unsettled().await == 0).then_some(())).await;
    let mut instances: Vec<u64> = receiver.posted().iter().map(receiver::Post::instance).collect();
    instances.sort_unstable();
    instances.dedup();
    assert_eq!(instances, (0..50).collect::<Vec<_>>());
    assert!(refusing.posted().len() > before, "the retry that waited on the bus came to the second notifier");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_whose_notifier_died_is_taken_by_another() {
    let world = World::start().await;
    let receiver = Receiver::start(Manner::Hangs).await;
    let first = world.notifier(&["--ack-wait", "1s"]).await;
    world.publish(&notice(&receiver.url(), 1)).await;
    receiver.wait_for(1).await;
    let second = world.notifier(&["--ack-wait", "1s"]).await;
    receiver.change(Manner::Takes);
    first.die();
    receiver.wait_for(2).await;
    eventually("acknowledged", async || (world.unsettled().await == 0).then_some(())).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_survive_a_restart_of_the_bus() {
    let mut world = World::start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let notifier = world.notifier(&[]).await;
    world.nats.kill();
    world.nats.restart().await.unwrap();
    world.publish(&notice(&receiver.url(), 1)).await;
    receiver.wait_for(1).await;
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_notifier_delivers_again_when_schedulers_have_recreated_the_streams_of_a_bus_that_lost_its_data() {
    let mut world = World::start().await;
    let receiver = Receiver::start(Manner::Takes).await;
    let notifier = world.notifier(&[]).await;
    world.nats.kill();
    std::fs::remove_dir_all(world.directory.path().join("jetstream")).unwrap();
    world.nats.restart().await.unwrap();
    world.create_streams().await;
    world.publish(&notice(&receiver.url(), 1)).await;
    receiver.wait_for(1).await;
    notifier.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_for_a_callback_that_was_removed_is_dropped_also_by_a_restarted_notifier() {
    let world = World::start().await;
    let (removed, kept) = (Receiver::start(Manner::Refuses).await, Receiver::start(Manner::Takes).await);
    let leader = world.leader(&[&removed.url(), &kept.url()]).await;
    let settings = ["--retry-delays", "1s,1s,1s,1s,1s,1s,1s,1s"];
    let first = world.notifier(&settings).await;
    world.publish(&notice(&removed.url(), 1)).await;
    removed.wait_for(1).await;
    first.stop().await;
    leader.register(&[&kept.url()]);
    let posts = removed.posted().len();
    let second = world.notifier(&settings).await;
    world.publish(&notice(&kept.url(), 2)).await;
    kept.wait_for(1).await;
    eventually("everything settled", async || (world.unsettled().await == 0).then_some(())).await;
    assert_eq!(removed.posted().len(), posts, "nothing is posted to a callback that is not registered");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_that_was_registered_a_moment_ago_gets_its_notice() {
    let world = World::start().await;
    let (first, second) = (Receiver::start(Manner::Takes).await, Receiver::start(Manner::Takes).await);
    let leader = world.leader(&[&first.url()]).await;
    let notifier = world.notifier(&[]).await;
    world.publish(&notice(&first.url(), 1)).await;
    first.wait_for(1).await;
    leader.register(&[&first.url(), &second.url()]);
    world.publish(&notice(&second.url(), 2)).await;
    second.wait_for(1).await;
    notifier.stop().await;
}

async fn read_dead_letter(world: &World, number: u64) -> DeadLetter {
    let mut reader = world.bus.read_stream(subjects::DEAD_LETTERS_STREAM, number - 1).await.unwrap();
    let stored = tokio::time::timeout(Duration::from_secs(15), reader.next()).await.unwrap().unwrap();
    serde_json::from_slice(&stored.payload).unwrap()
}
