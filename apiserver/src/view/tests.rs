//! Whole bodies, compared with golden files.

use std::path::PathBuf;

use contract::docker_inspect::{Endpoint, NetworkSettings, PortBinding};
use contract::exit::ExitFacts;
use contract::fence::Term;
use contract::lenient_json;
use contract::report::{NodeFacts, PodFacts};
use contract::spec::PodGroupSpec;
use contract::state::{HealthState, RunState, TargetState};
use contract::time::Timestamp;

use super::*;

const SPEC: &str = r#"{"Name":"hello.web.web","Namespace":"hello","NumInstances":3,"RestartPolicy":1,"Pod":{
    "Name":"hello.web.web","Namespace":"hello","Containers":[{"Image":"registry/hello:1","Command":["./run","-v"],
    "Env":["A=1"],"CpuLimit":1,"MemoryLimit":33554432,"Expose":8080,"Volumes":["/lain/logs"]}],
    "Annotation":"{\"mountpoint\":[\"hello.lain.local\"]}","Labels":{"team":"x"}}}"#;

fn spec() -> PodGroupSpec {
    lenient_json::from_slice(SPEC.as_bytes()).unwrap()
}

fn facts(id: &str) -> PodFacts {
    let container = ContainerFacts {
        id: id.to_owned(),
        running: true,
        ip: "172.20.0.2".to_owned(),
        node_port: 32_768,
        started_at: Timestamp::from_millis(1_700_000_001_000),
        ..Default::default()
    };
    PodFacts {
        state: RunState::Success,
        health: HealthState::Healthy,
        containers: vec![container],
        restarts: 1,
        restarted_at: Timestamp::from_millis(1_700_000_001_000),
        updated_at: Timestamp::from_millis(1_700_000_002_000),
        ..Default::default()
    }
}

fn pod(instance: u32, node: Option<&str>, facts: PodFacts) -> PodView {
    PodView {
        id: format!("hello.web.web.v0-i{instance}-d0").parse().unwrap(),
        node: node.map(|name| name.parse().unwrap()),
        node_ip: node.map(|_| "10.0.0.1".to_owned()).unwrap_or_default(),
        target: TargetState::Run,
        addresses: facts.containers.iter().map(|container| container.ip.clone()).collect(),
        facts,
    }
}

fn group(pods: Vec<PodView>) -> GroupView {
    GroupView {
        spec: spec(),
        state: RunState::Success,
        health: HealthState::Healthy,
        last_error: String::new(),
        updated_at: Timestamp::from_millis(1_700_000_003_000),
        operation: None,
        pods,
    }
}

