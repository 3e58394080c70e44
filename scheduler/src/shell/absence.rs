//! Says on the bus that etcd does not answer this scheduler, for as long as it does not.
//!
//! Apiservers then refuse changes instead of queueing them, unless somebody leads all the same. Asks etcd itself, by the clock:
//! the lease may be renewed as seldom as its settings say.

use std::time::Duration;

use contract::keys;
use contract::store::StoreWord;
use contract::subjects;
use contract::time::Timestamp;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Hands;

/// So often etcd is asked, and so long an answer is waited for.
const EVERY: Duration = Duration::from_secs(1);
/// Silence that is told: longer than a pause of a busy disk, shorter than a leader without etcd goes on leading (3.5 s).
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// What is known of etcd's silence.
#[derive(Debug, Default, PartialEq, Eq)]
struct Silence {
    /// When the first question was asked that had no answer.
    since: Option<Timestamp>,
    /// Whether it was told.
    told: bool,
}

/// What is to be said.
#[derive(Debug, PartialEq, Eq)]
enum Say {
    AwaySince(Timestamp),
    Back,
}

impl Silence {
    /// Takes in what became of a question, and says what is to be told. One question without an answer says nothing: this process
    /// may have stood still itself.
    fn observe(&mut self, asked: Timestamp, answered: bool, now: Timestamp) -> Option<Say> {
        if answered {
            return std::mem::take(self).told.then_some(Say::Back);
        }
        let Some(since) = self.since else {
            self.since = Some(asked);
            return None;
        };
        self.told |= now.since(since) >= TOLD_AFTER;
        self.told.then_some(Say::AwaySince(since))
    }
}

/// Runs as long as the scheduler.
pub(super) async fn tell(hands: Hands) {
    let mut silence = Silence::default();
    let mut look = interval(EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let asked = hands.clock.now();
        let answered = matches!(timeout(EVERY, hands.store.get(keys::SCHEMA)).await, Ok(Ok(_)));
        if let Some(say) = silence.observe(asked, answered, hands.clock.now()) {
            publish(&hands, &say).await;
        }
    }
}

async fn publish(hands: &Hands, say: &Say) {
    let away_since = match say {
        Say::AwaySince(since) => Some(*since),
        Say::Back => None,
    };
    let word = StoreWord { by: hands.name.clone(), away_since };
    if let Err(error) = hands.bus.publish(subjects::STORE, &word).await {
        tracing::debug!(%error, "the word about etcd was not sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn silence_is_told_after_two_seconds_and_its_end_once() {
        let mut silence = Silence::default();
        let mut observe = |asked, answered, now| silence.observe(at(asked), answered, at(now));
        assert_eq!(observe(0, true, 1), None);
        assert_eq!(observe(1000, false, 2000), None);
        assert_eq!(observe(2000, false, 2900), None, "a refused connection is told no sooner");
        assert_eq!(observe(3000, false, 4000), Some(Say::AwaySince(at(1000))));
        assert_eq!(observe(4000, false, 4001), Some(Say::AwaySince(at(1000))));
        assert_eq!(observe(5000, true, 5001), Some(Say::Back));
        assert_eq!(observe(6000, true, 6001), None);
    }

    #[test]
    fn a_scheduler_that_stood_still_itself_says_nothing() {
        let mut silence = Silence::default();
        assert_eq!(silence.observe(at(0), false, at(60_000)), None);
        assert_eq!(silence.observe(at(60_000), true, at(60_001)), None);
        assert_eq!(silence, Silence::default());
    }
}
