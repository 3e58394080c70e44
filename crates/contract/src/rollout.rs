//! How a group wants to be changed: the optional parts of a PodGroupSpec that make a release of a spec change.
//!
//! A field that is absent is not written either, so a group that names none of this looks as it always did. Defaults are
//! filled by whoever decides, not here: what is stored is what the user said.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A count, or a percentage of the desired replicas. In JSON an integer, or digits and one `%` as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Taken as it is.
    Count(i64),
    /// Of the desired replicas, never of the pods there are now.
    Percent(i64),
}

/// A text that is no percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a percentage: digits and one % are")]
pub struct Malformed(String);

impl Amount {
    /// Reads the text form, which only a percentage has.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        match text.strip_suffix('%') {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                // Only digits: the one way to fail is to be too large, and that saturates like all arithmetic on it.
                Ok(Self::Percent(digits.parse().unwrap_or(i64::MAX)))
            }
            Some(_) | None => Err(Malformed(text.to_owned())),
        }
    }

    /// The count it stands for, a fraction counted as a whole one: what `maxSurge` does.
    pub fn rounded_up(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => saturated((i128::from(percent) * i128::from(total) + 99).div_euclid(100)),
        }
    }

    /// The count it stands for, a fraction dropped: what `maxUnavailable` does.
    pub fn rounded_down(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => saturated((i128::from(percent) * i128::from(total)).div_euclid(100)),
        }
    }

    /// It stands for nothing, of however many.
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

/// How instances come to another revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Strategy {
    /// Which way.
    #[serde(rename = "Type")]
    pub kind: StrategyType,
    /// RollingUpdate: how many more than wanted there may be; 25% unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<Amount>,
    /// RollingUpdate: how many of the wanted may be missing; 25% unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Amount>,
    /// Batch and Beta: pods of a group; a percentage is of the replicas. 1 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<Amount>,
    /// Batch and Beta: the rollout waits for a confirmation after each batch but the last. The first deployment of a group
    /// does not wait, because nothing serves yet that a wait could protect.
    #[serde(skip_serializing_if = "is_default")]
    pub need_waiting_for_confirm: bool,
    /// Batch and Beta: with `NeedWaitingForConfirm`, the first deployment waits for confirmations too, as CafeDeployment's does.
    #[serde(skip_serializing_if = "is_default")]
    pub confirm_first_deployment: bool,
    /// Batch and Beta: at most so many pods of a unit are under way at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<i64>,
    /// Serial: seconds between the end of the old pod and the start of the new one.
    #[serde(skip_serializing_if = "is_default")]
    pub upgrade_pause: i64,
}

/// The ways to come to another revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrategyType {
    /// One instance at a time in number order, taken back when the first one fails.
    #[default]
    Serial,
    /// Within budgets of surge and unavailability.
    RollingUpdate,
    /// Everything old goes before anything new comes.
    Recreate,
    /// By groups over units.
    Batch,
    /// By groups over units, the first of which is one pod of every unit.
    Beta,
}

/// When a pod that is going away stops counting as one that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodReplacement {
    /// As soon as it was told to go.
    Started,
    /// Only when it is gone.
    Complete,
}

impl PodReplacement {
    /// How many of the pods that are going away count as ones that are there.
    pub fn counted(self, terminating: i64) -> i64 {
        match self {
            Self::Started => 0,
            Self::Complete => terminating.max(0),
        }
    }
}

/// Whether a change may be made without another pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdatePolicy {
    /// Always another pod.
    #[default]
    ReCreate,
    /// In place where it can be done.
    InPlaceIfPossible,
    /// In place or not at all.
    InPlaceOnly,
}

/// What a failed rollout leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureAction {
    /// The rollout pauses until an operator resumes, skips, aborts or undoes it.
    Hold,
    /// The group returns to the last revision that completed. A first deployment has none and pauses instead.
    Rollback,
    /// The rollout continues without the failed pods.
    Continue,
}

/// The deployment units a group is spread over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Topology {
    /// What a unit is.
    pub unit_type: UnitType,
    /// The node label whose value names the unit; the type in lower case unless said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit_label: String,
    /// The units, in the order they are served.
    pub values: Vec<String>,
    /// How many a unit is to have; who is not named shares what is left.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unit_replicas: BTreeMap<String, Amount>,
    /// What happens when a unit has no room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_reschedule: Option<AutoReschedule>,
    /// How the pods of a group are spread over units.
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

/// What a deployment unit is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitType {
    /// A cell.
    Cell,
    /// A zone.
    Zone,
    /// There are none.
    #[default]
    None,
}

/// Moves the quota of pods that find no room in their unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AutoReschedule {
    /// It is done.
    pub enable: bool,
    /// A pod waits at least so many seconds for room.
    pub initial_delay_seconds: i64,
    /// When the quota comes back.
    #[serde(skip_serializing_if = "is_default")]
    pub fail_back: FailBack,
}

/// When quota that was moved for lack of room comes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailBack {
    /// With the next release or scaling.
    #[default]
    Lazy,
    /// As soon as the unit no longer counts as full.
    Eager,
}

/// How the pods of a batch are spread over units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spread {
    /// Each unit gives up its share.
    #[default]
    Proportional,
    /// Each unit gives up the same.
    Even,
    /// One unit after the other, each with its own beta.
    Sequential,
}

/// How an instance is taken out of service before its pod goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Drain {
    /// It is shown as not ready for at least so many seconds before it is touched.
    pub grace_seconds: i64,
    /// Somebody outside says when it is drained, by `cmd=drained`.
    #[serde(skip_serializing_if = "is_default")]
    pub needs_answer: bool,
    /// An answer that does not come in so many seconds is a failure of the release; 300 unless said.
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
            assert_eq!(Amount::parse(text), Err(Malformed(text.to_owned())), "{text:?}");
        }
        assert_eq!(Amount::parse("0%"), Ok(Amount::Percent(0)));
        assert_eq!(Amount::parse("007%"), Ok(Amount::Percent(7)));
        assert_eq!(Amount::parse("99999999999999999999%"), Ok(Amount::Percent(i64::MAX)));
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        let strategy = Strategy { kind: StrategyType::Beta, batch_size: Some(Amount::Count(4)), ..Strategy::default() };
        assert_eq!(serde_json::to_string(&strategy).expect("JSON"), r#"{"Type":"Beta","BatchSize":4}"#);
        let topology = Topology { unit_type: UnitType::Zone, values: vec!["a".to_owned()], ..Topology::default() };
        assert_eq!(serde_json::to_string(&topology).expect("JSON"), r#"{"UnitType":"Zone","Values":["a"]}"#);
    }
}
