//! Pod ids: group, instance number, revision and drift count.
//!
//! The text `<group>.v<version>-i<instance>-d<drift>` is the container's name and the key in orders and reports, and
//! the client `lainctl` parses it. It is formatted and parsed only here.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::{GroupName, Read};

/// One pod: an instance at one revision and one drift count.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    /// Group it belongs to.
    pub group: GroupName,
    /// Instance number, from 1.
    pub instance: u32,
    /// Revision of the spec that its containers were created from.
    pub version: u32,
    /// How many times the instance was recreated under a new container name.
    pub drift: u32,
}

/// An instance of a group at any revision: the unit of an agent's work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey {
    /// Name of the group.
    pub group: GroupName,
    /// Instance number, from 1; 0 for dependency pods.
    pub instance: u32,
}

/// A revision of a group's pod spec, written `<group>.v<version>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpecKey {
    /// Name of the group.
    pub group: GroupName,
    /// Revision number.
    pub version: u32,
}

/// A text that is not a pod id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not of the form <group>.v<version>-i<instance>-d<drift>")]
pub struct MalformedPodId(String);

/// A text that is not a spec key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not of the form <group>.v<version>")]
pub struct MalformedSpecKey(String);

impl PodId {
    /// The instance of this pod.
    pub fn key(&self) -> InstanceKey {
        InstanceKey { group: self.group.clone(), instance: self.instance }
    }
    /// The spec that its containers were created from.
    pub fn spec_key(&self) -> SpecKey {
        SpecKey { group: self.group.clone(), version: self.version }
    }
    /// Name of container `index` of a pod with `count` containers.
    pub fn container_name(&self, index: usize, count: usize) -> String {
        if count > 1 { format!("{self}-c{index}") } else { self.to_string() }
    }
}

fn digits(text: &str) -> Option<u32> {
    // Accept only the canonical form, so that formatting returns the same text.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

/// Appends the number as decimal digits.
fn push_digits(text: &mut String, number: u32) {
    if number >= 10 {
        push_digits(text, number / 10);
    }
    text.extend(char::from_digit(number % 10, 10));
}

impl FromStr for PodId {
    type Err = MalformedPodId;
    fn from_str(text: &str) -> Result<Self, MalformedPodId> {
        let parse = || {
            let (group, tail) = text.rsplit_once(".v")?;
            let (version, tail) = tail.split_once("-i")?;
            let (instance, drift) = tail.split_once("-d")?;
            Some(Self {
                group: group.parse().ok()?,
                instance: digits(instance)?,
                version: digits(version)?,
                drift: digits(drift)?,
            })
        };
        parse().ok_or_else(|| MalformedPodId(text.to_owned()))
    }
}
impl TryFrom<String> for PodId {
    type Error = MalformedPodId;
    fn try_from(text: String) -> Result<Self, MalformedPodId> {
        text.parse()
    }
}
impl From<PodId> for String {
    fn from(id: PodId) -> Self {
        id.to_string()
    }
}
impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.v{}-i{}-d{}", self.group, self.version, self.instance, self.drift)
    }
}
impl fmt::Debug for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl Serialize for PodId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let group = self.group.as_str();
        // Formatted by hand for speed: it is the key of every entry of orders, reports and digests.
        let mut text = String::with_capacity(group.len() + 24);
        text.push_str(group);
        for (mark, number) in [(".v", self.version), ("-i", self.instance), ("-d", self.drift)] {
            text.push_str(mark);
            push_digits(&mut text, number);
        }
        serializer.serialize_str(&text)
    }
}
impl<'de> Deserialize<'de> for PodId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Read(PhantomData))
    }
}
impl fmt::Display for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.instance)
    }
}

impl FromStr for SpecKey {
    type Err = MalformedSpecKey;
    fn from_str(text: &str) -> Result<Self, MalformedSpecKey> {
        let parse = || {
            let (group, version) = text.rsplit_once(".v")?;
            Some(Self { group: group.parse().ok()?, version: digits(version)? })
        };
        parse().ok_or_else(|| MalformedSpecKey(text.to_owned()))
    }
}
impl TryFrom<String> for SpecKey {
    type Error = MalformedSpecKey;
    fn try_from(text: String) -> Result<Self, MalformedSpecKey> {
        text.parse()
    }
}
impl From<SpecKey> for String {
    fn from(key: SpecKey) -> Self {
        key.to_string()
    }
}
impl Serialize for SpecKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let group = self.group.as_str();
        let mut text = String::with_capacity(group.len() + 8);
        text.push_str(group);
        text.push_str(".v");
        push_digits(&mut text, self.version);
        serializer.serialize_str(&text)
    }
}
impl<'de> Deserialize<'de> for SpecKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Read(PhantomData))
    }
}
impl fmt::Display for SpecKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.v{}", self.group, self.version)
    }
}
impl fmt::Debug for SpecKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_id_is_the_container_name_lainctl_parses() {
        let id: PodId = "webrouter.worker.worker.v3-i1-d0".parse().expect("a container name");
        assert_eq!((id.group.as_str(), id.instance, id.version, id.drift), ("webrouter.worker.worker", 1, 3, 0));
        assert_eq!(id.container_name(0, 1), "webrouter.worker.worker.v3-i1-d0");
        assert_eq!(id.container_name(1, 2), "webrouter.worker.worker.v3-i1-d0-c1");
    }

    #[test]
    fn malformed_pod_ids_are_refused() {
        for text in
            ["", "a", "a.v1", "a.v1-i1", "a.v01-i1-d0", "a.v1-i1-d0-c1", ".v1-i1-d0", "a.v-1-i1-d0", "a b.v1-i1-d0"]
        {
            assert!(text.parse::<PodId>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_serialised_form_equals_the_displayed_form() {
        for (instance, version, drift) in [(1, 0, 0), (10, 99, 100), (u32::MAX, 1_000_000, 5_000)] {
            let id = PodId { group: "a.b".parse().expect("a name"), instance, version, drift };
            assert_eq!(serde_json::to_string(&id).expect("text"), format!("\"{id}\""));
            assert_eq!(serde_json::to_string(&id.spec_key()).expect("text"), format!("\"{}\"", id.spec_key()));
            assert_eq!(serde_json::from_str::<PodId>(&format!("\"{id}\"")).expect("an id"), id);
        }
        assert!(serde_json::from_str::<PodId>("\"a.v1\"").is_err());
    }

    #[test]
    fn a_group_name_that_looks_like_a_version_is_parsed() {
        let id = PodId { group: "a.v1-i1-d0".parse().expect("a name"), instance: 2, version: 3, drift: 4 };
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}
