//! Messages and records about workload policies.

use std::collections::BTreeSet;

use contract::command::{Refusal, Verb};
use contract::order::OrderMessage;
use contract::policy::{HostBind, Level, NamespacePolicy, Policy, Quota};
use contract::query::{Answer, Query};

use crate::golden::check;
use crate::samples;

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A policy in which no field has its default value.
fn policy() -> Policy {
    Policy {
        level: Level::Restricted,
        host_binds: vec![HostBind { path: "/srv/models".to_owned(), read_only: true }],
        networks: set(&["metrics"]),
        log_drivers: set(&["syslog"]),
        capabilities: set(&["NET_RAW"]),
        labels: set(&["traefik."]),
        images: set(&["registry.example/*"]),
        users: set(&["app"]),
        devices: set(&["/dev/fuse"]),
        quota: Quota { groups: Some(20), instances: Some(200), containers: Some(4) },
    }
}

#[test]
fn policies_on_the_wire_and_in_the_store() {
    let namespace = || "hello".to_owned();
    let verb = Verb::SetPolicy { namespace: namespace(), policy: Box::new(policy()) };
    check("command-set-policy", &samples::command(verb));
    check("command-remove-policy", &samples::command(Verb::RemovePolicy { namespace: namespace() }));
    let forbidden =
        Refusal::Forbidden { namespace: namespace(), level: Level::Baseline, reason: "Pod.Network …".to_owned() };
    for (name, refusal) in [("policy-unknown", Refusal::PolicyUnknown), ("forbidden", forbidden)] {
        check(&format!("outcome-{name}"), &samples::outcome(contract::command::Decision::Refused(refusal)));
    }
    check("query-policies", &Query::Policies);
    let row = NamespacePolicy { namespace: "*".to_owned(), policy: Policy::default() };
    check(
        "answer-policies",
        &Answer::Policies(vec![row, NamespacePolicy { namespace: namespace(), policy: policy() }]),
    );
    check("record-policy", &policy());
    let hardened = |message: OrderMessage| message.hardened(|_| policy().hardening());
    let (before, after) = samples::orders();
    check("order-hardened", &hardened(OrderMessage::Whole(after.clone())));
    check("order-hardened-delta", &hardened(OrderMessage::Delta(after.since(&before))));
}

#[test]
fn hardening_follows_the_pods_of_a_delta() {
    let (before, after) = samples::orders();
    let hardened = |message: OrderMessage| message.hardened(|_| policy().hardening());
    let OrderMessage::Whole(before) = hardened(OrderMessage::Whole(before)) else { unreachable!("whole stays whole") };
    let OrderMessage::Delta(delta) = OrderMessage::Delta(after.since(&before)).hardened(|_| None) else {
        unreachable!("a delta stays a delta")
    };
    let next = before.changed_by(before.digest(), &delta).expect("it fits");
    assert!(!before.hardening.is_empty() && next.hardening.is_empty(), "the namespace became trusted");
}
