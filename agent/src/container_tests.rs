//! Tests of the mapping of the API contract's chapter on container creation.

use contract::spec::{CloudVolume, HealthConfig, HealthOptions, LogConfig};
use serde_json::json;

use super::*;

fn host() -> Host {
    Host {
        owner: Owner { cluster: "c".to_owned(), node: "n1".parse().expect("a name") },
        volume_root: "/data/lain/volumes".to_owned(),
        cloud_volume_root: "/data/lain/cloud-volumes".to_owned(),
        quota_cores: 8,
        publish_ip: String::new(),
        throttles: Vec::new(),
    }
}
fn pod_id() -> PodId {
    "hello.web.web.v2-i1-d0".parse().expect("a pod")
}
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
fn spec(containers: Vec<ContainerSpec>) -> PodSpec {
    PodSpec { name: "hello.web.web".to_owned(), namespace: "hello".to_owned(), containers, ..Default::default() }
}
fn planned(spec: &PodSpec, index: usize) -> Plan {
    plan(&host(), &pod_id(), spec, index).expect("there is such a container")
}

#[test]
fn the_environment_ends_with_the_identity_of_the_pod() {
    let spec = spec(vec![ContainerSpec { env: words(&["A=1"]), ..Default::default() }]);
    let expected =
        words(&["A=1", "DEPLOYD_POD_INSTANCE_NO=1", "DEPLOYD_POD_NAME=hello.web.web", "DEPLOYD_POD_NAMESPACE=hello"]);
    assert_eq!(planned(&spec, 0).env, expected);
}

#[test]
fn binds_come_in_the_contracts_order_and_are_not_tidied() {
    let container = ContainerSpec {
        volumes: words(&["/lain/logs"]),
        system_volumes: words(&["/etc/hosts:/etc/hosts:ro", "named"]),
        cloud_volumes: vec![
            CloudVolume { kind: "multi".to_owned(), dirs: words(&["/many"]) },
            CloudVolume { kind: "single".to_owned(), dirs: words(&["/one"]) },
        ],
        ..Default::default()
    };
    let plan = planned(&spec(vec![container.clone()]), 0);
    let expected = words(&[
        "/data/lain/volumes/hello/hello.web.web/1//lain/logs:/lain/logs",
        "/etc/hosts:/etc/hosts:ro",
        "named",
        "/data/lain/cloud-volumes/hello/hello.web.web/1//many:/many",
        "/data/lain/cloud-volumes/hello/hello.web.web//one:/one",
    ]);
    assert_eq!(plan.binds, expected);
    assert_eq!(plan.volumes, words(&["/lain/logs", "/etc/hosts"]));
    let several = spec(vec![ContainerSpec::default(), container]);
    assert_eq!(planned(&several, 1).binds[0], "/data/lain/volumes/hello/hello.web.web/1/c1//lain/logs:/lain/logs");
    assert_eq!(planned(&several, 1).name, "hello.web.web.v2-i1-d0-c1");
}

#[test]
fn no_volume_leaves_its_root() {
    let with = |change: fn(&mut PodSpec)| {
        let mut pod = spec(vec![ContainerSpec { volumes: words(&["/data"]), ..Default::default() }]);
        change(&mut pod);
        plan(&host(), &pod_id(), &pod, 0).map(|plan| plan.binds.len())
    };
    assert_eq!(with(|_| {}), Ok(1));
    assert_eq!(with(|pod| pod.containers[0].volumes = words(&["/a/..b/c"])), Ok(1));
    let outside = |place: &str| Err(Error::Outside(place.to_owned()));
    assert_eq!(with(|pod| pod.containers[0].volumes = words(&["/../../etc"])), outside("/../../etc"));
    assert_eq!(with(|pod| pod.containers[0].volumes = words(&["/etc:/etc"])), outside("/etc:/etc"));
    assert_eq!(with(|pod| pod.namespace = "..".to_owned()), outside(".."));
    let cloud = |pod: &mut PodSpec| {
        pod.containers[0].cloud_volumes = vec![CloudVolume { kind: "single".to_owned(), dirs: words(&["/x/.."]) }];
    };
    assert_eq!(with(cloud), outside("/x/.."));
    assert_eq!(plan(&host(), &pod_id(), &spec(vec![]), 0), Err(Error::NoContainer(0)));
}

#[test]
fn quotas_are_not_rounded() {
    let host = Host { quota_cores: 1, ..host() };
    let quota = |level| {
        let pod = spec(vec![ContainerSpec { cpu_limit: level, ..Default::default() }]);
        plan(&host, &pod_id(), &pod, 0).expect("a plan").cpu_quota
    };
    assert_eq!([quota(1), quota(3), quota(8)], [62_500, 187_500, 500_000]);
}

