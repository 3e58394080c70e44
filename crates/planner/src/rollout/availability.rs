//! Decides whether a ready pod counts as available, and when to check again.
//!
//! A pod that is ready since 12:00:00 with `minReadySeconds` 10 is available from 12:00:10 on, that instant included. The
//! caller passes the same `now` to both functions: otherwise a pod becomes available between the calls and no check follows.

use std::time::Duration;

use super::moment::Moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    pub ready: bool,
    pub since: Option<Moment>,
}

pub fn is_available(pod: Ready, min_ready: Duration, now: Moment) -> bool {
    pod.ready && (min_ready.is_zero() || pod.since.is_some_and(|since| since.after(min_ready) <= now))
}

/// The time until the next pod becomes available; `None` when no pod is ready but not yet available.
pub fn next_check(pods: &[Ready], min_ready: Duration, now: Moment) -> Option<Duration> {
    if min_ready.is_zero() {
        return None;
    }
    pods.iter()
        .filter(|pod| pod.ready)
        .filter_map(|pod| pod.since.map(|since| now.until(since.after(min_ready))))
        .filter(|wait| !wait.is_zero())
        .min()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    property! {
        fn the_next_check_is_when_a_pod_becomes_available(
            pods in prop::collection::vec((any::<bool>(), prop::option::of(0..40i64)), 0..6), min_ready in 0..20u64,
            now in 0..40i64,
        ) {
            let pod = |(ready, since): (bool, Option<i64>)| Ready { ready, since: since.map(Moment::from_secs) };
            let pods: Vec<Ready> = pods.into_iter().map(pod).collect();
            let (min_ready, now) = (Duration::from_secs(min_ready), Moment::from_secs(now));
            let available = |at: Moment| pods.iter().filter(|pod| is_available(**pod, min_ready, at)).count();
            let just_before = |wait: Duration| now.after(wait.saturating_sub(Duration::from_nanos(1)));
            match next_check(&pods, min_ready, now) {
                Some(wait) => {
                    prop_assert!(available(now.after(wait)) > available(now));
                    prop_assert_eq!(available(just_before(wait)), available(now));
                }
                None => prop_assert_eq!(available(now.after(Duration::from_secs(100))), available(now)),
            }
        }
    }
}
