//! The contract between deployd's processes, and between versions of one process: every type that is sent or stored.
//!
//! Pure data: this crate reads no clock, does no I/O and decides nothing. Field docs give meaning, unit, default and
//! range. Golden files in `golden/` pin the JSON of every message and record; `docs/wire.md` has the rules for changes.
//!
//! Modules are used by their own name (`contract::order`); the folders only group them:
//!
//! | folder | holds |
//! |---|---|
//! | [`access`] | roles, bindings, tokens and the audit log |
//! | `desired` | desired state, as users write it: [`spec`], [`check`], [`rollout`], [`ports`], [`dependency`], [`switches`], [`node`], [`policy`] |
//! | `input` | checks and merges of user input: [`validate`], [`ranges`], [`strict`], [`lenient_json`], [`duplicate_fields`], [`patch`], [`rollout_fields`], [`callback_url`], [`callback_address`] |
//! | `http` | bodies of the HTTP API: [`api`], [`node_view`], [`rollout_view`], [`docker_inspect`], [`exit`], [`logs`], [`state`] |
//! | `messages` | apiserver to scheduler: [`command`], [`query`], [`backup`]; apiserver to agent: [`session`]; scheduler to agent and back: [`order`], [`report`], [`fence`], [`delta`], [`compact`], [`digest`]; scheduler to people: [`event`], [`notice`], [`history`] |
//! | `stored` | records in etcd: [`record`], [`layout`], [`keys`], [`store`], [`progress`] |
//! | `basics` | names and times: [`name`], [`pod_id`], [`time`], [`backoff`]; NATS and Docker names: [`bus`], [`subjects`], [`streams`], [`labels`], [`wire`] |

#![deny(missing_docs)]

pub mod access;
mod basics;
mod desired;
mod http;
mod input;
mod messages;
mod stored;

pub use basics::{backoff, bus, labels, name, pod_id, streams, subjects, time, wire};
pub use desired::{check, dependency, node, policy, ports, rollout, spec, switches};
pub use http::{api, docker_inspect, exit, logs, node_view, rollout_view, state};
pub use input::{
    callback_address, callback_url, duplicate_fields, lenient_json, patch, ranges, rollout_fields, strict, validate,
};
pub use messages::{
    backup, command, compact, delta, digest, event, fence, history, notice, order, query, report, session,
};
pub use stored::{keys, layout, progress, record, store};
pub use wire::WIRE_VERSION;
