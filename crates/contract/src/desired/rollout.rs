//! Rollout settings: the optional fields of a PodGroupSpec that control how a spec change reaches the instances.
//!
//! Absent fields are not serialised, so a group without them looks the same as in the original API. The stored spec
//! contains only what the user sent; the planner fills in defaults when it decides.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A count, or a percentage of the desired replicas (R-30). In JSON an integer, or a string of digits and one `%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// An absolute number of pods.
    Count(i64),
    /// A percentage of the desired replicas, never of the pods that exist now.
    Percent(i64),
}

/// A string that is not a percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a percentage: digits and one % are")]
pub struct MalformedPercentage(String);

impl Amount {
    /// Parses the string form, which only percentages have.
    pub fn parse(text: &str) -> Result<Self, MalformedPercentage> {
        match text.strip_suffix('%') {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                // The digits can only fail to parse by being too large; saturate.
                Ok(Self::Percent(digits.parse().unwrap_or(i64::MAX)))
            }
            Some(_) | None => Err(MalformedPercentage(text.to_owned())),
        }
    }

    /// The absolute number, rounded up as `maxSurge` does: 25% of 10 is 3.
    pub fn rounded_up(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => saturated((i128::from(percent) * i128::from(total) + 99).div_euclid(100)),
        }
    }

    /// The absolute number, rounded down as `maxUnavailable` does: 25% of 10 is 2.
    pub fn rounded_down(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => saturated((i128::from(percent) * i128::from(total)).div_euclid(100)),
        }
    }

    /// Whether it is 0 of any total.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

fn saturated(wide: i128) -> i64 {
    i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_i64(*count),
            Self::Percent(percent) => serializer.collect_str(&format_args!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a percentage such as \"25%\"")
            }
            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Amount, E> {
                Ok(Amount::Count(count))
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Amount, E> {
                Ok(Amount::Count(i64::try_from(count).unwrap_or(i64::MAX)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                Amount::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// The rule by which a rollout proceeds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Strategy {
    /// The kind of rollout.
    #[serde(rename = "Type")]
    pub kind: StrategyType,
    /// RollingUpdate: pods allowed above the desired number; default 25%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<Amount>,
    /// RollingUpdate: pods of the desired number that may be unavailable; default 25%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Amount>,
    /// Batch and Beta: pods per batch; a percentage refers to the replicas. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<Amount>,
    /// Batch and Beta: the rollout waits for a confirmation after each batch but the last. The first deployment of a group
    /// does not wait, because nothing serves yet that a wait could protect.
    #[serde(skip_serializing_if = "is_default")]
    pub need_waiting_for_confirm: bool,
    /// Batch and Beta: with `NeedWaitingForConfirm`, the first deployment waits for confirmations too, as CafeDeployment's does.
    #[serde(skip_serializing_if = "is_default")]
    pub confirm_first_deployment: bool,
    /// Batch and Beta: limit of updated pods of one unit that may be not yet available; default no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<i64>,
    /// Serial: pause between the end of the old pod and the start of the new one, in seconds.
    #[serde(skip_serializing_if = "is_default")]
    pub upgrade_pause: i64,
}

/// The kinds of rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrategyType {
    /// One instance at a time in number order; rolled back when the first one fails (R-53 in docs/rollout-rules.md).
    #[default]
    Serial,
    /// Within the budgets of `maxSurge` and `maxUnavailable` (R-32 to R-36).
    RollingUpdate,
    /// All old pods stop before new ones start (R-41).
    Recreate,
    /// In batches, divided over units (R-47).
    Batch,
    /// Like `Batch`; the first batch is one pod of every unit.
    Beta,
}

/// When a terminating pod stops counting toward the total (R-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodReplacement {
    /// As soon as it begins to terminate.
    Started,
    /// When it is gone.
    Complete,
}

impl PodReplacement {
    /// How many of the terminating pods count toward the total.
    pub fn counted(self, terminating: i64) -> i64 {
        match self {
            Self::Started => 0,
            Self::Complete => terminating.max(0),
        }
    }
}

/// Whether a pod may be updated in place (R-51).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdatePolicy {
    /// Always replace the pod.
    #[default]
    ReCreate,
    /// In place if the change allows it, otherwise replace the pod.
    InPlaceIfPossible,
    /// In place, or refuse the change.
    InPlaceOnly,
}

