//! Shared consumers: each job goes to one process until it is acknowledged.

use std::time::Duration;

use fabric::nats::{Bus, Consumer, Job, SharedConsumer, StreamSpec};

use crate::servers::Nats;

const DEADLINE: Duration = Duration::from_secs(15);

async fn give(bus: &Bus, number: u32) {
    let stored = bus.publish_durable("jobs.a", &number.to_string(), &[], &number, DEADLINE).await.unwrap();
    assert!(!stored.duplicate);
}

fn workers(ack_wait: Duration, max_ack_pending: i64) -> SharedConsumer<'static> {
    SharedConsumer { stream: "JOBS", name: "workers", filter: "jobs.>", ack_wait, max_ack_pending }
}

fn take(bus: &Bus) -> Consumer {
    bus.consume(&workers(Duration::from_secs(2), 10))
}

async fn next(consumer: &mut Consumer) -> Job {
    tokio::time::timeout(DEADLINE, consumer.next()).await.expect("in time")
}

#[tokio::test]
async fn a_job_is_delivered_until_it_is_acknowledged() {
    let nats = Nats::start().await;
    let bus = nats.bus("worker").await;
    bus.ensure_stream(&StreamSpec::new("JOBS", &["jobs.>"])).await.unwrap();
    give(&bus, 1).await;
    let mut consumer = take(&bus);
    let first = next(&mut consumer).await;
    assert_eq!((first.delivered, first.subject.as_str(), &*first.payload), (1, "jobs.a", b"1".as_slice()));
    first.retry_after(Duration::from_millis(100)).await.unwrap();
    let second = next(&mut consumer).await;
    assert_eq!(second.delivered, 2);
    second.progress().await.unwrap();
    second.ack().await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(2500), consumer.next()).await;
    assert!(nothing.is_err(), "an acknowledged job came again");
}

#[tokio::test]
async fn jobs_continue_after_the_server_was_killed() {
    let mut nats = Nats::start().await;
    let bus = nats.bus("worker").await;
    bus.ensure_stream(&StreamSpec::new("JOBS", &["jobs.>"])).await.unwrap();
    let mut consumer = take(&bus);
    give(&bus, 1).await;
    next(&mut consumer).await.ack().await.unwrap();
    nats.server.kill();
    nats.server.restart().await.unwrap();
    give(&bus, 2).await;
    loop {
        let job = next(&mut consumer).await;
        job.ack().await.unwrap();
        if &*job.payload == b"2" {
            break;
        }
        assert_eq!(&*job.payload, b"1", "only what the killed server forgot may come again");
    }
}

#[tokio::test]
async fn a_consumer_continues_when_the_stream_was_re_created() {
    let mut nats = Nats::start().await;
    let bus = nats.bus("worker").await;
    let spec = StreamSpec::new("JOBS", &["jobs.>"]);
    bus.ensure_stream(&spec).await.unwrap();
    let mut consumer = take(&bus);
    nats.server.kill();
    std::fs::remove_dir_all(nats.dir.path().join("jetstream")).unwrap();
    nats.server.restart().await.unwrap();
    bus.ensure_stream(&spec).await.unwrap();
    give(&bus, 3).await;
    assert_eq!(&*next(&mut consumer).await.payload, b"3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_a_leaving_process_returns_go_to_another() {
    const ROUNDS: u32 = 6;
    const JOBS: u32 = 40;
    // Longer than the test, so that a job that the leaving process kept would be missing.
    const ACK_WAIT: Duration = Duration::from_secs(300);
    let nats = Nats::start().await;
    let (leaving, staying) = (nats.bus("leaving").await, nats.bus("staying").await);
    leaving.ensure_stream(&StreamSpec::new("JOBS", &["jobs.>"])).await.unwrap();
    for round in 0..ROUNDS {
        let mut consumer = leaving.consume(&workers(ACK_WAIT, -1));
        let giving = async {
            for number in 0..JOBS {
                give(&staying, round * JOBS + number).await;
            }
        };
        // It leaves while the server sends jobs to it.
        let leaves = async {
            let mut held = Vec::new();
            for _ in 0..5 {
                held.push(next(&mut consumer).await);
            }
            held.extend(consumer.close().await);
            for job in held {
                job.retry_after(Duration::ZERO).await.unwrap();
            }
        };
        tokio::join!(giving, leaves);
        let mut other = staying.consume(&workers(ACK_WAIT, -1));
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < JOBS as usize {
            let job = next(&mut other).await;
            job.ack().await.unwrap();
            seen.insert(job.sequence);
        }
        assert!(other.close().await.is_empty());
    }
}
