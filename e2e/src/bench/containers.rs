//! Which containers of one contestant stand there, folded from what the engine tells as it happens.
//!
//! The same for every contestant, so that nobody is asked about itself.

use std::collections::BTreeMap;
use std::time::Instant;

/// Something happened to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerEvent {
    pub(crate) id: String,
    /// The version its label says.
    pub(crate) version: u32,
    pub(crate) kind: Kind,
    /// When we heard of it.
    pub(crate) at: Instant,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Started,
    Died,
    Removed,
}

/// The containers of one contestant.
#[derive(Debug, Default)]
pub(crate) struct Containers(BTreeMap<String, Container>);

#[derive(Debug)]
struct Container {
    version: u32,
    running: bool,
}

impl Containers {
    pub(crate) fn observe(&mut self, event: &ContainerEvent) {
        match event.kind {
            Kind::Started => {
                let fresh = Container { version: event.version, running: true };
                self.0.insert(event.id.clone(), fresh);
            }
            Kind::Died => {
                if let Some(container) = self.0.get_mut(&event.id) {
                    container.running = false;
                }
            }
            Kind::Removed => {
                self.0.remove(&event.id);
            }
        }
    }

    /// Exactly so many run, all of them in this version; for none, nothing stands there at all.
    pub(crate) fn is(&self, count: u32, version: u32) -> bool {
        if count == 0 {
            return self.0.is_empty();
        }
        let running = || self.0.values().filter(|container| container.running);
        running().count() == count as usize && running().all(|container| container.version == version)
    }

    /// One line about how far it is.
    pub(crate) fn shown(&self) -> String {
        let mut by_version: BTreeMap<u32, usize> = BTreeMap::new();
        for container in self.0.values().filter(|container| container.running) {
            *by_version.entry(container.version).or_default() += 1;
        }
        let running = by_version.iter().map(|(version, count)| format!("{count} of version {version}"));
        let running = running.collect::<Vec<_>>().join(", ");
        format!("{} containers, running: {}", self.0.len(), if running.is_empty() { "none" } else { &running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn containers(events: &[(&str, u32, Kind)]) -> Containers {
        let mut containers = Containers::default();
        for (id, version, kind) in events {
            let event = ContainerEvent { id: (*id).to_owned(), version: *version, kind: *kind, at: Instant::now() };
            containers.observe(&event);
        }
        containers
    }

    #[test]
    fn all_run_when_all_new_ones_run_and_no_old_one_does() {
        let first = [("a", 1, Kind::Started), ("b", 1, Kind::Started)];
        assert!(containers(&first).is(2, 1));
        let half = [first[0], first[1], ("a", 1, Kind::Died), ("c", 2, Kind::Started)];
        assert!(!containers(&half).is(2, 2) && !containers(&half).is(2, 1));
        let done = [half[0], half[1], half[2], half[3], ("b", 1, Kind::Died), ("d", 2, Kind::Started)];
        assert!(containers(&done).is(2, 2), "{}", containers(&done).shown());
    }

    #[test]
    fn a_container_that_died_counts_again_when_it_is_started_again() {
        let died = [("a", 1, Kind::Started), ("a", 1, Kind::Died)];
        assert!(!containers(&died).is(1, 1));
        assert!(containers(&[died[0], died[1], ("a", 1, Kind::Started)]).is(1, 1));
    }

    #[test]
    fn away_means_removed_and_not_only_ended() {
        let ended = [("a", 1, Kind::Started), ("a", 1, Kind::Died)];
        assert!(!containers(&ended).is(0, 1));
        assert!(containers(&[ended[0], ended[1], ("a", 1, Kind::Removed)]).is(0, 1));
        assert_eq!(containers(&ended).shown(), "1 containers, running: none");
    }
}
