//! `/api/nodes/{name}` (ours): everything about one node, and what operators may change about it.
//!
//! Unlike the original's parameters these have no lenient defaults: one answer names every flaw, because draining or removing
//! the wrong node cannot be undone.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use contract::command::{Refusal, Verb};
use contract::name::NodeName;
use contract::node::NodeChange;
use contract::query::{Answer, Query};
use contract::validate::Flaw;

use super::respond::{self, HttpResult, Refused, shown};
use super::router::HttpMethod;
use super::writes::{self, Promise};
use super::{Api, Call, visible};
use crate::{queries, view};

const COMMANDS: &str = "cordon, uncordon, drain, label or approve";
/// Parameters of any command.
const TAKEN: [&str; 2] = ["why", "force"];

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    let name = named(call)?;
    let (change, message) = match call.method {
        HttpMethod::Get => return get(api, call, name).await,
        HttpMethod::Patch => patch(call)?,
        HttpMethod::Delete => (removal(call)?, "Node will be removed when nothing is placed there."),
        HttpMethod::Post | HttpMethod::Put => return Err(Refused::unsupported(call.method.word())),
    };
    change.validate().map_err(|flaws| flawed(&flaws))?;
    let promise = Promise { check_url: format!("/api/nodes/{name}"), message };
    writes::change(api, call, Verb::Node { node: name, change }, promise).await
}

async fn get(api: &Api, call: &Call, name: NodeName) -> HttpResult {
    let reply = api.queries.ask(&Query::Node { name: name.clone() }).await?;
    let Answer::Node(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let mut page = found.ok_or_else(|| writes::refused(&Refusal::NodeUnknown { node: name }).stale(reply.stale))?;
    let visible = visible::groups(api, &call.client).await?;
    page.pods.retain(|pod| visible.contains(pod.pod.group.as_str()));
    Ok(respond::stale(respond::json(StatusCode::OK, &view::node_status(*page)), reply.stale))
}

/// The change and the answer's message.
fn patch(call: &Call) -> Result<(NodeChange, &'static str), Refused> {
    let command = call.params.text("cmd").unwrap_or_default();
    let taken: &[&str] = match command {
        "cordon" => &["why"],
        "drain" => &["why", "force"],
        "uncordon" | "label" | "approve" => &[],
        other => {
            let problem = format!("should be {COMMANDS} but {:?}", shown(other));
            return Err(flawed(&[Flaw { field: "cmd".to_owned(), problem }]));
        }
    };
    let mut flaws = unused(call, taken, &format!("cmd={command}"));
    let why = call.params.text("why").unwrap_or_default().to_owned();
    let force = force(call, &mut flaws);
    let read = match command {
        "cordon" => (NodeChange::Cordon { why }, "Node will get nothing new."),
        "drain" => (NodeChange::Drain { why, force }, "Node will get nothing new and what runs there will move."),
        "label" => (NodeChange::Label { labels: labels(call, &mut flaws) }, "Labels of the node will change."),
        "approve" => (NodeChange::Approve, "Node is accepted and will get orders."),
        _ => (NodeChange::Uncordon, "Node may get new work again."),
    };
    // Checked as well, so that one answer names every flaw.
    let is_read = flaws.iter().all(|flaw| flaw.field != "body");
    flaws.extend(read.0.validate().err().filter(|_| is_read).unwrap_or_default());
    if flaws.is_empty() { Ok(read) } else { Err(flawed(&flaws)) }
}

fn removal(call: &Call) -> Result<NodeChange, Refused> {
    let mut flaws = unused(call, &["force"], "DELETE");
    let force = force(call, &mut flaws);
    if flaws.is_empty() { Ok(NodeChange::Remove { force }) } else { Err(flawed(&flaws)) }
}

/// The body: an object of labels; null removes a label.
fn labels(call: &Call, flaws: &mut Vec<Flaw>) -> BTreeMap<String, Option<String>> {
    serde_json::from_slice(&call.body).unwrap_or_else(|error| {
        let problem = format!("should be JSON such as {{\"rack\": \"3\", \"old\": null}}: {error}");
        flaws.push(Flaw { field: "body".to_owned(), problem });
        BTreeMap::new()
    })
}

fn force(call: &Call, flaws: &mut Vec<Flaw>) -> bool {
    match call.params.text("force").unwrap_or("false") {
        "true" => true,
        "false" => false,
        other => {
            let problem = format!("should be true or false but {:?}", shown(other));
            flaws.push(Flaw { field: "force".to_owned(), problem });
            false
        }
    }
}

fn unused(call: &Call, taken: &[&str], with: &str) -> Vec<Flaw> {
    let unused = TAKEN.into_iter().filter(|name| !taken.contains(name) && call.params.text(name).is_some());
    let problem = format!("it has no meaning with {with}; leave it out");
    unused.map(|name| Flaw { field: name.to_owned(), problem: problem.clone() }).collect()
}

fn named(call: &Call) -> Result<NodeName, Refused> {
    let bad = |error: contract::name::Error| Flaw { field: "name".to_owned(), problem: error.to_string() };
    call.rest.parse().map_err(|error| flawed(&[bad(error)]))
}

fn flawed(flaws: &[Flaw]) -> Refused {
    Refused::flawed("Bad parameters for a node", flaws)
}
