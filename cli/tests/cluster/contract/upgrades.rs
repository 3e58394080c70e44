//! S7, S8, S9, S16: new specs: updated one instance after the other, refused for lack of resources, rolled back, with other ports.

use reqwest::Method;
use serde_json::{Value, json};

use super::docker::Hands;
use super::scenarios::{QUICK, SOON, becomes, deployed, group_with, names, patch, pod_with, unlocked};
use crate::cluster::{Cluster, demo_group, eventually};
use crate::notices::{about, events, registered};
use crate::receiver::{Manner, Post};

const MORE_MEMORY: i64 = 32 << 20;

fn with_memory(name: &str, memory: i64) -> Value {
    pod_with(name, |pod| pod["Containers"][0]["MemoryLimit"] = memory.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_replace_one_instance_at_a_time_and_move_stream_ports() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    tokio::join!(
        an_upgrade_goes_instance_by_instance_and_a_second_one_takes_over(&cluster),
        changed_stream_ports_are_all_rewritten_and_a_conflict_leaves_the_group_as_it_was(&cluster),
    );
}

/// Five groups at the same time; each failure message names its group.
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_fails_is_rolled_back_and_proven_instances_are_not_touched() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    tokio::join!(
        a_bad_first_instance_is_rolled_back_and_reported_and_the_others_are_not_touched(&cluster),
        a_release_whose_only_instance_crashes_is_rolled_back_too(&cluster),
        a_single_unhealthy_instance_is_upgraded_and_unlocked_immediately(&cluster),
        a_version_that_exits_early_is_rolled_back_before_a_second_instance_is_replaced(&cluster),
        an_image_that_cannot_be_pulled_is_rolled_back_and_touches_no_container(&cluster),
    );
}

/// S7.
async fn an_upgrade_goes_instance_by_instance_and_a_second_one_takes_over(cluster: &Cluster) {
    let name = "seven.web.web";
    let slow = |pod: &mut Value| pod["SetupTime"] = 2.into();
    deployed(cluster, &group_with(name, 3, slow)).await;
    let mut first = with_memory(name, MORE_MEMORY);
    slow(&mut first);
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&first)).await;
    eventually(SOON, "seven.web.web: instance 1 is upgraded", async || {
        is_one_at_a_time(cluster, name).await.contains(&1).then_some(())
    })
    .await;
    for (method, path) in [
        (Method::PATCH, patch(name, "replica&num_instances=1")),
        (Method::PATCH, patch(name, "operation&optype=stop")),
        (Method::DELETE, format!("/api/podgroups?name={name}")),
    ] {
        let (status, body) = cluster.call(1, method, &path, None).await;
        assert_eq!(status, 423, "{path}: {body}");
        assert!(body.contains("Another operation \\\"Upgrading\\\" is progressing"), "{body}");
    }
    let mut second = with_memory(name, 0);
    second["Labels"] = json!({"round": "two"});
    slow(&mut second);
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&second)).await;
    eventually(SOON, "seven.web.web: all are of the second release", async || {
        (is_one_at_a_time(cluster, name).await == [2, 2, 2]).then_some(())
    })
    .await;
    unlocked(cluster, name).await;
    let group = cluster.running(name, 3, SOON).await;
    assert_eq!((group.spec.version, group.spec.pod.version, group.last_error.as_str()), (2, 2, ""));
    assert_eq!(group.spec.pod.labels["round"], "two");
    let all = cluster.exactly(name, 3, SOON).await;
    let names: Vec<&str> = all.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["seven.web.web.v2-i1-d0", "seven.web.web.v2-i2-d0", "seven.web.web.v2-i3-d0"]);
    // no memory in the patch means the memory of the spec before it, the one of the first release.
    assert_eq!(Hands::connect().memory(&all[0].id).await, Some(MORE_MEMORY));
}

/// The versions of instances 1, 2 and 3. Instances after the one that is being upgraded are never ahead of it, and at most one
/// is down at a time.
async fn is_one_at_a_time(cluster: &Cluster, name: &str) -> Vec<u32> {
    let all = cluster.engine.of_group(cluster.id(), name).await;
    let running: Vec<_> = all.iter().filter(|container| container.running).collect();
    assert!(running.len() >= 2, "more than one is down: {all:?}");
    let version = |name: &str| name.rsplit_once(".v")?.1.split_once('-')?.0.parse().ok();
    let mut versions: Vec<(u32, u32)> =
        running.iter().map(|container| (container.instance, version(&container.name).expect("a version"))).collect();
    versions.sort_unstable();
    let versions: Vec<u32> = versions.into_iter().map(|(_, version)| version).collect();
    assert!(versions.is_sorted_by(|earlier, later| earlier >= later), "not in order: {all:?}");
    versions
}

