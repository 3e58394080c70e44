//! What a client sees whose bindings do not reach every namespace.

use std::time::Duration;

use contract::event::{Event, Kind};
use contract::streams::EVENTS;
use contract::subjects;
use fabric::clock::Clock;
use serde_json::{Value, json};

use super::{Person, records, request};
use crate::leader::Leader;
use crate::world::{Seen, World};

async fn world() -> (World, Leader, [Person; 3]) {
    let people = [
        Person::new("root", &["admin"]),
        Person::new("alice", &["deployer@shop", "viewer@team-*"]),
        Person::new("reader", &["viewer"]),
    ];
    let world = World::guarded(&[]).await;
    let leader = Leader::enforcing(&world.bus, records(&people.each_ref()), &[]).await;
    for (namespace, name) in [
        ("bank", "a.x"),
        ("shop", "b.xy"),
        ("team-a", "c.xyz"),
        ("bank", "d.wxyz"),
        ("shop", "locked.e"),
        ("bank", "locked.fg"),
    ] {
        world.create(&people[0], namespace, name).await;
    }
    (world, leader, people)
}

fn names(seen: &Seen, list: &str) -> Vec<String> {
    let rows = seen.json()[list].as_array().unwrap_or_else(|| panic!("{}", seen.text)).clone();
    let name = |row: Value| row["Name"].as_str().or_else(|| row["Group"].as_str()).unwrap_or_default().to_owned();
    rows.into_iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_listed_in_full_pages_without_a_trace_of_other_namespaces() {
    let (world, _leader, [root, alice, reader]) = world().await;
    let page = async |person: &Person, query: &str| {
        let seen = world.read(person, &format!("/api/podgroups?{query}")).await;
        (names(&seen, "PodGroups"), seen.json()["Next"].as_str().unwrap().to_owned())
    };
    let all = ["a.x", "b.xy", "c.xyz", "d.wxyz", "locked.e", "locked.fg"].map(str::to_owned).to_vec();
    assert_eq!(page(&root, "all=true").await, (all.clone(), String::new()));
    assert_eq!(page(&reader, "all=true").await, (all, String::new()));
    let mine =
        |names: &[&str], next: &str| (names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), next.to_owned());
    assert_eq!(page(&alice, "all=true").await, mine(&["b.xy", "c.xyz", "locked.e"], ""));
    assert_eq!(page(&alice, "all=true&limit=2").await, mine(&["b.xy", "c.xyz"], "c.xyz"));
    assert_eq!(page(&alice, "all=true&limit=2&after=c.xyz").await, mine(&["locked.e"], ""));
    assert_eq!(page(&alice, "namespace=team-a").await, mine(&["c.xyz"], ""));
    assert_eq!(page(&alice, "namespace=bank").await, page(&alice, "namespace=none").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_other_namespaces_are_answered_like_objects_that_do_not_exist() {
    let (world, _leader, [_, alice, _]) = world().await;
    let paths = [
        "/api/podgroups?name=NAME",
        "/api/podgroups?name=NAME&force_update=true",
        "/api/rollouts?name=NAME",
        "/api/revisions?name=NAME",
        "/api/cntstatushistory?name=NAME&instance=1",
        "/api/depends?name=NAME",
        "/api/events?group=NAME",
        "/api/policies?namespace=bank",
    ];
    for path in paths {
        let foreign = world.read(&alice, &path.replace("NAME", "locked.fg")).await;
        let absent = world.read(&alice, &path.replace("NAME", "absent").replace("bank", "absent")).await;
        let text = foreign.text.replace("locked.fg", "absent");
        assert_eq!((foreign.status, text), (absent.status, absent.text), "{path}");
    }
    for (method, path) in [
        ("DELETE", "/api/podgroups?name=NAME"),
        ("PATCH", "/api/podgroups?name=NAME&cmd=replica&num_instances=1"),
        ("PATCH", "/api/podgroups?name=NAME&cmd=drained&instance=1"),
    ] {
        let foreign = world.send(&alice, method, &path.replace("NAME", "d.wxyz"), None).await;
        let absent = world.send(&alice, method, &path.replace("NAME", "absent"), None).await;
        assert_eq!((foreign.status, foreign.text), (absent.status, absent.text), "{method} {path}");
    }
    let plan = world.send(&alice, "POST", "/api/podgroups/plan", Some(&super::group("shop", "a.x"))).await;
    assert_eq!(
        (plan.status, plan.message()),
        (404, "PodGroup not existed".to_owned()),
        "of a group of another namespace"
    );
    let needing = |name: &str| {
        let mut spec: Value = serde_json::from_str(&super::group("shop", "shop.n")).unwrap();
        spec["Pod"]["Dependencies"] = json!([{"PodName": name}]);
        spec.to_string()
    };
    for name in ["locked.fg", "absent"] {
        let plan = world.send(&alice, "POST", "/api/podgroups/plan", Some(&needing(name))).await;
        let reason = format!("alice may not read the DependencyPod {name}, or there is none");
        assert!((plan.status, plan.message().contains(&reason)) == (403, true), "{} {}", plan.status, plan.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_policies_pods_of_nodes_and_quarantined_groups_are_filtered() {
    let (world, _leader, [root, alice, reader]) = world().await;
    for namespace in ["*", "bank", "shop"] {
        let path = format!("/api/policies?namespace={namespace}");
        assert_eq!(world.send(&root, "PUT", &path, Some(r#"{"Level":"restricted"}"#)).await.status, 202);
    }
    let column = |seen: &Seen, list: &str, field: &str| -> Vec<String> {
        let rows = seen.json().pointer(list).unwrap().as_array().unwrap().clone();
        rows.iter().map(|row| row[field].as_str().unwrap().to_owned()).collect()
    };
    let ports = async |person: &Person| column(&world.read(person, "/api/ports").await, "", "ProcName");
    assert_eq!(
        (ports(&alice).await, ports(&reader).await.len()),
        (["b.xy", "c.xyz", "locked.e"].map(str::to_owned).to_vec(), 6)
    );
    let policies = async |person: &Person| column(&world.read(person, "/api/policies").await, "", "Namespace");
    assert_eq!((policies(&alice).await, policies(&reader).await.len()), (["*", "shop"].map(str::to_owned).to_vec(), 3));
    let quarantined = async |person: &Person| column(&world.read(person, "/api/cluster").await, "/quarantined", "name");
    assert_eq!((quarantined(&alice).await, quarantined(&reader).await.len()), (vec!["locked.e".to_owned()], 2));
    let pods = async |person: &Person| column(&world.read(person, "/api/nodes/n1").await, "/Pods", "PodGroup");
    assert_eq!((pods(&alice).await.len(), pods(&reader).await.len()), (0, 1), "a pod of a group that is not hers");
    world.create(&root, "shop", "hello.web.web").await;
    assert_eq!(pods(&alice).await, ["hello.web.web"]);
}

async fn record(world: &World, group: Option<&str>) {
    record_in(world, group, None).await;
}

async fn record_in(world: &World, group: Option<&str>, namespace: Option<&str>) {
    let event = Event {
        at: Clock::start().now(),
        kind: Kind::Placed,
        group: group.map(|name| name.parse().unwrap()),
        namespace: namespace.map(str::to_owned),
        instance: 1,
        node: None,
        message: "placed".to_owned(),
        reasons: std::collections::BTreeMap::new(),
    };
    let id = ulid::Ulid::generate().to_string();
    world.bus.publish_durable(subjects::EVENTS, &id, &[], &event, Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_filtered_and_those_of_the_cluster_are_for_operators() {
    let (world, _leader, [root, alice, reader]) = world().await;
    world.bus.ensure_stream(&(&EVENTS).into()).await.unwrap();
    for group in [Some("a.x"), Some("b.xy"), None, Some("c.xyz"), Some("gone")] {
        record(&world, group).await;
    }
    let groups =
        async |person: &Person, query: &str| names(&world.read(person, &format!("/api/events{query}")).await, "Events");
    assert_eq!(groups(&root, "").await, ["a.x", "b.xy", "", "c.xyz", "gone"]);
    assert_eq!(groups(&reader, "").await, ["a.x", "b.xy", "c.xyz", "gone"]);
    assert_eq!(groups(&alice, "").await, ["b.xy", "c.xyz"], "a removed group has no namespace");
    assert_eq!(groups(&alice, "?limit=1&group=b.xy").await, ["b.xy"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_stay_with_the_namespace_in_which_they_happened() {
    let (world, _leader, [root, alice, reader]) = world().await;
    world.bus.ensure_stream(&(&EVENTS).into()).await.unwrap();
    // `b.xy` is a group of alice's namespace now, `a.x` is not; `gone` is removed.
    for (group, namespace) in [("b.xy", "bank"), ("a.x", "shop"), ("gone", "shop"), ("gone", ""), ("b.xy", "shop")] {
        record_in(&world, Some(group), Some(namespace)).await;
    }
    let groups = async |person: &Person| names(&world.read(person, "/api/events").await, "Events");
    assert_eq!(groups(&root).await, ["b.xy", "a.x", "gone", "gone", "b.xy"]);
    assert_eq!(groups(&reader).await, ["b.xy", "a.x", "gone", "gone", "b.xy"]);
    assert_eq!(groups(&alice).await, ["a.x", "gone", "b.xy"]);
}

/// The groups of events in a stream.
fn followed(text: &str) -> Vec<String> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|line| serde_json::from_str::<Value>(line).unwrap()["Group"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_new_groups_of_its_namespaces_until_its_token_is_revoked() {
    let (world, _leader, [root, alice, _]) = world().await;
    world.bus.ensure_stream(&(&EVENTS).into()).await.unwrap();
    record(&world, Some("a.x")).await;
    record(&world, Some("b.xy")).await;
    let follow = request(&world.client, "GET", world.at("/api/events?follow=true&limit=10"), None);
    let mut response = follow.header("Authorization", alice.header()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    world.create(&root, "shop", "later.one").await;
    for group in [Some("later.one"), Some("a.x"), None, Some("c.xyz")] {
        record(&world, group).await;
    }
    let mut text = String::new();
    while !text.contains("c.xyz") {
        text.push_str(&String::from_utf8_lossy(&response.chunk().await.unwrap().expect("more events")));
    }
    assert_eq!(followed(&text), ["b.xy", "later.one", "c.xyz"]);
    let path = format!("/api/tokens?id={}", alice.record.id);
    assert_eq!(world.send(&root, "DELETE", &path, None).await.status, 202);
    let rest = tokio::time::timeout(Duration::from_secs(5), response.text()).await.expect("the stream ends").unwrap();
    assert_eq!(followed(&rest), [""; 0]);
}
