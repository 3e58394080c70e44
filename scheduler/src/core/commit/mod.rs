//! Commit: stores decisions, and holds back every effect of a decision until it is stored.
//!
//! [`outbox`] owns the queue of decisions and the one transaction in flight, [`staging`] splits a decision that is too large for
//! one transaction, [`specs`] notes which pod specs a decision stores or deletes, [`durability`] records when decisions were
//! committed, and [`unstorable`] gives up a decision that the store refuses.
//!
//! Example: a plan changes two placements. Its bundle waits in the outbox; the next transaction stores it together with others,
//! and only the answer `Stored` releases its events and order changes.

pub(in crate::core) mod durability;
mod finish;
pub(in crate::core) mod outbox;
pub(in crate::core) mod specs;
pub(in crate::core) mod staging;
mod unstorable;

pub(in crate::core) use self::outbox::*;
