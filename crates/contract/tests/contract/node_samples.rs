//! One value of every message about nodes; together they contain every optional field.

use std::collections::BTreeMap;

use contract::api;
use contract::command::{Decision, Refusal, Verb};
use contract::digest::Digest;
use contract::node::{Cordon, DuplicateAgent, NodeChange, NodeIntent, NodePage, NodePod, Presence};
use contract::node_view::{NodeStatus, PodOnNode};
use contract::query::{Answer, Liveness, NodeView, Query};
use contract::record::NodeRecord;
use contract::report::{EngineState, Heartbeat, ReportMessage, Stamp};
use contract::state::{HealthState, RunState};

use crate::samples::{self, at, name, pod};

fn text(text: &str) -> String {
    text.to_owned()
}

fn labels() -> BTreeMap<String, Option<String>> {
    BTreeMap::from([(text("rack"), Some(text("3"))), (text("zone"), None)])
}

fn cordon() -> Cordon {
    Cordon { by: text("alice@laptop"), at: at(9), why: text("disk swap") }
}

fn duplicate_agent() -> DuplicateAgent {
    DuplicateAgent { identity: text("01JCK1"), address: text("10.0.0.9"), at: at(11) }
}

pub(crate) fn verbs() -> Vec<(&'static str, Verb)> {
    let change = |change| Verb::Node { node: name("node1"), change };
    vec![
        ("node-cordon", change(NodeChange::Cordon { why: text("disk swap") })),
        ("node-uncordon", change(NodeChange::Uncordon)),
        ("node-drain", change(NodeChange::Drain { why: text("disk swap"), force: true })),
        ("node-label", change(NodeChange::Label { labels: labels() })),
        ("node-approve", change(NodeChange::Approve)),
        ("node-remove", change(NodeChange::Remove { force: true })),
    ]
}

pub(crate) fn decisions() -> Vec<(&'static str, Decision)> {
    let busy = Refusal::NodeBusy { reason: text("node1 is heard; stop its agent first") };
    vec![
        ("node-unknown", Decision::Refused(Refusal::NodeUnknown { node: name("node9") })),
        ("node-busy", Decision::Refused(busy)),
    ]
}

pub(crate) fn heartbeat() -> ReportMessage {
    let stamp = Stamp { node: name("node1"), incarnation: text("01JCN5"), sequence: 8, identity: "01JCK0".into() };
    ReportMessage::Heartbeat(Heartbeat { stamp, digest: Digest::default() })
}

pub(crate) fn queries() -> Vec<(&'static str, Query)> {
    vec![("node", Query::Node { name: name("node1") })]
}

pub(crate) fn answers() -> Vec<(&'static str, Answer)> {
    let node = NodeView {
        name: name("node1"),
        liveness: Liveness::Suspect,
        engine: EngineState::Up,
        facts: samples::node_record().facts,
        used_cpu_millis: 500,
        used_memory: 33_554_432,
        containers: 2,
        instances: 1,
        cordon: Some(cordon()),
        pending: false,
    };
    let instance = NodePod {
        pod: pod("hello.web.web.v0-i1-d0"),
        state: RunState::Success,
        health: HealthState::Healthy,
        bound: true,
        leaving: true,
        why: text("instance 1 stays"),
    };
    let page = NodePage {
        node,
        said: labels(),
        identity: text("01JCK0"),
        heard_at: Some(at(10)),
        removing: true,
        pods: vec![instance],
        duplicate_agent: Some(duplicate_agent()),
    };
    vec![("node", Answer::Node(Some(Box::new(page)))), ("node-none", Answer::Node(None))]
}

pub(crate) fn record() -> NodeRecord {
    NodeRecord { identity: text("01JCK0"), ..samples::node_record() }
}

/// A node whose Docker engine does not answer, which the scheduler has reported.
pub(crate) fn engine_reported() -> NodeRecord {
    NodeRecord { engine_reported_at: at(10), ..record() }
}

pub(crate) fn intent() -> NodeIntent {
    NodeIntent { cordon: Some(cordon()), labels: labels(), removing: true, approved: true, revoked: true }
}

pub(crate) fn presence() -> Presence {
    Presence {
        identity: text("01JCK0"),
        incarnation: text("01JCN5"),
        host: text("machine-7"),
        address: text("10.0.0.7"),
        since: at(3),
        settled: true,
    }
}

pub(crate) fn status() -> NodeStatus {
    let instance = PodOnNode {
        name: text("hello.web.web.v0-i1-d0"),
        pod_group: text("hello.web.web"),
        instance: 1,
        state: RunState::Success,
        health: HealthState::Healthy,
        bound: true,
        leaving: false,
        why: String::new(),
    };
    NodeStatus {
        node: api::Node { cordon: Some(cordon()), ..samples::api_node() },
        ip: text("10.0.0.7"),
        identity: text("01JCK0"),
        heard_at: at(10),
        said_labels: labels(),
        removing: false,
        pods: vec![instance],
        duplicate_agent: Some(duplicate_agent()),
    }
}