/// S8.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_fits_nowhere_is_accepted_and_changes_nothing_but_last_error() {
    let cluster = Cluster::start_with(&QUICK, &[]).await;
    let name = "eight.web.web";
    let before = deployed(&cluster, &demo_group(name, 2)).await;
    let (status, body) = cluster.call(0, Method::PATCH, &patch(name, "spec"), Some(&with_memory(name, 1 << 42))).await;
    assert_eq!(status, 202, "{body}");
    let why = "No resources available to scheduler container";
    let group = becomes(&cluster, name, "says why", |group| group.last_error == why).await;
    assert_eq!((group.spec.version, group.spec.pod.containers[0].memory_limit), (0, 16 << 20));
    assert_eq!(cluster.engine.of_group(cluster.id(), name).await, before, "nothing was touched");
    // it stands until the next operation, over the death of the leader too.
    cluster.lose_leader().await;
    assert_eq!(cluster.group(0, name).await.expect("the group").last_error, why);
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&with_memory(name, 0))).await;
    becomes(&cluster, name, "is upgraded", |group| group.spec.version == 1 && group.last_error.is_empty()).await;
    eventually(SOON, "both are upgraded", async || {
        (names(&cluster, name).await == ["eight.web.web.v1-i1-d0", "eight.web.web.v1-i2-d0"]).then_some(())
    })
    .await;
    let all = cluster.exactly(name, 2, SOON).await;
    assert_eq!(Hands::connect().memory(&all[1].id).await, Some(16 << 20), "0 keeps what was");
}

/// S9. The demo image has no shell, so every health check fails.
async fn a_bad_first_instance_is_rolled_back_and_reported_and_the_others_are_not_touched(cluster: &Cluster) {
    let receiver = registered(cluster, Manner::Takes).await;
    let name = "nine.web.web";
    let before = deployed(cluster, &demo_group(name, 2)).await;
    let bad = pod_with(name, |pod| pod["HealthConfig"] = json!({"cmd": "check", "options": {}}));
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&bad)).await;
    let text = "LAIN found Last version:1 upgrade is terrrible, please check your code carefully!!";
    about(&receiver, name, 1, text).await;
    assert_eq!(events(cluster, &format!("kind=rolledback&group={name}")).await.len(), 1);
    let why = "Your Last upgrade is terrrible, so we won't upgrade it, please check your code carefully!!";
    unlocked(cluster, name).await;
    let group = becomes(cluster, name, "runs the proven spec again", |group| {
        group.pods.iter().all(|pod| pod.containers[0].runtime.state.running) && group.spec.version == 2
    })
    .await;
    assert_eq!((group.last_error.as_str(), group.spec.pod.health_config.cmd.as_str()), (why, ""));
    // forwards, under a new revision; instances that still ran the proven one keep their containers.
    let after = cluster.exactly(name, 2, SOON).await;
    assert_eq!((after[0].name.as_str(), &after[1]), ("nine.web.web.v2-i1-d0", &before[1]));
    cluster.stays(why.to_owned(), async || cluster.group(0, name).await.expect("it").last_error).await;
    cluster.accepted(Method::PATCH, &patch(name, "replica&num_instances=1"), None).await;
    becomes(cluster, name, "the next operation clears it", |group| group.last_error.is_empty()).await;
    let unhealthy = "LAIN found pod Unhealthy, please check your service";
    let is_unhealthy = |post: &Post| post.body.contains(name) && post.body.contains(unhealthy);
    assert!(!receiver.posted().iter().any(is_unhealthy), "no unhealthy instance of {name} is left");
}

/// S9, Q-38: a single instance too, and one that does not stay up. Without a health check an instance is well when it has run
/// for its setup time, so it needs one.
async fn a_release_whose_only_instance_crashes_is_rolled_back_too(cluster: &Cluster) {
    let name = "lone.web.web";
    deployed(cluster, &demo_group(name, 1)).await;
    let crashing = pod_with(name, |pod| {
        pod["SetupTime"] = 2.into();
        pod["Containers"][0]["Env"] = json!(["DEMO_EXIT_AFTER_MS=50"]);
    });
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&crashing)).await;
    eventually(SOON, "lone.web.web: the proven spec runs under a new version", async || {
        (names(cluster, name).await == ["lone.web.web.v2-i1-d0"]).then_some(())
    })
    .await;
    unlocked(cluster, name).await;
    let group = becomes(cluster, name, "runs", |group| group.pods[0].containers[0].runtime.state.running).await;
    assert_eq!((group.spec.pod.containers[0].env.len(), group.last_error.is_empty()), (0, false));
    assert_eq!((group.spec.version, group.pods[0].restart_count), (2, 0));
}

