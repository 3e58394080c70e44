//! Says from when on the time of a decision counts: from when it is stored, because nobody hears of it earlier.

use contract::record::Slot;
use contract::time::Timestamp;

use super::Planning;

/// The decisions on a slot's pods that time is counted from, by when they were made.
pub fn decided(slot: &Slot) -> impl Iterator<Item = Timestamp> {
    let pods = std::iter::once(slot).chain(slot.next.as_deref());
    let times = pods.flat_map(|pod| [Some(pod.since), pod.draining.as_ref().map(|draining| draining.since)]);
    times.flatten().filter(|at| at.happened())
}

impl Planning<'_> {
    /// Since when an instance that was turned to is waited for. While that is not stored its node cannot know of it: all of
    /// its time is still before it.
    pub(super) fn waited_since(&self, index: usize) -> Timestamp {
        let since = self.plan.slots[index].since;
        if !since.happened() {
            return since;
        }
        self.facts.committed.get(&since).map_or(self.now, |stored| since.max(*stored))
    }
}
