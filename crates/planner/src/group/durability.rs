//! Starts timers when a decision is committed, not when it is made: agents and users do not see it earlier, and a slow commit
//! could otherwise contain both a drain and the replacement that waits for it.

use contract::record::Instance;
use contract::time::Timestamp;

use super::Planning;

/// The times of the decisions on an instance's pods that timers start from.
pub fn decided(instance: &Instance) -> impl Iterator<Item = Timestamp> {
    let pods = std::iter::once(instance).chain(instance.next.as_deref());
    let times = pods.flat_map(|pod| [Some(pod.since), pod.draining.as_ref().map(|draining| draining.since)]);
    times.flatten().filter(|at| at.happened())
}

impl Planning<'_> {
    /// When the timer of an instance that was replaced, restarted or moved starts. A decision that is not committed yet
    /// counts from now: its node cannot know it.
    pub(super) fn waited_since(&self, index: usize) -> Timestamp {
        let since = self.plan.instances[index].since;
        if !since.happened() {
            return since;
        }
        self.facts.committed.get(&since).map_or(self.now, |stored| since.max(*stored))
    }
}