#[test]
fn a_running_instance_is_whole_without_its_node() {
    let body = pod_group(group(vec![pod(1, Some("node1"), facts("abc"))]), Inspected::new());
    let written = serde_json::to_string_pretty(&body).unwrap() + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/podgroup-from-facts.json");
    if std::env::var_os("DEPLOYD_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &written).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, golden, "what clients read changed; if that is meant, run deploy/golden");
}

#[test]
fn an_instance_without_container_has_an_empty_one_and_a_missing_instance_an_empty_entry() {
    let body = pod_group(group(vec![pod(3, None, PodFacts::default())]), Inspected::new());
    assert_eq!(body.pods.iter().map(|pod| pod.instance_no).collect::<Vec<_>>(), [1, 2, 3]);
    for pod in &body.pods {
        assert_eq!(pod.containers, [api::Container::default()]);
    }
    assert_eq!(body.prev_state.len(), 3);
    assert_eq!(pod_group(group(Vec::new()), Inspected::new()).pods, []);
}

#[test]
fn the_last_known_node_and_addresses_stay_while_an_instance_is_down() {
    let down = |ip: &str| {
        let container = ContainerFacts { id: "abc".to_owned(), ip: ip.to_owned(), ..Default::default() };
        PodFacts { state: RunState::Exit, containers: vec![container], ..Default::default() }
    };
    let remembered = |pod: PodView| PodView { addresses: vec!["172.20.0.8".to_owned()], ..pod };
    let view = group(vec![
        remembered(pod(1, Some("node1"), down(""))),
        remembered(pod(2, Some("node2"), down("172.20.0.9"))),
        remembered(pod(3, Some("node3"), PodFacts::default())),
        pod(4, None, PodFacts::default()),
    ]);
    let body = pod_group(view, Inspected::new());
    assert_eq!(body.pods[0].containers[0].container_ip, "", "what is down has no address");
    let known = |node: &str, ip: &str| PrevState { node_name: node.to_owned(), ips: vec![ip.to_owned()] };
    let expected =
        [known("node1", "172.20.0.8"), known("node2", "172.20.0.9"), known("node3", "172.20.0.8"), known("", "")];
    assert_eq!(body.prev_state, expected);
}

#[test]
fn inspected_values_win_and_fill_in_for_a_missing_report() {
    let endpoint = Endpoint { gateway: String::new(), ip_address: "172.20.0.9".to_owned() };
    let binding = PortBinding { host_ip: String::new(), host_port: "31000".to_owned() };
    let detail = ContainerDetail {
        id: "def".to_owned(),
        name: "/engine".to_owned(),
        network_settings: NetworkSettings {
            networks: BTreeMap::from([("hello".to_owned(), endpoint)]),
            ports: BTreeMap::from([("8080/tcp".to_owned(), Some(vec![binding]))]),
            ..Default::default()
        },
        ..Default::default()
    };
    let unreported = pod(1, Some("node1"), PodFacts::default());
    let inspected = Inspected::from([(unreported.id.clone(), vec![detail])]);
    let body = pod_group(group(vec![unreported]), inspected);
    let container = &body.pods[0].containers[0];
    assert_eq!((container.id.as_str(), container.runtime.name.as_str()), ("def", "/engine"));
    assert_eq!((container.container_ip.as_str(), container.node_port), ("172.20.0.9", 31_000));
    assert_eq!((container.runtime.node.name.as_str(), container.runtime.node.ip.as_str()), ("node1", "10.0.0.1"));
    assert_eq!((container.container_port, container.protocol.as_str()), (8080, "tcp"));
}

#[test]
fn an_instance_that_ended_by_itself_shows_how_until_it_runs_again() {
    let ended_at = Timestamp::from_millis(1_700_000_002_000);
    let mut down = PodFacts { state: RunState::Exit, restarts: 5, ..facts("abc") };
    let next_attempt = Timestamp::from_millis(1_700_000_010_000);
    down.next_attempt = next_attempt;
    down.containers[0].finished_at = ended_at;
    down.containers[0].last_exit = Some(ExitFacts {
        code: 3,
        at: ended_at,
        last_line: "cannot open /etc/app.conf".to_owned(),
        ..ExitFacts::default()
    });
    let exit = |facts: &PodFacts| {
        let body = pod_group(group(vec![pod(1, Some("node1"), facts.clone())]), Inspected::new());
        serde_json::to_value(&body).unwrap()["Pods"][0].get("Exit").cloned()
    };
    assert_eq!(exit(&down), None, "the container runs");
    down.containers[0].running = false;
    let shown = serde_json::json!({"Code": 3, "OutOfMemory": false, "At": "2023-11-14T22:13:22Z", "Restarts": 5,
        "NextAttempt": "2023-11-14T22:13:30Z", "LastLine": "cannot open /etc/app.conf"});
    assert_eq!(exit(&down), Some(shown));
    down.containers[0].finished_at = next_attempt;
    assert_eq!(exit(&down), None, "a later end was ordered");
}

#[test]
fn each_node_gets_one_inspect_request_for_all_its_pods() {
    let view = group(vec![
        pod(1, Some("b"), PodFacts::default()),
        pod(2, Some("a"), PodFacts::default()),
        pod(3, Some("b"), PodFacts::default()),
        pod(4, None, PodFacts::default()),
    ]);
    let asked: Vec<(String, usize)> =
        inspect_requests(&view.pods).into_iter().map(|(n, pods)| (n.to_string(), pods.len())).collect();
    assert_eq!(asked, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
}

#[test]
fn used_cores_are_rounded_up_and_nodes_sorted() {
    let view = |name: &str| NodeView {
        name: name.parse().unwrap(),
        liveness: Liveness::Suspect,
        engine: EngineState::Hung,
        facts: NodeFacts { cores: 4, ..Default::default() },
        used_cpu_millis: 1001,
        used_memory: 0,
        containers: 0,
        instances: 0,
        cordon: None,
        pending: false,
    };
    let rows = nodes(vec![view("b"), view("a")]);
    assert_eq!((rows[0].name.as_str(), rows[0].used_cpus, rows[0].cpus), ("a", 2, 4));
    assert_eq!((rows[0].state.as_str(), rows[0].engine.as_str()), ("suspect", "hung"));
}

#[test]
fn a_standby_is_not_called_leader() {
    let view = |term| ClusterView {
        scheduler: "s1".to_owned(),
        term,
        groups: 0,
        instances: 0,
        running: 0,
        nodes_alive: 0,
        nodes: 0,
        foreign_store: 0,
        restored: None,
        quarantined: Vec::new(),
        warnings: vec!["etcd went back".to_owned()],
    };
    assert_eq!(cluster("a", view(Some(Term(3)))).leader, "s1");
    assert_eq!(cluster("a", view(Some(Term(3)))).warnings, ["etcd went back"]);
    let standby = cluster("a", view(None));
    assert_eq!((standby.leader.as_str(), standby.answered_by.as_str(), standby.term), ("", "s1", 0));
}

#[test]
fn a_dependency_pod_that_runs_nowhere_has_an_object_without_members() {
    let view = contract::query::DependencyView { spec: spec().pod, pods: BTreeMap::new() };
    let body = serde_json::to_value(dependency(view, Inspected::new())).unwrap();
    assert_eq!((&body["Pods"], &body["Spec"]["Name"]), (&serde_json::json!({}), &serde_json::json!("hello.web.web")));
}
