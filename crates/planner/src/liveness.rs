//! Decides whether a node is alive from when it was last heard.
//!
//! The surprise: silence proves something only to somebody who listens. A fresh leader calls no node lost before it has
//! listened for the grace. One that heard nobody at all for a while may be the deaf one: what it did not hear then is no
//! silence, and counts from when it hears again.

use std::time::Duration;

use contract::query::Liveness;
use contract::time::Timestamp;

/// After which silence a node is what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nothing new is placed there.
    pub suspect_after: Duration,
    /// Its work is given to others.
    pub lost_after: Duration,
    /// Nobody is called lost before the listener has listened for so long.
    pub grace: Duration,
}

/// What is known about when a node was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hearing {
    /// When it was last heard; none if never by this process.
    pub heard_at: Option<Timestamp>,
    /// An earlier leader found it lost.
    pub found_lost: bool,
    /// Since when this process listens without a break.
    pub listening_since: Timestamp,
    /// When somebody was heard again after nobody was; never, if there was no such time.
    pub deaf_until: Timestamp,
}

/// A judgement and when it may change by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the node is heard.
    pub liveness: Liveness,
    /// When to judge again if nothing is heard.
    pub again_at: Option<Timestamp>,
}

/// Judges one node.
pub fn judge(hearing: Hearing, limits: &Limits, now: Timestamp) -> Judgement {
    let Some(heard_at) = hearing.heard_at else { return never_heard(hearing, limits, now) };
    let suspect_at = heard_at + limits.suspect_after;
    if now < suspect_at {
        return Judgement { liveness: Liveness::Alive, again_at: Some(suspect_at) };
    }
    let silent_since = heard_at.max(hearing.deaf_until);
    let lost_at = (silent_since + limits.lost_after).max(hearing.listening_since + limits.grace);
    silent(Liveness::Suspect, lost_at, now)
}

fn never_heard(hearing: Hearing, limits: &Limits, now: Timestamp) -> Judgement {
    if hearing.found_lost {
        return Judgement { liveness: Liveness::Lost, again_at: None };
    }
    silent(Liveness::Unknown, hearing.listening_since + limits.lost_after.max(limits.grace), now)
}

fn silent(meanwhile: Liveness, lost_at: Timestamp, now: Timestamp) -> Judgement {
    if now >= lost_at {
        Judgement { liveness: Liveness::Lost, again_at: None }
    } else {
        Judgement { liveness: meanwhile, again_at: Some(lost_at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        suspect_after: Duration::from_secs(15),
        lost_after: Duration::from_secs(300),
        grace: Duration::from_secs(30),
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }
    fn hearing(heard: Option<i64>, since: i64) -> Hearing {
        let deaf_until = Timestamp::NEVER;
        Hearing { heard_at: heard.map(at), found_lost: false, listening_since: at(since), deaf_until }
    }

    #[test]
    fn silence_makes_a_node_suspect_and_then_lost() {
        let node = hearing(Some(100), 0);
        assert_eq!(judge(node, &LIMITS, at(114)), Judgement { liveness: Liveness::Alive, again_at: Some(at(115)) });
        assert_eq!(judge(node, &LIMITS, at(115)), Judgement { liveness: Liveness::Suspect, again_at: Some(at(400)) });
        assert_eq!(judge(node, &LIMITS, at(400)), Judgement { liveness: Liveness::Lost, again_at: None });
    }

    #[test]
    fn a_fresh_listener_calls_nobody_lost() {
        let node = hearing(Some(0), 1_000);
        assert_eq!(judge(node, &LIMITS, at(1_001)).liveness, Liveness::Suspect);
        assert_eq!(judge(node, &LIMITS, at(1_001)).again_at, Some(at(1_030)));
        assert_eq!(judge(node, &LIMITS, at(1_030)).liveness, Liveness::Lost);
    }

    #[test]
    fn what_was_not_heard_while_nobody_was_is_no_silence() {
        let node = Hearing { deaf_until: at(1_000), ..hearing(Some(500), 0) };
        assert_eq!(judge(node, &LIMITS, at(1_299)).liveness, Liveness::Suspect);
        assert_eq!(judge(node, &LIMITS, at(1_299)).again_at, Some(at(1_300)));
        assert_eq!(judge(node, &LIMITS, at(1_300)).liveness, Liveness::Lost);
        let heard_since = Hearing { heard_at: Some(at(1_010)), ..node };
        assert_eq!(judge(heard_since, &LIMITS, at(1_310)).liveness, Liveness::Lost);
    }

    #[test]
    fn a_node_known_only_from_the_store_is_unknown_until_it_had_its_time() {
        let node = hearing(None, 1_000);
        assert_eq!(judge(node, &LIMITS, at(1_299)).liveness, Liveness::Unknown);
        assert_eq!(judge(node, &LIMITS, at(1_300)).liveness, Liveness::Lost);
        let lost_before = Hearing { found_lost: true, ..node };
        assert_eq!(judge(lost_before, &LIMITS, at(1_001)).liveness, Liveness::Lost);
    }
}