#[test]
fn device_limits_are_part_of_the_plan_and_not_of_the_identity() {
    let throttles = vec![Throttle { path: "/dev/sda".to_owned(), rate: Some(7), iops: None }];
    let pod = spec(vec![ContainerSpec::default()]);
    let throttled = plan(&Host { throttles: throttles.clone(), ..host() }, &pod_id(), &pod, 0).expect("a plan");
    assert_eq!(throttled, Plan { throttles, ..planned(&pod, 0) });
}

#[test]
fn cpu_levels_become_quotas() {
    let quota = |level| {
        planned(&spec(vec![ContainerSpec { cpu_limit: level, ..Default::default() }, ContainerSpec::default()]), 0)
            .cpu_quota
    };
    assert_eq!(
        [quota(1), quota(0), quota(2), quota(8), quota(99)],
        [500_000, 1_000_000, 1_000_000, 4_000_000, 4_000_000]
    );
}

#[test]
fn the_network_is_the_namespace_unless_named() {
    let plain = spec(vec![ContainerSpec::default()]);
    assert_eq!(planned(&plain, 0).network, "hello");
    assert_eq!(planned(&PodSpec { network: "host".to_owned(), ..plain }, 0).network, "host");
}

#[test]
fn a_port_and_a_log_driver_are_set_only_when_the_spec_has_them() {
    let plain = planned(&spec(vec![ContainerSpec::default()]), 0);
    assert_eq!((plain.port, plain.log, plain.entrypoint, plain.health), (None, None, None, None));
    let container = ContainerSpec {
        expose: 8080,
        log_config: LogConfig { kind: "json-file".to_owned(), config: BTreeMap::new() },
        ..Default::default()
    };
    let plan = planned(&spec(vec![container]), 0);
    assert_eq!(plan.port.as_deref(), Some("8080/tcp"));
    assert_eq!(plan.log, Some(("json-file".to_owned(), BTreeMap::new())));
}

#[test]
fn health_checks_follow_the_contract() {
    let with = |cmd: &str, annotation: &str| {
        let options = HealthOptions { interval: 1, timeout: 30, retries: 0 };
        let pod = PodSpec {
            health_config: HealthConfig { cmd: cmd.to_owned(), options, ..HealthConfig::default() },
            annotation: annotation.to_owned(),
            ..spec(vec![ContainerSpec { expose: 80, ..Default::default() }])
        };
        planned(&pod, 0).health
    };
    assert_eq!(with("none", "").expect("a check").test, words(&["NONE"]));
    let check = with("true", "").expect("a check");
    assert_eq!(check.test, words(&["CMD-SHELL", "true || exit 1"]));
    assert_eq!((check.interval, check.timeout, check.retries), (10 * NANOSECONDS, 30 * NANOSECONDS, 3));
    assert_eq!(with("", r#"{"healthcheck":"/ping"}"#), None, "the agent performs it");
}

#[test]
fn an_inspect_document_is_converted_and_a_foreign_one_is_ignored() {
    let labels = labels::of(&host().owner, &pod_id(), &spec(vec![ContainerSpec::default()]), 0);
    let document = json!({
        "Id": "abc",
        "Config": {"Labels": labels},
        "HostConfig": {"NetworkMode": "hello"},
        "State": {
            "ExitCode": 137, "OOMKilled": true, "Error": "", "Health": {"Status": "starting"},
            "StartedAt": "2026-11-16T02:03:50.610864592Z", "FinishedAt": "0001-01-01T00:00:00Z"
        },
        "NetworkSettings": {
            "Networks": {"a": {"IPAddress": "10.0.0.1"}, "hello": {"IPAddress": "10.0.0.2"}},
            "Ports": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "32768"}], "81/tcp": null}
        }
    });
    let detail: ContainerDetail = contract::lenient_json::from_value(document).expect("decodes");
    let seen_one = seen(&host().owner, &detail, Phase::Running).expect("it is ours");
    assert_eq!((seen_one.ip.as_str(), seen_one.node_port), ("10.0.0.2", 32768));
    assert_eq!((seen_one.health, seen_one.exit_code, seen_one.oom_killed), (HealthState::Starting, 137, true));
    assert!(seen_one.started_at.happened() && !seen_one.finished_at.happened());
    assert_eq!(seen_one.identity.pod, pod_id());
    let other = Owner { node: "n2".parse().expect("a name"), ..host().owner };
    assert_eq!(seen(&other, &detail, Phase::Running), None);
}
