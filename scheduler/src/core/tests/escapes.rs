//! Specs that try to leave their namespace or reach the node. Under `baseline` and `restricted` the leader refuses each of them
//! for the right reason, whether it creates, plans or patches.

use contract::command::{Decision, Refusal};
use contract::policy::{EVERY_NAMESPACE, Level, Policy};
use contract::spec::{CloudVolume, Dependency, LogConfig};

use super::*;

/// Changes the spec of an ordinary group into an attack.
type Attack = Box<dyn Fn(&mut PodGroupSpec)>;

fn bind(text: &'static str) -> Attack {
    Box::new(move |spec| spec.pod.containers[0].system_volumes = vec![text.to_owned()])
}
fn network(name: &'static str) -> Attack {
    Box::new(move |spec| spec.pod.network = name.to_owned())
}
fn label(key: &'static str) -> Attack {
    Box::new(move |spec| drop(spec.pod.labels.insert(key.to_owned(), "x".to_owned())))
}
fn driver(kind: &'static str) -> Attack {
    Box::new(move |spec| {
        let config = BTreeMap::from([("syslog-address".to_owned(), "tcp://127.0.0.1:4222".to_owned())]);
        spec.pod.containers[0].log_config = LogConfig { kind: kind.to_owned(), config };
    })
}
fn user(name: &'static str) -> Attack {
    Box::new(move |spec| spec.pod.containers[0].user = name.to_owned())
}
fn volumes(paths: &'static [&'static str]) -> Attack {
    Box::new(move |spec| spec.pod.containers[0].volumes = paths.iter().map(|path| (*path).to_owned()).collect())
}
fn cloud(kind: &'static str, dirs: &'static [&'static str]) -> Attack {
    Box::new(move |spec| {
        let dirs = dirs.iter().map(|path| (*path).to_owned()).collect();
        spec.pod.containers[0].cloud_volumes = vec![CloudVolume { kind: kind.to_owned(), dirs }];
    })
}
fn change(change: impl Fn(&mut PodGroupSpec) + 'static) -> Attack {
    Box::new(change)
}

/// Binds, with the rule that refuses each.
const BINDS: [(&str, &str); 36] = [
    ("/:/host", "rule host-binds"),
    ("/:/host:ro", "rule host-binds"),
    ("//:/host", "rule host-binds"),
    ("/.:/host", "rule host-binds"),
    ("/..:/host", "rule host-binds"),
    ("/etc:/x", "rule host-binds"),
    ("/etc/:/x:ro", "rule host-binds"),
    ("/etc/localtime:/etc/localtime", "rule host-binds"),
    ("/etc/localtime:/x:rw", "rule host-binds"),
    ("/etc/localtime:/x:ro,rw", "rule host-binds"),
    ("/etc/localtime:/x:ro,rshared", "rule host-binds"),
    ("/etc/localtime/..:/x:ro", "rule host-binds"),
    ("/etc/localtime/../shadow:/x:ro", "rule host-binds"),
    ("/etc/localtime/../../root:/x:ro", "rule host-binds"),
    ("/etc/localtime.d:/x:ro", "rule host-binds"),
    ("/root/.ssh:/x:ro,z", "rule host-binds"),
    ("/home:/x:rslave", "rule host-binds"),
    ("/var:/x:Z", "rule host-binds"),
    ("/boot:/x", "rule host-binds"),
    ("/var/lib/docker:/x", "rule host-binds"),
    ("/dev:/x", "rule devices"),
    ("/dev/sda:/x", "rule devices"),
    ("/etc/../dev/mem:/x", "rule devices"),
    ("/var/run/docker.sock:/x", "rule never"),
    ("/run/docker.sock:/x:ro", "rule never"),
    ("/var/run//docker.sock:/x", "rule never"),
    ("/var/./run/../run/docker.sock:/x", "rule never"),
    ("/proc:/x:ro", "rule never"),
    ("/proc/1/root:/x", "rule never"),
    ("/sys/fs/cgroup:/x", "rule never"),
    ("/var/lib/deployd/agent:/x", "rule never"),
    ("/data/lain/volumes/other:/x", "rule never"),
    ("other_pgdata:/x", "rule host-binds"),
    ("../etc:/x", "rule host-binds"),
    ("/x", "rule host-binds"),
    ("/a:/b:ro:/c", "rule host-binds"),
];

fn attacks() -> Vec<(String, Attack, &'static str)> {
    let mut all: Vec<(String, Attack, &str)> = Vec::new();
    all.extend(BINDS.map(|(text, rule)| (format!("bind {text}"), bind(text), rule)));
    for name in ["host", "bridge", "default", "other", "deploy_default", "hello2"] {
        all.push((format!("network {name}"), network(name), "rule networks"));
    }
    for name in ["container:web", "container:0123", "../x"] {
        all.push((format!("network {name}"), network(name), "Pod.Network: contains"));
    }
    for namespace in ["host", "bridge", "default"] {
        let named = change(move |spec| {
            (spec.namespace, spec.pod.namespace) = (namespace.to_owned(), namespace.to_owned());
        });
        all.push((format!("namespace {namespace}"), named, "rule networks"));
    }
    for key in ["com.docker.compose.project", "traefik.enable", "Traefik.Enable", "io.kubernetes.pod.name"] {
        all.push((format!("label {key}"), label(key), "rule labels"));
    }
    all.push(("own label".to_owned(), label("cc.bdp.lain.deployd.node"), "which is reserved"));
    for kind in ["syslog", "gelf", "fluentd", "splunk", "awslogs", "JSON-FILE", "some/plugin"] {
        all.push((format!("driver {kind}"), driver(kind), "rule log-drivers"));
    }
    for paths in [&["/data", "/data/x"], &["/data//x", "/data"]] {
        all.push((format!("volumes {paths:?}"), volumes(paths), "rule nested-volumes"));
    }
    for path in [&["/data/../../../etc"], &["/data/./x"], &["/a:/etc"], &["data"], &["/"], &["/a\0b"]] {
        all.push((format!("volume {path:?}"), volumes(path), "must be an absolute path"));
    }
    all.push(("cloud of an instance".to_owned(), cloud("single", &["/1/x"]), "rule nested-volumes"));
    all.push(("nested cloud".to_owned(), cloud("multi", &["/a", "/a/b"]), "rule nested-volumes"));
    all.push(("cloud up".to_owned(), cloud("multi", &["/../x"]), "must be an absolute path"));
    let namespace = change(|spec| spec.pod.namespace = "other".to_owned());
    all.push(("namespace of another".to_owned(), namespace, "Pod.Namespace: must equal Namespace"));
    all.extend(counts());
    all
}

/// One more than allowed of each counted field.
fn counts() -> Vec<(String, Attack, &'static str)> {
    let texts = |number: usize| (0..number).map(|n| format!("a{n}")).collect::<Vec<_>>();
    let first = |change: fn(&mut ContainerSpec, Vec<String>), number: usize| -> Attack {
        Box::new(move |spec| change(&mut spec.pod.containers[0], texts(number)))
    };
    vec![
        ("filters".to_owned(), change(move |spec| spec.pod.filters = texts(65)), "Pod.Filters: 65 are too many"),
        (
            "labels".to_owned(),
            change(move |spec| spec.pod.labels = texts(65).into_iter().map(|key| (key, String::new())).collect()),
            "Pod.Labels: 65 are too many",
        ),
        (
            "dependencies".to_owned(),
            change(move |spec| {
                let named = |pod_name| Dependency { pod_name, ..Dependency::default() };
                spec.pod.dependencies = texts(33).into_iter().map(named).collect();
            }),
            "Pod.Dependencies: 33 are too many",
        ),
        ("search".to_owned(), first(|c, list| c.dns_search = list, 9), "DnsSearch: 9 are too many"),
        ("command".to_owned(), first(|c, list| c.command = list, 257), "Command: 257 are too many"),
        ("entrypoint".to_owned(), first(|c, list| c.entrypoint = Some(list), 257), "Entrypoint: 257 are too many"),
        ("binds".to_owned(), first(|c, list| c.system_volumes = list, 17), "SystemVolumes: 17 are too many"),
        (
            "containers".to_owned(),
            change(|spec| spec.pod.containers = vec![spec.pod.containers[0].clone(); 17]),
            "Pod.Containers: 17 are too many",
        ),
    ]
}

/// Attacks on `restricted` alone.
fn users() -> Vec<(String, Attack, &'static str)> {
    let names = ["", "0", "0:0", "00", "+0", "-0", "root", "toor", "root:1000"];
    names.into_iter().map(|name| (format!("user {name:?}"), user(name), "rule users")).collect()
}

fn set(namespace: &str, level: Level) -> Verb {
    Verb::SetPolicy { namespace: namespace.to_owned(), policy: Box::new(Policy::of(level)) }
}

fn reason(rig: &Rig, id: &str) -> String {
    match &rig.outcomes[id].decision {
        Decision::Refused(refusal @ (Refusal::Forbidden { .. } | Refusal::Malformed { .. })) => refusal.to_string(),
        other => panic!("{id} is {other:?}"),
    }
}

#[test]
fn no_spec_escapes_and_each_is_refused_for_the_right_reason() {
    let mut rig = rig(&["a"]);
    let strict = users().into_iter().map(|attack| (Level::Restricted, attack));
    let both = [Level::Baseline, Level::Restricted];
    let all = both.into_iter().flat_map(|level| attacks().into_iter().map(move |attack| (level, attack))).chain(strict);
    let mut tried = 0;
    for (number, (level, (what, attack, expected))) in all.enumerate() {
        assert_eq!(rig.command(&format!("p{number}"), set(EVERY_NAMESPACE, level)), "Accepted");
        let mut bad = spec("web", 1);
        bad.pod.containers[0].user = "1000".to_owned();
        attack(&mut bad);
        let Answer::Plan(planned) = rig.query(Query::Plan { spec: Box::new(bad.clone()), within_millis: None }) else {
            panic!("not a plan")
        };
        assert!(planned.is_err(), "{what}: a plan must be refused too");
        let id = format!("c{number}");
        rig.command(&id, Verb::CreateGroup { spec: Box::new(bad) });
        let reason = reason(&rig, &id);
        assert!(reason.contains(expected), "{what} under {level}: {reason}");
        tried += 1;
    }
    assert!(attacks().len() + users().len() >= 60, "{tried}");
    assert_eq!(rig.pods("a"), Vec::<String>::new());
}

#[test]
fn no_patch_and_no_undo_escapes() {
    let mut rig = rig(&["a"]);
    assert_eq!(rig.command("c0", create("web", 1)), "Accepted");
    rig.advance(3);
    // Namespace and network of a group cannot be patched, and a patch without containers is refused anyway.
    let is_patchable = |what: &str| !what.starts_with("network") && !what.starts_with("namespace");
    for (number, (what, attack, expected)) in attacks().into_iter().filter(|(what, ..)| is_patchable(what)).enumerate()
    {
        let mut bad = spec("web", 1);
        attack(&mut bad);
        let id = format!("s{number}");
        rig.command(&id, Verb::PatchSpec { name: group("web"), pod: Box::new(bad.pod), cause: String::new() });
        let reason = reason(&rig, &id);
        assert!(reason.contains(expected), "{what}: {reason}");
    }
    assert_eq!(rig.record("web").spec.version, 0);
}

#[test]
fn a_volume_cannot_lie_in_the_volume_of_a_revision_that_may_run() {
    for (before, after) in [("/data", "/data/x"), ("/data/x", "/data"), ("/c1", "/c1/data")] {
        let mut rig = rig(&["a"]);
        let with = |path: &str| {
            let mut spec = spec("web", 1);
            spec.pod.containers[0].volumes = vec![path.to_owned()];
            spec
        };
        assert_eq!(rig.command("c0", Verb::CreateGroup { spec: Box::new(with(before)) }), "Accepted");
        rig.advance(3);
        let patch =
            |path: &str| Verb::PatchSpec { name: group("web"), pod: Box::new(with(path).pod), cause: String::new() };
        rig.command("s0", patch(after));
        assert!(reason(&rig, "s0").contains("rule nested-volumes"), "{before} {after}");
        assert_eq!(rig.command("s1", patch("/other")), "Accepted");
    }
}
