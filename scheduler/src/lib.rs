//! The scheduler: one leader turns commands and reports into placements and orders.

pub mod core;
