//! Describes a failure of a rollout for the group's record, events and views.

use super::state::{Cause, Failure};

/// Most instances in a message.
const MOST_NAMED: usize = 20;

impl Failure {
    /// For example `instance 2 is unschedulable (no node fits: …)`.
    pub fn message(&self) -> String {
        let is_one = self.instances.len() == 1;
        let what = match (self.cause, is_one) {
            (Cause::Crashing, true) => "is crash-looping",
            (Cause::Crashing, false) => "are crash-looping",
            (Cause::ImageHopeless, _) => "cannot pull the image",
            (Cause::Unschedulable, true) => "is unschedulable",
            (Cause::Unschedulable, false) => "are unschedulable",
            (Cause::HookOverdue, true) => "was not drained in time",
            (Cause::HookOverdue, false) => "were not drained in time",
            (Cause::GateOverdue, true) => "has a readiness gate that was not made true in time",
            (Cause::GateOverdue, false) => "have readiness gates that were not made true in time",
            (Cause::DeadlineExceeded, _) => "made no progress for too long",
        };
        let why = if self.why.is_empty() { String::new() } else { format!(" ({})", self.why) };
        format!("{} {what}{why}", instances(&self.instances))
    }
}

/// For example `instances 2, 3 and 4 more`.
pub fn instances(numbers: &[u32]) -> String {
    let named: Vec<String> = numbers.iter().take(MOST_NAMED).map(u32::to_string).collect();
    match (numbers.len(), numbers.len().saturating_sub(MOST_NAMED)) {
        (0, _) => "no instance in particular".to_owned(),
        (1, _) => format!("instance {}", named.join("")),
        (_, 0) => format!("instances {}", named.join(", ")),
        (_, more) => format!("instances {} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::moment::Moment;

    #[test]
    fn one_instance_is_one_and_many_are_not_all_named() {
        let failure = |instances: Vec<u32>| Failure {
            cause: Cause::Unschedulable,
            batch: 0,
            instances,
            since: Moment::from_secs(0),
            why: "no node fits: there is no node".to_owned(),
        };
        assert_eq!(failure(vec![2]).message(), "instance 2 is unschedulable (no node fits: there is no node)");
        assert!(failure(vec![2, 3]).message().starts_with("instances 2, 3 are unschedulable"));
        let all: Vec<u32> = (1..=22).collect();
        assert!(instances(&all).ends_with("19, 20 and 2 more"), "{}", instances(&all));
        assert_eq!(instances(&[]), "no instance in particular");
    }
}
