//! The range of every number that a user writes, in one table.
//!
//! A plain request keeps the contract of the original: some numbers outside their range are accepted, echoed as written and
//! used as the nearest number of the range; the leader reports each of these clamps in an event. Everything else outside its
//! range is refused, and a `strict=true` request is refused for a clamp too.

use std::fmt;

use crate::spec::PodSpec;
use crate::validate::{Flaw, LONGEST_WAIT, MOST_INSTANCES, MOST_REVISIONS};

/// What a plain request does with a number outside the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// Uses the nearest number of the range.
    Clamped,
    /// Refuses a smaller number and uses the largest of the range for a larger one.
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
    /// What a plain request does with a number outside.
    pub plain: Plain,
}

impl Range {
    const fn new(field: &'static str, least: i64, most: i64, plain: Plain) -> Self {
        Self { field, least, most, zero_is_unset: false, plain }
    }
    const fn or_unset(self) -> Self {
        Self { zero_is_unset: true, ..self }
    }
    /// The number that is used for `number`.
    pub fn used(&self, number: i64) -> i64 {
        number.clamp(self.least, self.most)
    }
    /// Whether `number` may be written.
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
    /// What is wrong with `number`, and which numbers are right.
    pub fn problem(&self, number: i64) -> String {
        let unset = if self.zero_is_unset { " or 0 (not set)" } else { "" };
        format!("must be {}..{}{unset}, is {number}", self.least, self.most)
    }
}

/// Instances of a group. With a strategy other than Serial, `validate::MOST_CONDUCTED` is the limit.
pub const NUM_INSTANCES: Range = Range::new("NumInstances", 0, MOST_INSTANCES, Plain::Refused);
/// Seconds.
pub const SETUP_TIME: Range = Range::new("Pod.SetupTime", 0, 300, Plain::Clamped);
/// Seconds; 10 when it is not set.
pub const KILL_TIMEOUT: Range = Range::new("Pod.KillTimeout", 10, 120, Plain::Clamped).or_unset();
/// Seconds; 10 when it is not set. The largest number keeps a day's nanoseconds far below what Docker takes.
pub const HEALTH_INTERVAL: Range =
    Range::new("Pod.HealthConfig.options.interval", 10, 86_400, Plain::Clamped).or_unset();
/// Seconds; 3 when it is not set.
pub const HEALTH_TIMEOUT: Range = Range::new("Pod.HealthConfig.options.timeout", 3, 3_600, Plain::Clamped).or_unset();
/// Failures in a row; 3 when it is not set.
pub const HEALTH_RETRIES: Range = Range::new("Pod.HealthConfig.options.retries", 3, 1_000, Plain::Clamped).or_unset();
/// Sixteenths of the quota cores; 0 counts as level 2.
pub const CPU_LIMIT: Range = Range::new("Pod.Containers[].CpuLimit", 0, 8, Plain::ClampedAbove);
/// Bytes; 0 is no limit. The largest is 1 PiB: 16 containers of it still fit every sum.
pub const MEMORY_LIMIT: Range = Range::new("Pod.Containers[].MemoryLimit", 0, 1 << 50, Plain::ClampedAbove);
/// A TCP port; 0 is none.
pub const EXPOSE: Range = Range::new("Pod.Containers[].Expose", 0, 65_535, Plain::Refused);
/// Seconds between two instances of a serial upgrade: as long as an operation may hold its lock.
pub const UPGRADE_PAUSE: Range = Range::new("Strategy.UpgradePause", 0, 600, Plain::Refused);
/// Instances of a batch that are updated at the same time.
pub const WINDOW: Range = Range::new("Strategy.Window", 1, MOST_INSTANCES, Plain::Refused);
/// Revisions; each holds a whole pod spec.
pub const REVISION_HISTORY_LIMIT: Range = Range::new("RevisionHistoryLimit", 0, MOST_REVISIONS, Plain::Refused);
/// Restarts.
pub const FAIL_FAST_RESTARTS: Range = Range::new("FailFastRestarts", 1, 100, Plain::Refused);
/// Seconds.
pub const MIN_READY_SECONDS: Range = Range::new("MinReadySeconds", 0, LONGEST_WAIT, Plain::Refused);
/// Seconds.
pub const PROGRESS_DEADLINE_SECONDS: Range = Range::new("ProgressDeadlineSeconds", 1, LONGEST_WAIT, Plain::Refused);
/// Seconds.
pub const DRAIN_GRACE_SECONDS: Range = Range::new("Drain.GraceSeconds", 0, LONGEST_WAIT, Plain::Refused);
/// Seconds.
pub const DRAIN_TIMEOUT_SECONDS: Range = Range::new("Drain.TimeoutSeconds", 1, LONGEST_WAIT, Plain::Refused);
/// Seconds.
pub const INITIAL_DELAY_SECONDS: Range =
    Range::new("Topology.AutoReschedule.InitialDelaySeconds", 0, LONGEST_WAIT, Plain::Refused);

/// Every range. Amounts, which are a count or a percentage, are checked in `validate`.
pub const ALL: [Range; 18] = [
    NUM_INSTANCES,
    SETUP_TIME,
    KILL_TIMEOUT,
    HEALTH_INTERVAL,
    HEALTH_TIMEOUT,
    HEALTH_RETRIES,
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

/// A number outside its range that is accepted and used as another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clamp {
    /// Path of the field.
    pub field: String,
    /// What was written.
    pub written: i64,
    /// Its range.
    pub range: Range,
}

impl Clamp {
    /// The number that is used.
    pub fn used(&self) -> i64 {
        self.range.used(self.written)
    }
    /// What a strict request is refused with.
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
    /// The numbers of this pod that are used as others, in the order of the fields.
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
    fn a_number_outside_its_range_is_reported_with_the_number_that_is_used() {
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
