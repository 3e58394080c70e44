//! What the processes send each other and people: commands, queries, orders, reports, events, notices.

pub mod backup;
pub mod command;
pub mod compact;
pub mod delta;
pub mod digest;
pub mod event;
pub mod fence;
pub mod history;
pub mod notice;
pub mod order;
pub mod query;
pub mod report;
pub mod session;
