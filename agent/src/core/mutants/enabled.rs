//! The faults of the feature `mutants`. `disabled` has the same functions without effect.

use std::sync::Arc;

use contract::order::{Order, OrderDelta};
use contract::pod_id::InstanceKey;
use contract::time::Timestamp;

use super::Mutant;
use crate::core::io::Ledger;

/// The message of [`Mutant::PanicsOnPurpose`]. A program that contains it was built with the mutants.
pub const PANIC_MESSAGE: &str = "on purpose, by a mutant of the agent";

/// The mutant that is active, if any.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults(Option<Mutant>);

impl From<Option<Mutant>> for Faults {
    fn from(mutant: Option<Mutant>) -> Self {
        Self(mutant)
    }
}

impl Faults {
    pub fn of(mutant: Mutant) -> Self {
        Self(Some(mutant))
    }

    pub(in crate::core) fn has(self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }

    /// Panics on an instance whose group's name requests it.
    pub(in crate::core) fn panic_on(self, key: &InstanceKey) {
        let asked = self.has(Mutant::PanicsOnPurpose);
        assert!(!(asked && key.group.as_str().starts_with("panic")), "{PANIC_MESSAGE}");
    }

    /// The order with the changes of a delta that was computed for another order; `None` without [`Mutant::IgnoresDeltaBase`].
    pub(in crate::core) fn misapplied(self, order: &Order, delta: &OrderDelta) -> Option<Order> {
        if !self.has(Mutant::IgnoresDeltaBase) {
            return None;
        }
        let delta = delta.clone();
        let mut order = Order { fence: delta.fence, ..order.clone() };
        delta.pods.apply(&mut order.pods);
        delta.specs.apply(&mut order.specs);
        Some(Order { spared: delta.spared, switches: delta.switches, ..order })
    }

    /// Removes the restarts that were done from what is stored.
    pub(in crate::core) fn forget_restarts(self, ledger: &mut Ledger) {
        if !self.has(Mutant::ForgetsRestarts) {
            return;
        }
        for memory in Arc::make_mut(&mut ledger.memory).values_mut().filter(|memory| memory.asked_at.happened()) {
            (memory.restarts_done, memory.renewed) = Default::default();
            memory.asked_at = Timestamp::from_millis(i64::MAX);
        }
    }
}
