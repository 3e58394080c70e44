//! Policies on the real engine: restrained containers, volumes with links, foreign networks, and the file of a node.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::container::{Plan, plan};
use agent::core::io::Phase;
use agent::docker::Engine;
use agent::fault::Error;
use agent::policy::NodePolicy;
use contract::policy::{BASELINE_CAPABILITIES, Hardening, Level};
use contract::spec::PodSpec;
use contract::state::RunState;
use serde_json::json;

use super::docker::{Cluster, in_cluster};
use super::node::{Node, order, runs, words, world};

const GRACE: Duration = Duration::from_secs(1);

fn hardening(level: Level, networks: &[&str]) -> Hardening {
    Hardening { level, networks: networks.iter().map(|name| (*name).to_owned()).collect(), ..Hardening::default() }
}

/// The container of a pod under a level, on the network of its namespace unless the spec names another.
fn restrained(cluster: &Cluster, spec: &PodSpec, ordered: &Hardening) -> Plan {
    let restraints = NodePolicy::new(&[], 512).restrain(Some(ordered), spec).expect("allowed");
    plan(&cluster.host("n1"), &cluster.pod(1), spec, 0).expect("a plan").restrained(restraints)
}

fn on_own_network(cluster: &Cluster) -> PodSpec {
    PodSpec { network: String::new(), namespace: cluster.id.clone(), ..cluster.spec(1) }
}

async fn run(cluster: &Cluster, engine: &Engine, plan: &Plan) -> (String, serde_json::Value) {
    let made = engine.create(plan).await.expect("creates").expect("is there");
    assert_eq!(made.phase, Phase::Running, "{}", made.error);
    let document = cluster.inspect(&made.id).await.expect("inspects");
    (made.id, document)
}

/// A line of the kernel's status of the container's first process.
fn status(document: &serde_json::Value, key: &str) -> String {
    let path = format!("/proc/{}/status", document["State"]["Pid"]);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.expect("the kernel shows it").trim().to_owned()
}

#[tokio::test]
async fn a_restrained_container_has_few_rights_and_bounded_logs() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        for (level, capabilities) in [(Level::Baseline, 11), (Level::Restricted, 1)] {
            let plan = restrained(cluster, &on_own_network(cluster), &hardening(level, &[]));
            let (id, document) = run(cluster, &engine, &plan).await;
            let host = &document["HostConfig"];
            assert_eq!((&host["SecurityOpt"], &host["CapDrop"]), (&json!(["no-new-privileges"]), &json!(["ALL"])));
            assert_eq!(
                (&host["PidsLimit"], host["CapAdd"].as_array().expect("a list").len()),
                (&json!(512), capabilities)
            );
            let log = json!({"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}});
            assert_eq!(host["LogConfig"], log);
            assert_eq!(status(&document, "NoNewPrivs"), "1");
            let bounding = u64::from_str_radix(&status(&document, "CapBnd"), 16).expect("a mask");
            assert_eq!(usize::try_from(bounding.count_ones()).expect("few"), capabilities, "{level}: {bounding:x}");
            engine.remove(&id, GRACE).await.expect("removes");
        }
        let (_, document) = run(cluster, &engine, &cluster.plan(&cluster.spec(1), 0)).await;
        assert_eq!(
            (&document["HostConfig"]["SecurityOpt"], status(&document, "NoNewPrivs")),
            (&json!(null), "0".to_owned())
        );
        assert_eq!(BASELINE_CAPABILITIES.len(), 11);
    })
    .await;
}

#[tokio::test]
async fn an_image_that_starts_as_root_and_changes_its_user_runs_under_baseline() {
    in_cluster(async |cluster: &Cluster| {
        let mut spec = on_own_network(cluster);
        spec.containers[0].image = cluster.fresh_image().await;
        spec.containers[0].env = vec!["DEMO_USER=1234".to_owned()];
        let (id, _) =
            run(cluster, &cluster.engine("n1"), &restrained(cluster, &spec, &hardening(Level::Baseline, &[]))).await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let document = cluster.inspect(&id).await.expect("inspects");
            assert_eq!(document["State"]["Running"], true, "it ended: {}", document["State"]);
            let users = status(&document, "Uid");
            if users.split_whitespace().all(|user| user == "1234") {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "still {users}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

fn with_volume(cluster: &Cluster, path: &str) -> PodSpec {
    let mut spec = on_own_network(cluster);
    spec.containers[0].volumes = vec![path.to_owned()];
    spec
}

fn place(cluster: &Cluster, path: &str) -> PathBuf {
    let root = cluster.host("n1").volume_root;
    Path::new(&root).join(&cluster.id).join(&cluster.id).join("1").join(path.trim_start_matches('/'))
}

/// The attack: a container with `/data` replaces `/data/x` by a link, and the next revision mounts `/data/x`.
#[tokio::test]
async fn no_volume_leads_through_a_link_to_the_node() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let baseline = hardening(Level::Baseline, &[]);
        let (id, document) =
            run(cluster, &engine, &restrained(cluster, &with_volume(cluster, "/data"), &baseline)).await;
        assert_eq!(document["Mounts"][0]["Source"], json!(place(cluster, "/data").display().to_string()));
        engine.remove(&id, GRACE).await.expect("removes");
        let data = place(cluster, "/data");
        for (name, target) in [("abs", "/etc"), ("rel", "../../../../../../../../etc"), ("dangling", "/nowhere/x")] {
            symlink(target, data.join(name)).expect("linked");
        }
        std::fs::create_dir(data.join("real")).expect("made");
        for path in ["/data/abs", "/data/rel", "/data/dangling", "/data/abs/ssl", "/data//abs", "/data/real/../abs"] {
            let spec = with_volume(cluster, path);
            let host = cluster.host("n1");
            let refused = match plan(&host, &cluster.pod(1), &spec, 0) {
                Err(error) => error.to_string(),
                Ok(planned) => {
                    let restraints = NodePolicy::new(&[], 512).restrain(Some(&baseline), &spec).expect("allowed");
                    let refused = engine.create(&planned.restrained(restraints)).await.expect_err("refused");
                    assert!(matches!(refused, Error::Forbidden(_)), "{path}: {refused}");
                    refused.to_string()
                }
            };
            assert!(refused.contains("is a link") || refused.contains("outside its root"), "{path}: {refused}");
        }
        assert!(cluster.containers().await.is_empty());
        assert!(!Path::new("/nowhere").exists());
        let (_, document) =
            run(cluster, &engine, &restrained(cluster, &with_volume(cluster, "/data/real"), &baseline)).await;
        assert_eq!(document["Mounts"][0]["Source"], json!(data.join("real").display().to_string()));
    })
    .await;
}

/// Docker resolves the source of a mount again at each start.
#[tokio::test]
async fn a_volume_that_became_a_link_does_not_start_again() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let plan = restrained(cluster, &with_volume(cluster, "/data"), &hardening(Level::Baseline, &[]));
        let (id, _) = run(cluster, &engine, &plan).await;
        engine.stop(&id, GRACE).await.expect("stops");
        let data = place(cluster, "/data");
        std::fs::remove_dir_all(&data).expect("removed");
        symlink("/etc", &data).expect("linked");
        let refused = engine.start(&id).await.expect_err("refused").to_string();
        assert!(refused.contains("is a link"), "{refused}");
        assert!(!cluster.is_running(&id).await);
    })
    .await;
}

