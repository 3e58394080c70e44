//! The contract between deployd's processes, and between versions of one process: every type that is sent or stored.
//!
//! Pure data: this crate reads no clock, does no I/O and decides nothing. Field docs give meaning, unit, default and
//! range. Golden files in `golden/` pin the JSON of every message and record; `docs/wire.md` has the rules for changes.
//!
//! | theme | modules |
//! |---|---|
//! | desired state, as users write it | [`spec`], [`rollout`], [`ports`], [`dependency`], [`switches`], [`node`] |
//! | checking and merging user input | [`validate`], [`ranges`], [`strict`], [`lenient_json`], [`duplicate_fields`], [`patch`], [`rollout_fields`] |
//! | bodies of the HTTP API | [`api`], [`node_view`], [`rollout_view`], [`docker_inspect`], [`exit`], [`state`] |
//! | apiserver to scheduler | [`command`], [`query`], [`backup`] |
//! | scheduler to agent and back | [`order`], [`report`], [`fence`], [`delta`], [`compact`], [`digest`] |
//! | scheduler to people | [`event`], [`notice`], [`history`] |
//! | records in etcd | [`record`], [`layout`], [`keys`], [`store`], [`progress`] |
//! | NATS and Docker names | [`subjects`], [`streams`], [`labels`], [`wire`] |
//! | basic types | [`name`], [`pod_id`], [`time`], [`backoff`] |

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
