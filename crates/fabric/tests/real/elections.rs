//! Elections: one leader, fast hand-over, stepping down in time.

use std::time::Duration;

use fabric::election::{Election, ElectionRole, Guard, Settings};
use fabric::etcd::{CommitResult, Op};
use fabric::shutdown::Shutdown;
use tokio::time::Instant;

use crate::servers::{Etcd, within};

const PREFIX: &str = "/election/";

async fn candidate(etcd: &Etcd, name: &str, shutdown: &Shutdown) -> Election {
    Election::start(etcd.store().await, PREFIX, name, Settings::default(), shutdown.clone())
}

fn guard(election: &Election) -> Option<Guard> {
    match &*election.role().borrow() {
        ElectionRole::Leader(guard) => Some(guard.clone()),
        ElectionRole::Follower => None,
    }
}

async fn leads(election: &Election, limit: Duration) -> Duration {
    within(limit, "it leads", || guard(election).is_some()).await
}

#[tokio::test]
async fn exactly_one_of_three_leads_and_its_term_guards_writes() {
    let etcd = Etcd::start().await;
    let shutdown = Shutdown::new();
    let mut all = Vec::new();
    for name in ["a", "b", "c"] {
        all.push(candidate(&etcd, name, &shutdown).await);
    }
    let leaders = |all: &[Election]| all.iter().filter(|one| guard(one).is_some()).count();
    within(Duration::from_secs(3), "one leads", || leaders(&all) == 1).await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        assert_eq!(leaders(&all), 1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let guard = all.iter().find_map(guard).unwrap();
    let op = Op::Put { key: "/a".to_owned(), value: b"1".to_vec(), lease: None };
    assert_eq!(etcd.store().await.commit(Some(&guard), &[op]).await.unwrap(), CommitResult::Stored);
}

#[tokio::test]
async fn after_a_crash_of_the_leader_another_leads_within_the_ttl() {
    let etcd = Etcd::start().await;
    let shutdown = Shutdown::new();
    let first = candidate(&etcd, "first", &shutdown).await;
    leads(&first, Duration::from_secs(3)).await;
    let second = candidate(&etcd, "second", &shutdown).await;
    let term = guard(&first).unwrap().term;
    drop(first); // No revocation: like kill -9.
    let took = leads(&second, Duration::from_millis(6500)).await;
    assert!(
        took > Duration::from_secs(2),
        "no process may lead while the lease of the killed leader is valid: {took:?}"
    );
    assert!(guard(&second).unwrap().term > term);
}

#[tokio::test]
async fn a_resignation_hands_over_within_a_second_and_fences_the_old_leader() {
    let etcd = Etcd::start().await;
    let shutdown = Shutdown::new();
    let first = candidate(&etcd, "first", &shutdown).await;
    leads(&first, Duration::from_secs(3)).await;
    let second = candidate(&etcd, "second", &shutdown).await;
    let store = etcd.store().await;
    while store.list(PREFIX).await.unwrap().pairs.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let old = guard(&first).unwrap();
    first.resign();
    leads(&second, Duration::from_secs(1)).await;
    assert!(guard(&first).is_none());
    let op = Op::Put { key: "/a".to_owned(), value: b"stale".to_vec(), lease: None };
    assert_eq!(store.commit(Some(&old), &[op]).await.unwrap(), CommitResult::Fenced);
    second.resign();
    leads(&first, Duration::from_secs(2)).await;
    assert!(guard(&first).unwrap().term > old.term);
}

#[tokio::test]
async fn a_leader_that_resigns_repeatedly_backs_off() {
    let etcd = Etcd::start().await;
    let shutdown = Shutdown::new();
    let only = candidate(&etcd, "only", &shutdown).await;
    leads(&only, Duration::from_secs(3)).await;
    let mut waited = Vec::new();
    for _ in 0..5 {
        let old = guard(&only).unwrap().term;
        only.resign();
        let leads_again = || guard(&only).is_some_and(|guard| guard.term > old);
        waited.push(within(Duration::from_secs(10), "it leads again", leads_again).await);
    }
    assert!(waited[0] < Duration::from_secs(1), "the first resignation costs next to nothing: {waited:?}");
    // At least half of 100, 200, 400 and 800 ms.
    assert!(waited.iter().sum::<Duration>() >= Duration::from_millis(750), "{waited:?}");
}

#[tokio::test]
async fn a_shutdown_hands_over_within_a_second() {
    let etcd = Etcd::start().await;
    let (ours, theirs) = (Shutdown::new(), Shutdown::new());
    let first = candidate(&etcd, "first", &ours).await;
    leads(&first, Duration::from_secs(3)).await;
    let second = candidate(&etcd, "second", &theirs).await;
    ours.trigger();
    leads(&second, Duration::from_secs(1)).await;
    tokio::time::timeout(Duration::from_secs(2), first.ended()).await.expect("ends");
    assert!(guard(&first).is_none());
}

#[tokio::test]
async fn a_leader_without_etcd_steps_down_before_its_lease_expires() {
    let etcd = Etcd::start().await;
    let shutdown = Shutdown::new();
    let only = candidate(&etcd, "only", &shutdown).await;
    leads(&only, Duration::from_secs(3)).await;
    let term = guard(&only).unwrap().term;
    assert!(only.holds());
    etcd.signal(rustix::process::Signal::STOP);
    within(Duration::from_secs(4), "it steps down", || guard(&only).is_none()).await;
    assert!(!only.holds());
    etcd.signal(rustix::process::Signal::CONT);
    leads(&only, Duration::from_secs(12)).await;
    assert!(guard(&only).unwrap().term > term, "every campaign has a fresh term");
}

#[tokio::test]
async fn a_leader_whose_lease_was_revoked_steps_down_immediately() {
    let etcd = Etcd::start().await;
    let shutdown = Shutdown::new();
    let only = candidate(&etcd, "only", &shutdown).await;
    leads(&only, Duration::from_secs(3)).await;
    let old = guard(&only).unwrap();
    let lease = i64::from_str_radix(old.key.strip_prefix(PREFIX).unwrap(), 16).unwrap();
    etcd.store().await.revoke_lease(lease).await.unwrap();
    within(Duration::from_secs(2), "the old term is over", || guard(&only).is_none_or(|new| new.term > old.term)).await;
    leads(&only, Duration::from_secs(3)).await;
}

/// Seconds the machine was suspended in this test.
static SUSPENDED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn suspended_clock() -> Duration {
    fabric::boot::time() + Duration::from_secs(SUSPENDED.load(std::sync::atomic::Ordering::Relaxed))
}

#[tokio::test]
async fn a_leader_suspended_longer_than_its_lease_does_not_lead_after_resuming() {
    let etcd = Etcd::start().await;
    let shutdown = Shutdown::new();
    // With this interval no renewal happens during the test.
    let (ttl, renew, step_down_after) = (Duration::from_secs(600), Duration::from_secs(300), Duration::from_secs(400));
    let settings = Settings { ttl, renew, step_down_after, clock: suspended_clock };
    let election = Election::start(etcd.store().await, PREFIX, "sleeper", settings, shutdown.clone());
    leads(&election, Duration::from_secs(5)).await;
    let term = guard(&election).unwrap().term;
    assert!(election.holds());
    // The monotonic clock stops during a suspension; this one does not.
    SUSPENDED.store(500, std::sync::atomic::Ordering::Relaxed);
    assert!(!election.holds(), "its answers must not be believed");
    let leads_again = || guard(&election).is_some_and(|guard| guard.term > term);
    within(Duration::from_secs(5), "it stands again with a new key", leads_again).await;
    assert!(election.holds());
}