/// An upgrade without a strategy: the lock ends with the last deploy. The demo image has no shell, so no instance is ever healthy.
async fn a_single_unhealthy_instance_is_upgraded_and_unlocked_immediately(cluster: &Cluster) {
    let name = "ill.web.web";
    let ill = |pod: &mut Value| {
        pod["SetupTime"] = 300.into();
        pod["HealthConfig"] = json!({"cmd": "check", "options": {}});
    };
    deployed(cluster, &group_with(name, 1, ill)).await;
    let mut next = with_memory(name, MORE_MEMORY);
    ill(&mut next);
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&next)).await;
    eventually(SOON, "ill.web.web is upgraded", async || {
        (names(cluster, name).await == ["ill.web.web.v1-i1-d0"]).then_some(())
    })
    .await;
    unlocked(cluster, name).await;
    cluster.accepted(Method::DELETE, &format!("/api/podgroups?name={name}"), None).await;
}

/// The Serial table: two early exits of the first instance roll the version back, and the others serve all the time.
async fn a_version_that_exits_early_is_rolled_back_before_a_second_instance_is_replaced(cluster: &Cluster) {
    let name = "early.web.web";
    let mut group = demo_group(name, 3);
    group["RestartPolicy"] = 1.into();
    let before = deployed(cluster, &group).await;
    let exiting = pod_with(name, |pod| {
        pod["Containers"][0]["Env"] = json!(["DEMO_EXIT_AFTER_MS=500", "DEMO_EXIT_CODE=3"]);
    });
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&exiting)).await;
    let group = becomes(cluster, name, "is rolled back", |group| group.spec.version == 2).await;
    assert!(group.last_error.contains("instance 1: it exited with code 3 within 2 s of its start"), "{group:?}");
    unlocked(cluster, name).await;
    let after = cluster.exactly(name, 3, SOON).await;
    assert_eq!((after[0].name.as_str(), &after[1..]), ("early.web.web.v2-i1-d0", &before[1..]));
}

/// R-26 for a group without a strategy: no registry answers there.
async fn an_image_that_cannot_be_pulled_is_rolled_back_and_touches_no_container(cluster: &Cluster) {
    let name = "pull.web.web";
    let before = deployed(cluster, &demo_group(name, 2)).await;
    let unknown = pod_with(name, |pod| pod["Containers"][0]["Image"] = "127.0.0.1:1/none:1".into());
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&unknown)).await;
    let group = eventually(SOON * 2, "pull.web.web is rolled back", async || {
        cluster.group(0, name).await.filter(|group| group.spec.version == 2)
    })
    .await;
    assert!(group.last_error.contains("instance 1: its image cannot be pulled"), "{}", group.last_error);
    unlocked(cluster, name).await;
    assert_eq!(cluster.engine.of_group(cluster.id(), name).await, before, "no container was touched");
}

fn with_ports(pod: &mut Value, ports: &[(u16, u16)]) {
    let port = |(srcport, dstport): &(u16, u16)| json!({"srcport": srcport, "dstport": dstport, "proto": "tcp"});
    pod["Annotation"] = json!({"ports": ports.iter().map(port).collect::<Vec<_>>()}).to_string().into();
}

/// S16.
async fn changed_stream_ports_are_all_rewritten_and_a_conflict_leaves_the_group_as_it_was(cluster: &Cluster) {
    let name = "stream.web.web";
    deployed(cluster, &group_with(name, 1, |pod| with_ports(pod, &[(9601, 80), (9602, 80), (9603, 80)]))).await;
    deployed(cluster, &group_with("other.web.web", 1, |pod| with_ports(pod, &[(9700, 80)]))).await;
    let owned = async || {
        let (_, text) = cluster.call(1, Method::GET, "/api/ports", None).await;
        let rows: Vec<Value> = serde_json::from_str(&text).expect("rows");
        let ours = rows.iter().filter(|row| row["ProcName"] == name);
        ours.map(|row| (row["srcport"].as_u64().unwrap_or(0), row["dstport"].as_u64().unwrap_or(0))).collect::<Vec<_>>()
    };
    // two change, one goes, one comes.
    let next = pod_with(name, |pod| with_ports(pod, &[(9601, 81), (9602, 82), (9604, 80)]));
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&next)).await;
    unlocked(cluster, name).await;
    // A rollback would need the port that goes, so it is kept until the version completes.
    eventually(SOON, "stream.web.web: the ports are those of the new version", async || {
        (owned().await == [(9601, 81), (9602, 82), (9604, 80)]).then_some(())
    })
    .await;
    let before = cluster.exactly(name, 1, SOON).await;
    let taken = pod_with(name, |pod| with_ports(pod, &[(9601, 81), (9700, 80)]));
    cluster.accepted(Method::PATCH, &patch(name, "spec"), Some(&taken)).await;
    let why = "Cannot start podgroup stream.web.web, some ports like [9700] were alerady in used!";
    let group = becomes(cluster, name, "says why", |group| group.last_error == why).await;
    assert_eq!((group.spec.version, owned().await.len()), (1, 3));
    assert_eq!(cluster.engine.of_group(cluster.id(), name).await, before);
    cluster.accepted(Method::DELETE, &format!("/api/podgroups?name={name}"), None).await;
    eventually(SOON, "the ports of stream.web.web are free", async || owned().await.is_empty().then_some(())).await;
}
