//! Announces on NATS while etcd does not answer this scheduler.
//!
//! Apiservers then refuse changes instead of queueing them, unless another scheduler still leads. This task sends its own requests
//! to etcd, because the settings may make lease renewals rare.

use std::time::Duration;

use contract::keys;
use contract::store::StoreWord;
use contract::subjects;
use contract::time::Timestamp;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Context;

/// The interval between two requests to etcd, and the deadline of each.
const EVERY: Duration = Duration::from_secs(1);
/// The length of an outage that is announced: longer than a pause of a busy disk, shorter than the time for which a leader without
/// etcd continues to lead (3.5 s).
const ANNOUNCE_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Default, PartialEq, Eq)]
struct Outage {
    /// The time of the first request that etcd did not answer.
    since: Option<Timestamp>,
    announced: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Announcement {
    AwaySince(Timestamp),
    Back,
}

impl Outage {
    /// Records the result of a request and returns what to announce. A single request without an answer is not announced: this
    /// process may have been suspended.
    fn observe(&mut self, asked: Timestamp, answered: bool, now: Timestamp) -> Option<Announcement> {
        if answered {
            return std::mem::take(self).announced.then_some(Announcement::Back);
        }
        let Some(since) = self.since else {
            self.since = Some(asked);
            return None;
        };
        self.announced |= now.since(since) >= ANNOUNCE_AFTER;
        self.announced.then_some(Announcement::AwaySince(since))
    }
}

/// Runs as long as the scheduler.
pub(super) async fn announce(context: Context) {
    let mut outage = Outage::default();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = context.clock.now();
        let answered = matches!(timeout(EVERY, context.store.get(keys::SCHEMA)).await, Ok(Ok(_)));
        if let Some(announcement) = outage.observe(asked, answered, context.clock.now()) {
            publish(&context, &announcement).await;
        }
    }
}

async fn publish(context: &Context, announcement: &Announcement) {
    let away_since = match announcement {
        Announcement::AwaySince(since) => Some(*since),
        Announcement::Back => None,
    };
    let message = StoreWord { by: context.name.clone(), away_since };
    if let Err(error) = context.bus.publish(subjects::STORE, &message).await {
        tracing::debug!(%error, "cannot announce the state of etcd");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn an_outage_is_announced_after_two_seconds_and_its_end_once() {
        let mut outage = Outage::default();
        let mut observe = |asked, answered, now| outage.observe(at(asked), answered, at(now));
        assert_eq!(observe(0, true, 1), None);
        assert_eq!(observe(1000, false, 2000), None);
        assert_eq!(observe(2000, false, 2900), None, "a refused connection is not announced sooner");
        assert_eq!(observe(3000, false, 4000), Some(Announcement::AwaySince(at(1000))));
        assert_eq!(observe(4000, false, 4001), Some(Announcement::AwaySince(at(1000))));
        assert_eq!(observe(5000, true, 5001), Some(Announcement::Back));
        assert_eq!(observe(6000, true, 6001), None);
    }

    #[test]
    fn a_scheduler_that_was_suspended_announces_no_outage() {
        let mut outage = Outage::default();
        assert_eq!(outage.observe(at(0), false, at(60_000)), None);
        assert_eq!(outage.observe(at(60_000), true, at(60_001)), None);
        assert_eq!(outage, Outage::default());
    }
}
