//! Start and stop events of an instance's containers: a ring of the last 20.
//!
//! An event carries the time of its node, so inserting it twice changes nothing and the order of arrival does not
//! matter. A new leader can therefore merge reports into the stored history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::notice::Incident;
use crate::time::Timestamp;

/// Limit of events per instance.
pub const MOST_EVENTS: usize = 20;
/// Instances per stored page; a full page stays far below etcd's size limit.
pub const PAGE: u32 = 64;

/// What happened to a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Happened {
    /// It started.
    Start,
    /// It exited, by itself or because deployd stopped it.
    Stop,
}

impl Happened {
    /// The word in the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

/// One start or stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerEvent {
    /// When, by the node's clock.
    pub at: Timestamp,
    /// Start or stop.
    pub happened: Happened,
    /// Index of the container in the pod, from 0.
    pub container: u32,
    /// `<image> node:<node>`, the form that clients parse.
    pub from: String,
}

/// The last events of one instance, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ring {
    events: Vec<ContainerEvent>,
}

impl Ring {
    /// Inserts an event. Returns false when it is a duplicate, or older than everything in a full ring.
    pub fn insert(&mut self, event: ContainerEvent) -> bool {
        let place = |event: &ContainerEvent| (event.at, event.happened, event.container);
        let Err(index) = self.events.binary_search_by_key(&place(&event), place) else { return false };
        let full = self.events.len() >= MOST_EVENTS;
        if full && index == 0 {
            return false;
        }
        // Most instances start only once: do not allocate for more.
        if self.events.is_empty() {
            self.events.reserve_exact(1);
        }
        self.events.insert(index, event);
        if full {
            self.events.remove(0);
        }
        true
    }

    /// The events, oldest first.
    pub fn events(&self) -> &[ContainerEvent] {
        &self.events
    }
}

/// A condition of an instance that persists: it is reported once, and again after a long time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Condition {
    /// [`Incident::CrashLooping`].
    #[serde(rename = "LetGo")]
    CrashLooping,
    /// [`Incident::LostAddress`].
    LostAddress,
    /// [`Incident::Unhealthy`].
    Unhealthy,
}

impl Condition {
    /// All conditions.
    pub const ALL: [Self; 3] = [Self::CrashLooping, Self::LostAddress, Self::Unhealthy];

    /// The incident that reports it.
    pub fn incident(self) -> Incident {
        match self {
            Self::CrashLooping => Incident::CrashLooping,
            Self::LostAddress => Incident::LostAddress,
            Self::Unhealthy => Incident::Unhealthy,
        }
    }
}

/// When the conditions of one instance were last reported; conditions that ended are removed.
pub type Reported = BTreeMap<Condition, Timestamp>;

/// The histories of up to [`PAGE`] instances of a group, by number: `/deployd/state/history/<group>/<page>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRecord {
    /// The events by instance number.
    pub instances: BTreeMap<u32, Ring>,
    /// When the conditions of instances were last reported, so that the next leader does not report them again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<u32, Reported>,
}

/// The page that contains an instance.
pub fn page_of(instance: u32) -> u32 {
    instance / PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(second: i64, happened: Happened) -> ContainerEvent {
        ContainerEvent {
            at: Timestamp::from_millis(second * 1000),
            happened,
            container: 0,
            from: "demo node:a".to_owned(),
        }
    }
    fn seconds(ring: &Ring) -> Vec<i64> {
        ring.events().iter().map(|event| event.at.as_millis() / 1000).collect()
    }

    #[test]
    fn events_are_stored_once_and_sorted_by_time() {
        let mut ring = Ring::default();
        assert!(ring.insert(event(5, Happened::Stop)));
        assert!(ring.insert(event(3, Happened::Start)));
        assert!(ring.insert(event(6, Happened::Start)));
        assert!(!ring.insert(event(3, Happened::Start)), "known");
        assert!(
            !ring.insert(ContainerEvent { from: "other node:a".to_owned(), ..event(3, Happened::Start) }),
            "the first stands"
        );
        assert_eq!(seconds(&ring), [3, 5, 6]);
    }

    #[test]
    fn a_full_ring_drops_its_oldest_event_and_rejects_it_afterwards() {
        let mut ring = Ring::default();
        for second in 0..25 {
            assert!(ring.insert(event(second, Happened::Start)));
        }
        assert_eq!(seconds(&ring), (5..25).collect::<Vec<_>>());
        assert!(!ring.insert(event(4, Happened::Start)));
        assert_eq!(ring.events().len(), MOST_EVENTS);
    }
}
