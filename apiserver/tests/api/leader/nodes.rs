//! Nodes of the fake leader: `heard` cannot be removed, `absent` is unknown.

use contract::command::Refusal;
use contract::name::NodeName;
use contract::node::{Cordon, DuplicateAgent, NodeChange, NodePage, NodePod};
use contract::query::NodeView;
use contract::state::{HealthState, RunState};
use contract::time::Timestamp;

pub(super) fn decision(node: &NodeName, change: &NodeChange) -> Result<(), Refusal> {
    match (node.as_str(), change) {
        ("absent", _) => Err(Refusal::NodeUnknown { node: node.clone() }),
        ("heard", NodeChange::Remove { .. }) => Err(Refusal::NodeBusy {
            reason: "heard reported 1.0 s ago: stop its agent, then retry after 15.0 s".to_owned(),
        }),
        _ => Ok(()),
    }
}

pub(super) fn page(view: NodeView) -> Option<Box<NodePage>> {
    if view.name.as_str() == "absent" {
        return None;
    }
    let cordon =
        Cordon { by: "alice".to_owned(), at: Timestamp::from_millis(1_700_000_000_000), why: "disk".to_owned() };
    let pod = NodePod {
        pod: "hello.web.web.v0-i2-d1".parse().unwrap(),
        state: RunState::Success,
        health: HealthState::Healthy,
        bound: true,
        leaving: false,
        why: String::new(),
    };
    Some(Box::new(NodePage {
        node: NodeView { cordon: Some(cordon), instances: 1, ..view },
        said: [("rack".to_owned(), Some("3".to_owned())), ("old".to_owned(), None)].into(),
        identity: "01JCK0".to_owned(),
        heard_at: Some(Timestamp::from_millis(1_700_000_001_000)),
        removing: false,
        pods: vec![pod],
        duplicate_agent: Some(DuplicateAgent {
            identity: "01JCK1".to_owned(),
            address: "10.0.0.9".to_owned(),
            at: Timestamp::NEVER,
        }),
    }))
}
