//! The containers a step works on just now.
//!
//! The engine tells of what a step does while it does it, and the step looks at the container at its end anyhow: an event
//! within a step asks for no look of its own. The guard ends before the step's look begins, so that whatever happens from then on
//! is looked at.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ids of the containers that are worked on. A lane has one step at a time, so each is here once.
#[derive(Debug, Default)]
pub(super) struct Underway(Mutex<BTreeSet<String>>);

/// A container is worked on until this is dropped.
#[derive(Debug)]
pub(super) struct Work<'a> {
    underway: &'a Underway,
    id: &'a str,
}

impl Underway {
    /// A step begins to work on a container.
    pub(super) fn begin<'a>(&'a self, id: &'a str) -> Work<'a> {
        self.ids().insert(id.to_owned());
        Work { underway: self, id }
    }

    /// Whether a step will look at the container, or remove it.
    pub(super) fn has(&self, id: &str) -> bool {
        self.ids().contains(id)
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.underway.ids().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_worked_on_until_its_step_lets_go() {
        let underway = Underway::default();
        let (one, two) = (underway.begin("one"), underway.begin("two"));
        drop(one);
        assert_eq!((underway.has("one"), underway.has("two")), (false, true));
        drop(two);
        assert!(!underway.has("two"));
    }
}
