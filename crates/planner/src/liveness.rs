//! Decides from the last report of a node whether the node is alive, suspect or lost.
//!
//! Example with the timeouts 15 s and 300 s: last report at second 100, suspect at 115, lost at 400. A new leader declares no
//! node lost before it has listened for `grace`. A leader that received no report from any node may be disconnected itself:
//! that time does not count as silence of the nodes.

use std::time::Duration;

use contract::query::Liveness;
use contract::time::Timestamp;

/// How long a node may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivenessTimeouts {
    /// After this silence no pod is placed on the node.
    pub suspect_after: Duration,
    /// After this silence its pods are recreated on other nodes.
    pub lost_after: Duration,
    /// A new leader declares no node lost before this time.
    pub grace: Duration,
}

/// What a leader knows about the reports of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeats {
    /// None if this process received no report.
    pub last_report: Option<Timestamp>,
    /// An earlier leader declared the node lost.
    pub was_lost: bool,
    /// Since when this process has listened without interruption.
    pub listening_since: Timestamp,
    /// When reports arrived again after all nodes were silent; never if that did not happen.
    pub blind_until: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivenessCheck {
    pub liveness: Liveness,
    /// When the result changes without a further report.
    pub recheck_at: Option<Timestamp>,
}

/// Decides about one node.
pub fn check(heartbeats: Heartbeats, timeouts: &LivenessTimeouts, now: Timestamp) -> LivenessCheck {
    let Some(last_report) = heartbeats.last_report else { return never_heard(heartbeats, timeouts, now) };
    let suspect_at = last_report + timeouts.suspect_after;
    if now < suspect_at {
        return LivenessCheck { liveness: Liveness::Alive, recheck_at: Some(suspect_at) };
    }
    let silent_since = last_report.max(heartbeats.blind_until);
    let lost_at = (silent_since + timeouts.lost_after).max(heartbeats.listening_since + timeouts.grace);
    silent(Liveness::Suspect, lost_at, now)
}

fn never_heard(heartbeats: Heartbeats, timeouts: &LivenessTimeouts, now: Timestamp) -> LivenessCheck {
    if heartbeats.was_lost {
        return LivenessCheck { liveness: Liveness::Lost, recheck_at: None };
    }
    silent(Liveness::Unknown, heartbeats.listening_since + timeouts.lost_after.max(timeouts.grace), now)
}

fn silent(meanwhile: Liveness, lost_at: Timestamp, now: Timestamp) -> LivenessCheck {
    if now >= lost_at {
        LivenessCheck { liveness: Liveness::Lost, recheck_at: None }
    } else {
        LivenessCheck { liveness: meanwhile, recheck_at: Some(lost_at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: LivenessTimeouts = LivenessTimeouts {
        suspect_after: Duration::from_secs(15),
        lost_after: Duration::from_secs(300),
        grace: Duration::from_secs(30),
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }
    fn heartbeats(heard: Option<i64>, since: i64) -> Heartbeats {
        let blind_until = Timestamp::NEVER;
        Heartbeats { last_report: heard.map(at), was_lost: false, listening_since: at(since), blind_until }
    }

    #[test]
    fn silence_makes_a_node_suspect_and_then_lost() {
        let node = heartbeats(Some(100), 0);
        assert_eq!(
            check(node, &TIMEOUTS, at(114)),
            LivenessCheck { liveness: Liveness::Alive, recheck_at: Some(at(115)) }
        );
        assert_eq!(
            check(node, &TIMEOUTS, at(115)),
            LivenessCheck { liveness: Liveness::Suspect, recheck_at: Some(at(400)) }
        );
        assert_eq!(check(node, &TIMEOUTS, at(400)), LivenessCheck { liveness: Liveness::Lost, recheck_at: None });
    }

    #[test]
    fn a_new_leader_declares_no_node_lost() {
        let node = heartbeats(Some(0), 1_000);
        assert_eq!(check(node, &TIMEOUTS, at(1_001)).liveness, Liveness::Suspect);
        assert_eq!(check(node, &TIMEOUTS, at(1_001)).recheck_at, Some(at(1_030)));
        assert_eq!(check(node, &TIMEOUTS, at(1_030)).liveness, Liveness::Lost);
    }

    #[test]
    fn time_without_any_report_is_no_silence_of_a_node() {
        let node = Heartbeats { blind_until: at(1_000), ..heartbeats(Some(500), 0) };
        assert_eq!(check(node, &TIMEOUTS, at(1_299)).liveness, Liveness::Suspect);
        assert_eq!(check(node, &TIMEOUTS, at(1_299)).recheck_at, Some(at(1_300)));
        assert_eq!(check(node, &TIMEOUTS, at(1_300)).liveness, Liveness::Lost);
        let heard_since = Heartbeats { last_report: Some(at(1_010)), ..node };
        assert_eq!(check(heard_since, &TIMEOUTS, at(1_310)).liveness, Liveness::Lost);
    }

    #[test]
    fn a_node_without_a_report_is_unknown_until_the_timeout() {
        let node = heartbeats(None, 1_000);
        assert_eq!(check(node, &TIMEOUTS, at(1_299)).liveness, Liveness::Unknown);
        assert_eq!(check(node, &TIMEOUTS, at(1_300)).liveness, Liveness::Lost);
        let lost_before = Heartbeats { was_lost: true, ..node };
        assert_eq!(check(lost_before, &TIMEOUTS, at(1_001)).liveness, Liveness::Lost);
    }
}
