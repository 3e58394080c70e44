//! Limits failed attempts to use a token, per peer.
//!
//! Only attempts that fail are limited: a client with a valid token behind the same address is always served. The limit keeps
//! a client with a wrong token from causing work for the schedulers; the 256 bits of a token cannot be guessed anyway.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::peers::Source;

/// Failed attempts of one peer within [`WINDOW`]; the next is answered 429.
const MOST: u32 = 5;
/// Counted from the first failed attempt.
const WINDOW: Duration = Duration::from_secs(60);
/// Peers that are counted. When more fail at a time, further peers are treated as at their limit.
const MOST_PEERS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Failures {
    by_peer: HashMap<Source, Window>,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    count: u32,
}

impl Failures {
    /// Time until this peer may fail again; none when it may fail now.
    pub(super) fn pause(&mut self, peer: Source, now: Instant) -> Option<Duration> {
        // Here and not in `count`, which is not called for a peer that must pause.
        if self.by_peer.len() >= MOST_PEERS {
            self.by_peer.retain(|_, window| !window.is_over(now));
        }
        match self.by_peer.get(&peer).filter(|window| !window.is_over(now)) {
            Some(window) if window.count >= MOST => Some(WINDOW.saturating_sub(now - window.since)),
            None if self.by_peer.len() >= MOST_PEERS => Some(WINDOW),
            Some(_) | None => None,
        }
    }

    /// Counts a failed attempt, after [`Self::pause`].
    pub(super) fn count(&mut self, peer: Source, now: Instant) {
        if self.by_peer.len() >= MOST_PEERS && !self.by_peer.contains_key(&peer) {
            return;
        }
        let window = self.by_peer.entry(peer).or_insert(Window { since: now, count: 0 });
        if window.is_over(now) {
            *window = Window { since: now, count: 0 };
        }
        window.count += 1;
    }
}

impl Window {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::peers;

    fn peer(number: u32) -> Source {
        peers::of(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn a_peer_that_failed_five_times_pauses_until_its_minute_is_over() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        for second in 0..5 {
            assert_eq!(failures.pause(peer(1), start), None);
            failures.count(peer(1), start + Duration::from_secs(second));
        }
        assert_eq!(failures.pause(peer(1), start + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert_eq!(failures.pause(peer(2), start), None, "other peers have their own limit");
        let later = start + WINDOW;
        assert_eq!(failures.pause(peer(1), later), None);
        failures.count(peer(1), later);
        assert_eq!(failures.pause(peer(1), later), None, "a new minute starts with one failure");
    }

    #[test]
    fn the_number_of_counted_peers_is_limited_and_minutes_that_are_over_make_room() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        // As in `Access::failed`: only a peer that may fail is counted.
        let mut fail = |number: u32, now: Instant| {
            let pause = failures.pause(peer(number), now);
            if pause.is_none() {
                failures.count(peer(number), now);
            }
            (pause, failures.by_peer.len())
        };
        let most = u32::try_from(MOST_PEERS).expect("a small number");
        for number in 0..most {
            assert_eq!(fail(number, start).0, None);
        }
        assert_eq!(fail(0, start), (None, MOST_PEERS));
        assert_eq!(fail(most, start), (Some(WINDOW), MOST_PEERS));
        assert_eq!(fail(most, start + WINDOW), (None, 1));
    }
}
