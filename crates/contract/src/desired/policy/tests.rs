//! Each rule alone; `scheduler/src/core/tests/escapes.rs` has the attacks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::spec::{CloudVolume, ContainerSpec, LogConfig, PodGroupSpec, PodSpec};

fn pod(container: ContainerSpec) -> PodSpec {
    PodSpec { name: "web".to_owned(), namespace: "shop".to_owned(), containers: vec![container], ..PodSpec::default() }
}

fn with_bind(text: &str) -> PodSpec {
    pod(ContainerSpec { system_volumes: vec![text.to_owned()], ..ContainerSpec::default() })
}

fn with_volumes(volumes: &[&str]) -> PodSpec {
    pod(ContainerSpec { volumes: volumes.iter().map(|v| (*v).to_owned()).collect(), ..ContainerSpec::default() })
}

fn rules(policy: &Policy, pod: &PodSpec) -> Vec<Rule> {
    policy.check_pod(pod, &["/srv/state".to_owned()]).into_iter().map(|violation| violation.rule).collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_bind_is_allowed_by_level_or_by_the_list() {
    let baseline = Policy {
        host_binds: vec![
            HostBind { path: "/srv/models".to_owned(), read_only: true },
            HostBind { path: "/srv/models/cache".to_owned(), read_only: false },
        ],
        devices: set(&["/dev/fuse"]),
        ..Policy::of(Level::Baseline)
    };
    for good in [
        "/etc/localtime:/etc/localtime:ro",
        "/etc/timezone:/tz:ro",
        "/srv/models:/m:ro",
        "/srv//models/./a:/m:ro",
        "/srv/models/cache:/m",
        "/srv/models/cache:/m:ro",
        "/dev/fuse:/dev/fuse",
    ] {
        assert_eq!(rules(&baseline, &with_bind(good)), [], "{good}");
    }
    for (bad, rule) in [
        ("/etc/localtime:/etc/localtime", Rule::HostBinds),
        ("/srv/models:/m", Rule::HostBinds),
        ("/srv/models/cache/x:/m", Rule::HostBinds),
        ("/srv/models/cache/x:/m:ro", Rule::HostBinds),
        ("/srv/models/../x:/m:ro", Rule::HostBinds),
        ("/srv/models-2:/m:ro", Rule::HostBinds),
        ("/srv/models:/m:ro,rshared", Rule::HostBinds),
        ("/srv/models:/m:ro,rw", Rule::HostBinds),
        ("pgdata:/m", Rule::HostBinds),
        ("/m", Rule::HostBinds),
        ("/dev/mem:/dev/mem", Rule::Devices),
        ("/var/run/../run/docker.sock:/s", Rule::Never),
        ("/srv/state/x:/s:ro", Rule::Never),
    ] {
        assert_eq!(rules(&baseline, &with_bind(bad)), [rule], "{bad}");
    }
    let trusted = Policy::of(Level::Trusted);
    for good in ["/etc:/host", "/:/host", "pgdata:/m", "/m", "/dev/mem:/dev/mem", "/srv:/m:rshared"] {
        assert_eq!(rules(&trusted, &with_bind(good)), [], "{good}");
    }
    for never in NEVER {
        assert_eq!(rules(&trusted, &with_bind(&format!("{never}/:/x:ro"))), [Rule::Never], "{never}");
    }
}

/// A container that writes `/srv/shared` can make `/srv/shared/x` a link to `/`.
#[test]
fn no_bind_lies_below_a_directory_that_containers_may_write() {
    let allow = |binds: &[(&str, bool)]| Policy {
        host_binds: binds
            .iter()
            .map(|(path, read_only)| HostBind { path: (*path).to_owned(), read_only: *read_only })
            .collect(),
        ..Policy::default()
    };
    let both = allow(&[("/srv/shared", false), ("/srv/shared/x", false), ("/srv/models", true)]);
    assert_eq!(rules(&both, &with_bind("/srv/shared:/x")), []);
    for bad in ["/srv/shared/x:/x", "/srv/shared/x:/x:ro", "/srv/shared/x/y:/x:ro"] {
        assert_eq!(rules(&both, &with_bind(bad)), [Rule::HostBinds], "{bad}");
    }

    let (reader, writer) = (allow(&[("/srv/shared", true)]), allow(&[("/srv/shared", false)]));
    let beside = |policy: &Policy, bind: &str| policy.check_binds_beside(&with_bind(bind), [&writer].into_iter()).len();
    assert_eq!(rules(&reader, &with_bind("/srv/shared/x:/x:ro")), []);
    assert_eq!(beside(&reader, "/srv/shared/x:/x:ro"), 1, "another namespace may write above it");
    assert_eq!((beside(&reader, "/srv/shared:/x:ro"), beside(&reader, "/etc/timezone:/x:ro")), (0, 0));
    assert_eq!(beside(&Policy::of(Level::Trusted), "/srv/shared/x:/x"), 0);
}

#[test]
fn a_pod_joins_the_network_of_its_namespace_or_one_that_is_listed() {
    let policy = Policy { networks: set(&["metrics"]), ..Policy::default() };
    let on = |namespace: &str, network: &str| PodSpec {
        namespace: namespace.to_owned(),
        network: network.to_owned(),
        ..pod(ContainerSpec::default())
    };
    for good in [on("shop", ""), on("shop", "shop"), on("shop", "none"), on("shop", "metrics")] {
        assert_eq!(rules(&policy, &good), []);
    }
    for bad in [on("shop", "host"), on("shop", "bridge"), on("shop", "other"), on("host", ""), on("default", "default")]
    {
        assert_eq!(rules(&policy, &bad), [Rule::Networks], "{bad:?}");
        assert_eq!(rules(&Policy::of(Level::Trusted), &bad), []);
    }
    assert_eq!(rules(&Policy::of(Level::Trusted), &on("shop", "container:x")), [Rule::Never]);
}

#[test]
fn labels_drivers_images_and_users_follow_the_lists() {
    let policy = Policy {
        labels: set(&["traefik.http."]),
        log_drivers: set(&["syslog"]),
        images: set(&["registry.example/*", "demo:1"]),
        users: set(&["app"]),
        ..Policy::of(Level::Restricted)
    };
    let spec = |image: &str, user: &str, driver: &str, label: &str| PodSpec {
        labels: BTreeMap::from([(label.to_owned(), "x".to_owned())]),
        ..pod(ContainerSpec {
            image: image.to_owned(),
            user: user.to_owned(),
            log_config: LogConfig { kind: driver.to_owned(), ..LogConfig::default() },
            ..ContainerSpec::default()
        })
    };
    for user in ["1000", "1000:0", "app"] {
        assert_eq!(rules(&policy, &spec("demo:1", user, "syslog", "traefik.http.routers")), [], "{user}");
    }
    for user in ["", "0", "00", "+0", "-0", "0:5", "root", "4294967296", "1e3", "toor"] {
        assert_eq!(rules(&policy, &spec("registry.example/a", user, "", "team")), [Rule::Users], "{user}");
    }
    let all = rules(&policy, &spec("registry.example.org/a", "root", "gelf", "com.docker.compose.project"));
    assert_eq!(all, [Rule::Labels, Rule::Images, Rule::LogDrivers, Rule::Users]);
    assert_eq!(rules(&policy, &spec("demo:1", "7", "local", "Traefik.Enable")), [Rule::Labels]);
    assert_eq!(rules(&Policy::of(Level::Trusted), &spec("x", "root", "gelf", "com.docker.x")), []);
}

#[test]
fn volumes_do_not_nest_within_a_pod_or_beside_other_revisions() {
    let baseline = Policy::default();
    assert_eq!(rules(&baseline, &with_volumes(&["/data", "/data-2", "/lain/logs"])), []);
    assert_eq!(rules(&baseline, &with_volumes(&["/data", "/data//x"])), [Rule::NestedVolumes]);
    let cloud = |kind: &str, dirs: &[&str]| {
        let dirs = dirs.iter().map(|dir| (*dir).to_owned()).collect();
        pod(ContainerSpec { cloud_volumes: vec![CloudVolume { kind: kind.to_owned(), dirs }], ..Default::default() })
    };
    assert_eq!(rules(&baseline, &cloud("single", &["/a", "/b"])), []);
    assert_eq!(rules(&baseline, &cloud("single", &["/1/a"])), [Rule::NestedVolumes]);
    assert_eq!(rules(&baseline, &cloud("multi", &["/a", "/a/b"])), [Rule::NestedVolumes]);

    let two = PodSpec {
        containers: vec![ContainerSpec::default(), with_volumes(&["/x"]).containers.remove(0)],
        ..pod(ContainerSpec::default())
    };
    for (new, old) in [
        (with_volumes(&["/data/x"]), with_volumes(&["/data"])),
        (with_volumes(&["/data"]), with_volumes(&["/data/x"])),
        (two, with_volumes(&["/c1"])),
    ] {
        assert_eq!(baseline.check_beside(&new, &old).len(), 1);
        assert_eq!(baseline.check_beside(&new, &new), []);
        assert_eq!(Policy::of(Level::Trusted).check_beside(&new, &old), []);
    }
}

#[test]
fn quotas_are_limits_of_the_namespace() {
    let quota = Quota { groups: Some(2), instances: Some(10), containers: Some(1) };
    let policy = Policy { quota, ..Policy::of(Level::Trusted) };
    assert_eq!(policy.check_usage(Usage { groups: 2, instances: 10 }), []);
    let texts: Vec<String> =
        policy.check_usage(Usage { groups: 3, instances: 11 }).iter().map(Violation::to_string).collect();
    assert_eq!(
        texts,
        [
            "Namespace (rule quota): the namespace would have 3 PodGroups, its quota is 2",
            "NumInstances (rule quota): the namespace would have 11 instances, its quota is 10",
        ]
    );
    let two = PodSpec { containers: vec![ContainerSpec::default(); 2], ..pod(ContainerSpec::default()) };
    assert_eq!(rules(&policy, &two), [Rule::Quota]);
}

#[test]
fn a_policy_with_a_hole_is_refused() {
    let bind = |path: &str| Policy {
        host_binds: vec![HostBind { path: path.to_owned(), read_only: true }],
        ..Policy::default()
    };
    assert_eq!(bind("/srv/models").validate(), Ok(()));
    for path in ["", "srv", "/", "/var", "/run", "/proc/1", "/data", "/srv/", "/srv/../etc", "//srv", "/a:/b"] {
        assert!(bind(path).validate().is_err(), "{path:?}");
    }
    let images = |pattern: &str| Policy { images: set(&[pattern]), ..Policy::default() };
    for (pattern, good) in
        [("registry.example/*", true), ("*", true), ("a@*", true), ("registry*", false), ("*/a", false)]
    {
        assert_eq!(images(pattern).validate().is_ok(), good, "{pattern}");
    }
    for name in ["ALL", "CAP_NET_RAW", "net_raw", ""] {
        assert!(Policy { capabilities: set(&[name]), ..Policy::default() }.validate().is_err(), "{name}");
    }
    for device in ["/dev", "/dev/../etc", "/etc/passwd"] {
        let policy = Policy { devices: set(&[device]), ..Policy::default() };
        assert_eq!(policy.validate().is_ok(), device == "/dev", "{device}");
    }
    assert!(Policy { labels: set(&["cc.bdp.lain.deployd.x"]), ..Policy::default() }.validate().is_err());
    assert!(Policy { networks: set(&["container:x"]), ..Policy::default() }.validate().is_err());
    assert!(
        serde_json::from_str::<Policy>(r#"{"Level":"baseline","HostBind":[]}"#).is_err(),
        "a typo must not be ignored"
    );
}

#[test]
fn the_level_decides_the_capabilities() {
    let of = |level| Policy { capabilities: set(&["NET_RAW"]), ..Policy::of(level) }.hardening();
    assert_eq!(of(Level::Trusted), None);
    let restricted = of(Level::Restricted).and_then(|hardening| hardening.capabilities());
    assert_eq!(restricted, Some(vec!["NET_BIND_SERVICE".to_owned(), "NET_RAW".to_owned()]));
    assert_eq!(of(Level::Baseline).and_then(|hardening| hardening.capabilities()).map(|list| list.len()), Some(12));
}

proptest! {
    /// What a strict level allows, a permissive one allows too.
    #[test]
    fn levels_are_ordered(binds in prop::collection::vec("(/[a-z.]{0,4}){0,3}(:/[a-z]{1,3}){0,2}(:r[ow])?", 0..3), network in "(|host|shop|other)", user in "(|0|7|root)") {
        let container = ContainerSpec { system_volumes: binds, user, ..ContainerSpec::default() };
        let spec = PodGroupSpec { pod: PodSpec { network, ..pod(container) }, ..PodGroupSpec::default() };
        let found = Level::ALL.map(|level| Policy::of(level).check(&spec).len());
        prop_assert!(found[0] >= found[1] && found[1] >= found[2], "{:?}", found);
    }

    /// A bind that a strict level allows lies in no protected path, however it is written.
    #[test]
    fn no_notation_reaches_a_protected_path(parts in prop::collection::vec("(run|var|docker\\.sock|\\.\\.|\\.||proc|1|sys)", 1..7)) {
        let path = format!("/{}", parts.join("/"));
        let is_never = NEVER.iter().any(|never| lies_in(&normalized(&path), never));
        let found = rules(&Policy::of(Level::Trusted), &with_bind(&format!("{path}:/x")));
        prop_assert_eq!(found.contains(&Rule::Never), is_never);
    }
}
