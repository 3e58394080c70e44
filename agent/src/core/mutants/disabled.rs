//! The functions of `enabled` without any fault, for the shipped programs.

use contract::order::{Order, OrderDelta};
use contract::pod_id::InstanceKey;

use super::Mutant;
use crate::core::io::Ledger;

/// No fault.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults(());

impl Faults {
    #[inline(always)]
    pub(in crate::core) const fn has(self, _mutant: Mutant) -> bool {
        false
    }

    pub(in crate::core) fn panic_on(self, _key: &InstanceKey) {}

    pub(in crate::core) fn misapplied(self, _order: &Order, _delta: &OrderDelta) -> Option<Order> {
        None
    }

    pub(in crate::core) fn forget_restarts(self, _ledger: &mut Ledger) {}
}