/// What happens after a rollout failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureAction {
    /// The rollout pauses until an operator resumes, skips, aborts or undoes it.
    Hold,
    /// The group returns to the last revision that completed. A first deployment has none and pauses instead.
    Rollback,
    /// The rollout continues without the failed pods.
    Continue,
}

/// The deployment units that a group is spread over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Topology {
    /// What a unit is.
    pub unit_type: UnitType,
    /// The node label whose value names the unit; default: the type in lower case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit_label: String,
    /// The units. Their order breaks ties.
    pub values: Vec<String>,
    /// Desired pods per unit. Units without an entry share the rest (R-46).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unit_replicas: BTreeMap<String, Amount>,
    /// Whether pods move when their unit has no room (R-50); default no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_reschedule: Option<AutoReschedule>,
    /// How a batch is divided over units (R-13).
    #[serde(skip_serializing_if = "is_default")]
    pub spread: Spread,
}

impl Topology {
    /// The node label whose value names the unit.
    pub fn label(&self) -> &str {
        match (self.unit_label.as_str(), self.unit_type) {
            ("", UnitType::Zone) => "zone",
            ("", UnitType::Cell | UnitType::None) => "cell",
            (label, _) => label,
        }
    }
}

/// Kinds of deployment units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitType {
    /// A cell: node label `cell`.
    Cell,
    /// A zone: node label `zone`.
    Zone,
    /// The group has no units.
    #[default]
    None,
}

/// Moves the quota of unschedulable pods to other units (R-50).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AutoReschedule {
    /// Turns it on; default off.
    pub enable: bool,
    /// How long a pod must be unschedulable, in seconds.
    pub initial_delay_seconds: i64,
    /// When the quota returns.
    #[serde(skip_serializing_if = "is_default")]
    pub fail_back: FailBack,
}

/// When quota that moved returns to its unit (R-23).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailBack {
    /// With the next rollout or scaling.
    #[default]
    Lazy,
    /// As soon as the unit no longer counts as full.
    Eager,
}

/// How the pods of a batch are divided over units (R-13).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spread {
    /// By the share of remaining work.
    #[default]
    Proportional,
    /// The same number from each unit.
    Even,
    /// One unit after the other; with `Beta`, each has its own beta batch.
    Sequential,
}

/// How an instance is drained before its pod is replaced or removed (R-24).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Drain {
    /// The instance is reported as not ready for at least this many seconds before its pod stops.
    pub grace_seconds: i64,
    /// The leader waits for `cmd=drained`.
    #[serde(skip_serializing_if = "is_default")]
    pub needs_answer: bool,
    /// How long the leader waits for it, in seconds; then the rollout fails. Default 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_an_integer_or_a_percentage_and_nothing_else() {
        let read = |text: &str| serde_json::from_str::<Amount>(text);
        assert_eq!(read("3").expect("a count"), Amount::Count(3));
        assert_eq!(read("-3").expect("a count"), Amount::Count(-3));
        assert_eq!(read("\"25%\"").expect("a percentage"), Amount::Percent(25));
        for text in ["\"3\"", "\"oops\"", "1.5", "true", "[]"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::to_string(&[Amount::Count(3), Amount::Percent(25)]).expect("JSON"), "[3,\"25%\"]");
    }

    #[test]
    fn only_digits_and_one_percent_sign_are_a_percentage() {
        for text in ["10", "oops", "", "%", "10%%", "-5%", "+5%", " 5%", "5 %", "1.5%", "5%x"] {
            assert_eq!(Amount::parse(text), Err(MalformedPercentage(text.to_owned())), "{text:?}");
        }
        assert_eq!(Amount::parse("0%"), Ok(Amount::Percent(0)));
        assert_eq!(Amount::parse("007%"), Ok(Amount::Percent(7)));
        assert_eq!(Amount::parse("99999999999999999999%"), Ok(Amount::Percent(i64::MAX)));
    }

    #[test]
    fn absent_fields_are_not_serialised() {
        let strategy = Strategy { kind: StrategyType::Beta, batch_size: Some(Amount::Count(4)), ..Strategy::default() };
        assert_eq!(serde_json::to_string(&strategy).expect("JSON"), r#"{"Type":"Beta","BatchSize":4}"#);
        let topology = Topology { unit_type: UnitType::Zone, values: vec!["a".to_owned()], ..Topology::default() };
        assert_eq!(serde_json::to_string(&topology).expect("JSON"), r#"{"UnitType":"Zone","Values":["a"]}"#);
    }
}
