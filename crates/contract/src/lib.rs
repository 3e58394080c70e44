//! The words of deployd: everything two processes, or two versions of one process, must agree on.
//!
//! Ids, specs, commands, orders, reports, notices, every NATS subject, every etcd key, every container
//! label and every HTTP body live here, and nothing else does: no clock, no runtime, no decision.

#![deny(missing_docs)]

pub mod api;
pub mod backoff;
pub mod backup;
pub mod command;
pub mod compact;
pub mod delta;
pub mod dependency;
pub mod digest;
pub mod docker_inspect;
pub mod duplicate_fields;
pub mod event;
pub mod exit;
pub mod fence;
pub mod history;
pub mod keys;
pub mod labels;
pub mod layout;
pub mod lenient_json;
pub mod name;
pub mod node;
pub mod node_view;
pub mod notice;
pub mod order;
pub mod patch;
pub mod pod_id;
pub mod ports;
pub mod progress;
pub mod query;
pub mod ranges;
pub mod record;
pub mod report;
pub mod rollout;
pub mod rollout_fields;
pub mod rollout_view;
pub mod spec;
pub mod state;
pub mod store;
pub mod streams;
pub mod strict;
pub mod subjects;
pub mod switches;
pub mod time;
pub mod validate;
pub mod wire;

pub use wire::WIRE_VERSION;
