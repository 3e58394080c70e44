//! Limits concurrent stops with two semaphores.
//!
//! Docker stops containers fastest a few at a time, but a container may use its whole grace and must not block others. So a
//! stop starts in one of 8 fast slots; a container still alive after 500 ms gives its fast slot to the next and waits among
//! 64. Waiting costs Docker nothing; its work is the cleanup between the death and the answer, so a container that died
//! keeps its fast slot.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

/// Stops that load Docker: the best of 2, 4, 8 and 16 on two idle cores. On two busy cores, stopping and removing 75 containers
/// took 6.3 s with 4 slots, 5.5 s with 8, 5.0 s with 16 and 5.9 s with 64.
const FAST: usize = 8;
/// All concurrent stops; most of them only wait inside Docker.
const ALL: usize = 64;
/// Time to die in a fast slot. With eight slots 19 of 20 containers died within 0.3 s on a busy machine; 64 containers that
/// do not die are all waiting after 3.5 s.
const FAST_TIME: Duration = Duration::from_millis(500);
/// Time for Docker's cleanup in a fast slot: ten times the usual time on a busy machine. A hanging mount must not block the
/// others.
const CLEANUP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct StopSlots {
    all: Semaphore,
    fast: Semaphore,
}

/// The slots of one stop; released when dropped, also by a cancelled action.
#[derive(Debug)]
pub(super) struct StopSlot<'a> {
    fast: Option<SemaphorePermit<'a>>,
    _one_of_all: SemaphorePermit<'a>,
}

impl Default for StopSlots {
    fn default() -> Self {
        Self { all: Semaphore::new(ALL), fast: Semaphore::new(FAST) }
    }
}

impl StopSlots {
    /// Waits for a fast slot, first come, first served.
    pub(super) async fn acquire(&self) -> StopSlot<'_> {
        // The fast slot last: nothing holds it while waiting for the other.
        let one_of_all = one(&self.all).await;
        StopSlot { fast: Some(one(&self.fast).await), _one_of_all: one_of_all }
    }
}

impl StopSlot<'_> {
    /// Waits for `ended`. Releases the fast slot when the container neither died nor ended within 500 ms, or when the cleanup
    /// takes longer than 5 s.
    pub(super) async fn hold<T>(&mut self, died: impl Future<Output = ()>, ended: impl Future<Output = T>) -> T {
        let mut ended = pin!(ended);
        let too_slow = async {
            if timeout(FAST_TIME, died).await.is_ok() {
                sleep(CLEANUP).await;
            }
        };
        tokio::select! {
            biased;
            came = &mut ended => return came,
            () = too_slow => self.fast = None,
        }
        ended.await
    }
}

async fn one(held: &Semaphore) -> SemaphorePermit<'_> {
    held.acquire().await.expect("the semaphore is never closed")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;
    use tokio::time::Instant;

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    /// All slots that are available without waiting.
    fn take(slots: &StopSlots) -> Vec<StopSlot<'_>> {
        std::iter::from_fn(|| slots.acquire().now_or_never()).collect()
    }

    /// A container that uses its whole grace.
    async fn end_slowly(mut slot: StopSlot<'_>) -> StopSlot<'_> {
        slot.hold(pending(), sleep(GRACE)).await;
        slot
    }

    #[tokio::test(start_paused = true)]
    async fn eight_stops_run_at_a_time_and_the_next_follows_when_one_is_done() {
        let slots = StopSlots::default();
        let mut held = take(&slots);
        assert_eq!(held.len(), FAST);
        let mut next = pin!(slots.acquire());
        assert!(next.as_mut().now_or_never().is_none());
        held.pop();
        assert!(next.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_still_alive_after_500_ms_releases_its_fast_slot_and_waits() {
        let slots = StopSlots::default();
        let slow = futures_util::future::join_all(take(&slots).into_iter().map(end_slowly));
        let (begun, next) = (Instant::now(), slots.acquire());
        let next = async {
            let slot = next.await;
            (begun.elapsed(), slot)
        };
        let both = timeout(2 * GRACE, futures_util::future::join(slow, next)).await;
        let (slow, (after, _place)) = both.expect("the next stop does not wait for slow ones");
        assert_eq!((slow.len(), begun.elapsed(), after), (FAST, GRACE, FAST_TIME));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_container_keeps_its_fast_slot_until_the_cleanup_ends_or_hangs() {
        for (cleaned_after, next_after) in [(4 * FAST_TIME, 4 * FAST_TIME), (GRACE, FAST_TIME / 2 + CLEANUP)] {
            let slots = StopSlots::default();
            let mut held = take(&slots);
            let mut slot = held.pop().expect("a slot");
            let begun = Instant::now();
            let dies = async {
                slot.hold(sleep(FAST_TIME / 2), sleep(cleaned_after)).await;
                drop(slot);
            };
            let next = async {
                slots.acquire().await;
                begun.elapsed()
            };
            assert_eq!(futures_util::future::join(dies, next).await.1, next_after);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_stops_wait_in_parallel_up_to_the_limit() {
        let slots = StopSlots::default();
        let begun = Instant::now();
        let ends = (0..=ALL).map(async |_| {
            let slot = slots.acquire().await;
            let began = begun.elapsed();
            end_slowly(slot).await;
            began
        });
        let began = futures_util::future::join_all(ends).await;
        let turns = u32::try_from(ALL / FAST - 1).expect("a few");
        assert_eq!((began[ALL - 1], began[ALL]), (FAST_TIME * turns, GRACE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_action_releases_its_slots_wherever_it_waits() {
        let slots = StopSlots::default();
        let all = async || {
            let ends = (0..ALL).map(async |_| {
                let _place = end_slowly(slots.acquire().await).await;
                pending::<()>().await;
            });
            futures_util::future::join_all(ends).await
        };
        // Some wait for a slot, some in a fast slot, some for the end of their grace.
        for given_up in [Duration::ZERO, FAST_TIME, GRACE, 2 * GRACE] {
            assert!(timeout(given_up, all()).await.is_err());
            assert_eq!((slots.all.available_permits(), slots.fast.available_permits()), (ALL, FAST));
        }
    }
}
