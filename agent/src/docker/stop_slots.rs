//! How many containers the engine ends at a time.
//!
//! Few at a time are fastest, but a container may take its whole grace to end, and such must not hold others up. So an end begins
//! in one of a few quick places, and whoever is not dead after a moment leaves it and waits on among many. The surprise: the
//! engine minds no waiting. Its work is the tidying up between a death and its answer, so whoever has died keeps its quick place.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

/// Ends at a time that the engine has work with: the best of 2, 4, 8 and 16 for the engine's own API on two idle cores. On two cores with
/// nothing to spare, 75 containers took that API 6.3 s to end and remove by 4, 5.5 s by 8, 5.0 s by 16 and 5.9 s by 64.
const QUICK: usize = 8;
/// Ends at a time in all: most of these only wait inside the engine.
const ALL: usize = 64;
/// What a container gets to die before its quick place goes to the next. With eight at a time nineteen of twenty died within 0.3 s on a
/// machine with nothing to spare; 64 that do not die are all waited for after 3.5 s.
const MOMENT: Duration = Duration::from_millis(500);
/// What the engine gets to tidy up before the place goes to the next: ten times what it takes on a machine that is busy with other
/// things. A mount that hangs must not hold everybody up.
const TIDYING: Duration = Duration::from_secs(5);

/// The places in which containers are ended.
#[derive(Debug)]
pub(super) struct StopSlots {
    all: Semaphore,
    quick: Semaphore,
}

/// The place of one container. What it has of it comes back when it is dropped, also with a step that is given up.
#[derive(Debug)]
pub(super) struct StopSlot<'a> {
    quick: Option<SemaphorePermit<'a>>,
    _one_of_all: SemaphorePermit<'a>,
}

impl Default for StopSlots {
    fn default() -> Self {
        Self { all: Semaphore::new(ALL), quick: Semaphore::new(QUICK) }
    }
}

impl StopSlots {
    /// Waits for a quick place; first come, first served.
    pub(super) async fn acquire(&self) -> StopSlot<'_> {
        // The quick one last: nobody has it while waiting for something else.
        let one_of_all = one(&self.all).await;
        StopSlot { quick: Some(one(&self.quick).await), _one_of_all: one_of_all }
    }
}

impl StopSlot<'_> {
    /// Waits for what `ended` comes to. The quick place goes to the next when neither that nor the death comes within a moment, or
    /// when there is no end to the tidying up.
    pub(super) async fn hold<T>(&mut self, died: impl Future<Output = ()>, ended: impl Future<Output = T>) -> T {
        let mut ended = pin!(ended);
        let takes_its_time = async {
            if timeout(MOMENT, died).await.is_ok() {
                sleep(TIDYING).await;
            }
        };
        tokio::select! {
            biased;
            came = &mut ended => return came,
            () = takes_its_time => self.quick = None,
        }
        ended.await
    }
}

async fn one(places: &Semaphore) -> SemaphorePermit<'_> {
    places.acquire().await.expect("nobody closes it")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;
    use tokio::time::Instant;

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    /// So many places as are to be had at once.
    fn take(slots: &StopSlots) -> Vec<StopSlot<'_>> {
        std::iter::from_fn(|| slots.acquire().now_or_never()).collect()
    }

    /// A container that waits out its grace: until then nothing is heard of it.
    async fn end_slowly(mut place: StopSlot<'_>) -> StopSlot<'_> {
        place.hold(pending(), sleep(GRACE)).await;
        place
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_few_are_ended_at_a_time_and_the_next_follows_when_one_is_done() {
        let slots = StopSlots::default();
        let mut places = take(&slots);
        assert_eq!(places.len(), QUICK);
        let mut next = pin!(slots.acquire());
        assert!(next.as_mut().now_or_never().is_none());
        places.pop();
        assert!(next.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_die_within_a_moment_leaves_its_place_and_goes_on_waiting() {
        let slots = StopSlots::default();
        let slow = futures_util::future::join_all(take(&slots).into_iter().map(end_slowly));
        let (begun, next) = (Instant::now(), slots.acquire());
        let next = async {
            let place = next.await;
            (begun.elapsed(), place)
        };
        let both = timeout(2 * GRACE, futures_util::future::join(slow, next)).await;
        let (slow, (after, _place)) = both.expect("whoever is next does not wait for those that take their time");
        assert_eq!((slow.len(), begun.elapsed(), after), (QUICK, GRACE, MOMENT));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_died_keeps_its_place_until_the_engine_has_tidied_up_unless_that_hangs() {
        for (tidied_after, next_after) in [(4 * MOMENT, 4 * MOMENT), (GRACE, MOMENT / 2 + TIDYING)] {
            let slots = StopSlots::default();
            let mut places = take(&slots);
            let mut place = places.pop().expect("a place");
            let begun = Instant::now();
            let dies = async {
                place.hold(sleep(MOMENT / 2), sleep(tidied_after)).await;
                drop(place);
            };
            let next = async {
                slots.acquire().await;
                begun.elapsed()
            };
            assert_eq!(futures_util::future::join(dies, next).await.1, next_after);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_ones_wait_side_by_side_up_to_a_bound_and_the_next_follows_them() {
        let slots = StopSlots::default();
        let begun = Instant::now();
        let ends = (0..=ALL).map(async |_| {
            let place = slots.acquire().await;
            let began = begun.elapsed();
            end_slowly(place).await;
            began
        });
        let began = futures_util::future::join_all(ends).await;
        let turns = u32::try_from(ALL / QUICK - 1).expect("a few");
        assert_eq!((began[ALL - 1], began[ALL]), (MOMENT * turns, GRACE));
    }

    #[tokio::test(start_paused = true)]
    async fn places_come_back_from_a_step_that_is_given_up_wherever_it_waits() {
        let slots = StopSlots::default();
        let all = async || {
            let ends = (0..ALL).map(async |_| {
                let _place = end_slowly(slots.acquire().await).await;
                pending::<()>().await;
            });
            futures_util::future::join_all(ends).await
        };
        // Some wait for a place, some within their moment, some for their end.
        for given_up in [Duration::ZERO, MOMENT, GRACE, 2 * GRACE] {
            assert!(timeout(given_up, all()).await.is_err());
            assert_eq!((slots.all.available_permits(), slots.quick.available_permits()), (ALL, QUICK));
        }
    }
}
