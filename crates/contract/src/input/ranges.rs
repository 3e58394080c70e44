//! The range of every number that users write, in one table.
//!
//! A plain request keeps the behaviour of the original API: some numbers outside their range are accepted, returned as
//! written and clamped to the range when used; the leader reports each clamp in an event. Any other number outside its
//! range is refused. A `strict=true` request is refused for a clamp too.

use std::fmt;

use crate::spec::PodSpec;
use crate::validate::{Flaw, LONGEST_WAIT, MOST_INSTANCES, MOST_REVISIONS};

/// What a plain request does with a number outside the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// Clamps it.
    Clamped,
    /// Refuses a smaller number and clamps a larger one.
    ClampedAbove,
    /// Refuses it.
    Refused,
}

/// The range of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Path of the field, with `[]` for every element of a list.
    pub field: &'static str,
    /// Smallest number.
    pub least: i64,
    /// Largest number.
    pub most: i64,
    /// 0 means that the field is not set, whatever the range is.
    pub zero_is_unset: bool,
    /// What a plain request does with a number outside the range.
    pub plain: Plain,
}

impl Range {
    const fn new(field: &'static str, least: i64, most: i64, plain: Plain) -> Self {
        Self { field, least, most, zero_is_unset: false, plain }
    }
    const fn or_unset(self) -> Self {
        Self { zero_is_unset: true, ..self }
    }
    /// The number clamped to the range.
    pub fn used(&self, number: i64) -> i64 {
        number.clamp(self.least, self.most)
    }
    /// Whether `number` is allowed, unset included.
    pub fn holds(&self, number: i64) -> bool {
        (self.least..=self.most).contains(&number) || (self.zero_is_unset && number == 0)
    }
    /// Whether a plain request with `number` is refused.
    pub fn refuses(&self, number: i64) -> bool {
        match self.plain {
            Plain::Clamped => false,
            Plain::ClampedAbove => number < self.least,
            Plain::Refused => !self.holds(number),
        }
    }
    /// The error text: allowed numbers and `number`.
    pub fn problem(&self, number: i64) -> String {
        let unset = if self.zero_is_unset { " or 0 (not set)" } else { "" };
        format!("must be {}..{}{unset}, is {number}", self.least, self.most)
    }
}

/// Instances per group. With a strategy, `validate::MOST_CONDUCTED` is the limit.
pub const NUM_INSTANCES: Range = Range::new("NumInstances", 0, MOST_INSTANCES, Plain::Refused);
/// Seconds until an instance without a health check is ready; default 0.
pub const SETUP_TIME: Range = Range::new("Pod.SetupTime", 0, 300, Plain::Clamped);
/// Seconds between SIGTERM and SIGKILL; default 10.
pub const KILL_TIMEOUT: Range = Range::new("Pod.KillTimeout", 10, 120, Plain::Clamped).or_unset();
/// Seconds between two health checks; default 10. The limit keeps the nanoseconds far below Docker's.
pub const HEALTH_INTERVAL: Range =
    Range::new("Pod.HealthConfig.options.interval", 10, 86_400, Plain::Clamped).or_unset();
/// Timeout of a health check in seconds; default 3.
pub const HEALTH_TIMEOUT: Range = Range::new("Pod.HealthConfig.options.timeout", 3, 3_600, Plain::Clamped).or_unset();
/// Consecutive failures until unhealthy; default 3.
pub const HEALTH_RETRIES: Range = Range::new("Pod.HealthConfig.options.retries", 3, 1_000, Plain::Clamped).or_unset();
/// Seconds between two checks of the agent.
pub const CHECK_PERIOD: Range = Range::new("Pod.HealthConfig.*.period", 1, 86_400, Plain::Refused).or_unset();
/// Timeout of a check of the agent, in seconds.
pub const CHECK_TIMEOUT: Range = Range::new("Pod.HealthConfig.*.timeout", 1, 3_600, Plain::Refused).or_unset();
/// Failures in a row after which a check of the agent fails.
pub const CHECK_FAILURES: Range = Range::new("Pod.HealthConfig.*.failures", 1, 1_000, Plain::Refused).or_unset();
/// Successes in a row after which a failed check of the agent passes again.
pub const CHECK_SUCCESSES: Range = Range::new("Pod.HealthConfig.*.successes", 1, 1_000, Plain::Refused).or_unset();
/// CPU level in sixteenths of the quota cores; 0 counts as level 2.
pub const CPU_LIMIT: Range = Range::new("Pod.Containers[].CpuLimit", 0, 8, Plain::ClampedAbove);
/// Memory limit in bytes; 0 means unlimited. The limit is 1 PiB, so that sums over 16 containers fit.
pub const MEMORY_LIMIT: Range = Range::new("Pod.Containers[].MemoryLimit", 0, 1 << 50, Plain::ClampedAbove);
/// Published TCP port; 0 means none.
pub const EXPOSE: Range = Range::new("Pod.Containers[].Expose", 0, 65_535, Plain::Refused);
/// Seconds between two instances of a serial upgrade; the limit is how long an operation may hold its lock.
pub const UPGRADE_PAUSE: Range = Range::new("Strategy.UpgradePause", 0, 600, Plain::Refused);
/// Instances of a batch that are updated at the same time.
pub const WINDOW: Range = Range::new("Strategy.Window", 1, MOST_INSTANCES, Plain::Refused);
/// Revisions to keep; each contains a whole pod spec.
pub const REVISION_HISTORY_LIMIT: Range = Range::new("RevisionHistoryLimit", 0, MOST_REVISIONS, Plain::Refused);
/// Restarts after which a new pod counts as failed.
pub const FAIL_FAST_RESTARTS: Range = Range::new("FailFastRestarts", 1, 100, Plain::Refused);
/// Seconds an instance must be ready to count as available.
pub const MIN_READY_SECONDS: Range = Range::new("MinReadySeconds", 0, LONGEST_WAIT, Plain::Refused);
/// Seconds a rollout may make no progress.
pub const PROGRESS_DEADLINE_SECONDS: Range = Range::new("ProgressDeadlineSeconds", 1, LONGEST_WAIT, Plain::Refused);
/// Seconds an instance is reported as not ready before its pod stops.
pub const DRAIN_GRACE_SECONDS: Range = Range::new("Drain.GraceSeconds", 0, LONGEST_WAIT, Plain::Refused);
/// Seconds the leader waits for `cmd=drained`.
pub const DRAIN_TIMEOUT_SECONDS: Range = Range::new("Drain.TimeoutSeconds", 1, LONGEST_WAIT, Plain::Refused);
/// Seconds a pod must be unschedulable before its quota moves.
pub const INITIAL_DELAY_SECONDS: Range =
    Range::new("Topology.AutoReschedule.InitialDelaySeconds", 0, LONGEST_WAIT, Plain::Refused);

