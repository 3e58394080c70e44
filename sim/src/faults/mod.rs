//! What can go wrong in a history: the kinds of faults, and what each of them does to the world.
//!
//! [`crate::scenario`] decides which faults a history has, and when.

mod kinds;
mod nodes;
mod processes;
mod servers;

pub use kinds::*;
