//! Which test shows which of the 24 acceptance scenarios of the original API, and what these tests share.
//!
//! | S | shown by |
//! |---|---|
//! | 1 | `apiserver/tests/api/contract` |
//! | 2 | `apiserver/tests/api/contract`; `switches::a_read_only_cluster_…`. Maintenance is stored here, on purpose (Q-25) |
//! | 3 | `shapes::a_group_as_console_posts_it_…` |
//! | 4, 5 | `table`, `locks` |
//! | 6 | `operations::a_group_is_deployed_scaled_…`, `locks`, `acts::a_scale_down_is_graceful_only` |
//! | 7, 8 | `upgrades::an_upgrade_goes_instance_by_instance_…`, `upgrades::a_release_that_fits_nowhere_…` |
//! | 9 | `upgrades::a_bad_first_instance_is_rolled_back_…` |
//! | 10 | `acts::instances_are_stopped_started_and_restarted_…` |
//! | 11 | `healing`, `notices` (the OOM text) |
//! | 12 | `healing`, `switches::a_sleeping_guard_…`, `repair::an_instance_with_data_…` |
//! | 13 | `repair::what_cannot_be_created_or_started_…` |
//! | 14 | `moves::a_drift_…`, `moves::an_evacuated_node_…` |
//! | 15 | `dependencies`; as console reads it: `shapes` |
//! | 16 | `ports::a_port_has_one_owner_…`, `upgrades::changed_stream_ports_…` |
//! | 17 | `acts::the_history_keeps_the_last_twenty_…` |
//! | 18 | `moves::constraints_hold_in_all_four_forms` |
//! | 19 | `notices`: all texts, with exactly their members |
//! | 20 | does not apply: the etcd layout is our own |
//! | 21 | `failover`; 503 without a leader and a bus: `apiserver/tests/api/outage.rs` |
//! | 22 | `notices::too_many_silent_nodes_…`, `repair::one_node_that_goes_three_times_…` |
//! | 23 | `repair::an_older_copy_is_removed_…`, `operations` (foreign containers) |
//! | 24 | `switches::a_stopped_engine_…`, `switches` (survive failover); agents' event streams: `agent/tests` |

use std::time::Duration;

use contract::api::PodGroupWithSpec;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, demo_group, eventually};
use crate::docker::Workload;

pub(super) const SOON: Duration = Duration::from_secs(60);
/// Waits of the original that are settings here, made short.
pub(super) const QUICK: [(&str, &str); 3] =
    [("DEPLOYD_HEALTH_POLL", "1s"), ("DEPLOYD_EARLY_EXIT", "2s"), ("DEPLOYD_DEPENDENCY_GRACE", "3s")];
/// What an operation of `cmd` is called in a path.
pub(super) fn patch(name: &str, more: &str) -> String {
    format!("/api/podgroups?name={name}&cmd={more}")
}

/// The pod of a demo group, changed.
pub(super) fn pod_with(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = demo_group(name, 0)["Pod"].take();
    change(&mut pod);
    pod
}

/// A demo group, changed.
pub(super) fn group_with(name: &str, count: u32, change: impl FnOnce(&mut Value)) -> Value {
    let mut group = demo_group(name, count);
    change(&mut group["Pod"]);
    group
}

/// A group that runs, and its containers.
pub(super) async fn deployed(cluster: &Cluster, group: &Value) -> Vec<Workload> {
    let name = group["Name"].as_str().expect("a name");
    let count = u32::try_from(group["NumInstances"].as_u64().expect("a number")).expect("few");
    cluster.accepted(Method::POST, "/api/podgroups", Some(group)).await;
    cluster.running(name, count as usize, SOON).await;
    let all = cluster.exactly(name, count, SOON).await;
    unlocked(cluster, name).await;
    all
}

/// Waits until no operation holds the group.
pub(super) async fn unlocked(cluster: &Cluster, name: &str) {
    let namespace = name.split('.').next().expect("a first part");
    let path = format!("/api/podgroups?namespace={namespace}&limit=1000");
    eventually(SOON, &format!("no operation holds {name}"), async || {
        let (_, text) = cluster.call(0, Method::GET, &path, None).await;
        let list: Value = serde_json::from_str(&text).expect("JSON");
        let line = list["PodGroups"].as_array()?.iter().find(|line| line["Name"] == name)?.clone();
        (line["Operation"] == "").then_some(())
    })
    .await;
}

/// The names of all containers of a group, in order.
pub(super) async fn names(cluster: &Cluster, group: &str) -> Vec<String> {
    let mut names: Vec<String> =
        cluster.engine.of_group(cluster.id(), group).await.into_iter().map(|container| container.name).collect();
    names.sort();
    names
}

/// Waits until the group is what `wanted` says.
pub(super) async fn becomes(
    cluster: &Cluster,
    name: &str,
    what: &str,
    wanted: impl Fn(&PodGroupWithSpec) -> bool,
) -> PodGroupWithSpec {
    let mut last = String::new();
    let found = tokio::time::timeout(SOON, async {
        let mut pause = tokio::time::interval(Duration::from_millis(50));
        loop {
            pause.tick().await;
            if let Some(group) = cluster.group(1, name).await {
                if wanted(&group) {
                    return group;
                }
                last = serde_json::to_string_pretty(&summary(&group)).expect("JSON");
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("{name} never: {what}\n{last}"))
}

/// What a reader of a failure wants to know of a group.
fn summary(group: &PodGroupWithSpec) -> Value {
    let pods = group.pods.iter().map(|pod| {
        json!({
            "instance": pod.instance_no, "state": pod.state, "target": pod.target_state, "drift": pod.drift_count,
            "restarts": pod.restart_count, "error": pod.last_error, "name": pod.containers[0].runtime.name,
            "node": pod.containers[0].node_name,
        })
    });
    let pods: Vec<Value> = pods.collect();
    json!({"version": group.spec.version, "state": group.state, "error": group.last_error, "pods": pods})
}