/// All ranges. Amounts (a count or a percentage) are checked in `validate`.
pub const ALL: [Range; 22] = [
    NUM_INSTANCES,
    SETUP_TIME,
    KILL_TIMEOUT,
    HEALTH_INTERVAL,
    HEALTH_TIMEOUT,
    HEALTH_RETRIES,
    CHECK_PERIOD,
    CHECK_TIMEOUT,
    CHECK_FAILURES,
    CHECK_SUCCESSES,
    CPU_LIMIT,
    MEMORY_LIMIT,
    EXPOSE,
    UPGRADE_PAUSE,
    WINDOW,
    REVISION_HISTORY_LIMIT,
    FAIL_FAST_RESTARTS,
    MIN_READY_SECONDS,
    PROGRESS_DEADLINE_SECONDS,
    DRAIN_GRACE_SECONDS,
    DRAIN_TIMEOUT_SECONDS,
    INITIAL_DELAY_SECONDS,
];

/// A number outside its range that is accepted and clamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clamp {
    /// Path of the field.
    pub field: String,
    /// The number that the user wrote.
    pub written: i64,
    /// Its range.
    pub range: Range,
}

impl Clamp {
    /// The clamped number.
    pub fn used(&self) -> i64 {
        self.range.used(self.written)
    }
    /// The flaw for which a strict request is refused.
    pub fn flaw(&self) -> Flaw {
        Flaw { field: self.field.clone(), problem: self.range.problem(self.written) }
    }
}

impl fmt::Display for Clamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { least, most, .. } = self.range;
        write!(f, "{} {} is outside {least}..{most} and is used as {}", self.field, self.written, self.used())
    }
}

impl PodSpec {
    /// The clamped numbers of this pod, in the order of the fields.
    pub fn clamps(&self) -> Vec<Clamp> {
        let options = &self.health_config.options;
        let pod = [
            (SETUP_TIME, self.setup_time),
            (KILL_TIMEOUT, self.kill_timeout),
            (HEALTH_INTERVAL, options.interval),
            (HEALTH_TIMEOUT, options.timeout),
            (HEALTH_RETRIES, options.retries),
        ];
        let containers = self.containers.iter().enumerate().flat_map(|(index, container)| {
            let numbers = [(CPU_LIMIT, container.cpu_limit), (MEMORY_LIMIT, container.memory_limit)];
            numbers.map(|(range, written)| (range.field.replace("[]", &format!("[{index}]")), range, written))
        });
        let pod = pod.into_iter().map(|(range, written)| (range.field.to_owned(), range, written));
        let outside = pod.chain(containers).filter(|(_, range, written)| !range.holds(*written));
        outside.map(|(field, range, written)| Clamp { field, written, range }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ContainerSpec;

    fn clamps(change: impl FnOnce(&mut PodSpec)) -> Vec<String> {
        let mut pod = PodSpec { containers: vec![ContainerSpec::default()], ..PodSpec::default() };
        change(&mut pod);
        pod.clamps().iter().map(Clamp::to_string).collect()
    }

    #[test]
    fn a_clamped_number_is_reported_with_the_number_in_use() {
        assert_eq!(clamps(|_| {}), [""; 0]);
        assert_eq!(
            clamps(|pod| pod.setup_time = i64::MAX),
            ["Pod.SetupTime 9223372036854775807 is outside 0..300 and is used as 300"]
        );
        assert_eq!(clamps(|pod| pod.kill_timeout = 5), ["Pod.KillTimeout 5 is outside 10..120 and is used as 10"]);
        assert_eq!(
            clamps(|pod| pod.health_config.options.interval = 5),
            ["Pod.HealthConfig.options.interval 5 is outside 10..86400 and is used as 10"]
        );
        assert_eq!(
            clamps(|pod| pod.containers[0].cpu_limit = 16),
            ["Pod.Containers[0].CpuLimit 16 is outside 0..8 and is used as 8"]
        );
    }

    #[test]
    fn every_field_has_one_range_that_is_not_empty() {
        for (index, range) in ALL.iter().enumerate() {
            assert!(range.least < range.most, "{}", range.field);
            assert!(ALL[..index].iter().all(|other| other.field != range.field), "{}", range.field);
        }
    }
}