#[tokio::test]
async fn a_network_of_another_owner_is_joined_only_if_it_is_allowed() {
    in_cluster(async |cluster: &Cluster| {
        let engine = cluster.engine("n1");
        let name = format!("{}-stack", cluster.id);
        cluster.foreign_network(&name).await;
        // A namespace with the name of a network that another program created; the leader cannot know that it exists.
        let spec = PodSpec { namespace: name.clone(), ..on_own_network(cluster) };
        let refused = engine.create(&restrained(cluster, &spec, &hardening(Level::Baseline, &[]))).await;
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains("was not created by deployd (rule networks)"), "{refused}");
        assert!(cluster.containers().await.is_empty());
        run(cluster, &engine, &restrained(cluster, &spec, &hardening(Level::Baseline, &[&name]))).await;
        for shared in ["host", "bridge", "default"] {
            let spec = PodSpec { namespace: shared.to_owned(), ..on_own_network(cluster) };
            let restraints = NodePolicy::new(&[], 512).restrain(Some(&hardening(Level::Baseline, &[])), &spec);
            assert!(restraints.expect_err("refused").contains("rule networks"), "{shared}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_file_of_a_node_refuses_one_pod_and_not_the_others() {
    in_cluster(async |cluster: &Cluster| {
        let (nats, home) = world().await;
        let file = home.path().join("policy.toml");
        std::fs::write(&file, "level = \"baseline\"\n").expect("written");
        let mut words = words(cluster, &nats, home.path());
        words.extend(["--policy-file".to_owned(), file.display().to_string()]);
        let mut node = Node::start_with(&nats, words).await;
        let (good, bad) = (cluster.pod(1), cluster.pod(2));
        let mut wanted = order(cluster, 1, 1);
        wanted.specs.insert(good.spec_key(), on_own_network(cluster).into());
        let mut mounting = on_own_network(cluster);
        mounting.containers[0].system_volumes = vec!["/etc:/host".to_owned()];
        let bad = contract::pod_id::PodId { version: 2, ..bad };
        wanted.specs.insert(bad.spec_key(), mounting.into());
        wanted.pods.insert(bad.clone(), super::node::always());
        node.order(&wanted).await;
        let report = node
            .until(|report| {
                let is_refused = |facts: &contract::report::PodFacts| facts.last_error.contains("rule host-binds");
                runs(report.pods.get(&good)) && report.pods.get(&bad).is_some_and(is_refused)
            })
            .await;
        assert_ne!(report.pods[&bad].state, RunState::Success);
        assert!(report.pods[&bad].last_error.contains("the policy file of this node"), "{:?}", report.pods[&bad]);
        let id = report.pods[&good].containers[0].id.clone();
        let document = cluster.inspect(&id).await.expect("inspects");
        assert_eq!(
            document["HostConfig"]["SecurityOpt"],
            json!(["no-new-privileges"]),
            "though the order asks for nothing"
        );

        // No running container is recreated when its group is hardened.
        let groups: BTreeSet<_> = wanted.pods.keys().map(|pod| pod.group.clone()).collect();
        let hard = hardening(Level::Restricted, &[]);
        wanted.hardening = groups.into_iter().map(|group| (group, hard.clone())).collect();
        wanted.fence.generation = 2;
        node.order(&wanted).await;
        let fence = wanted.fence;
        let report = node.until(|report| report.head.applied == fence && runs(report.pods.get(&good))).await;
        assert_eq!(report.pods[&good].containers[0].id, id);
        node.stop().await;
    })
    .await;
}
