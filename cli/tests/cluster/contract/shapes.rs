//! The JSON of the original API with live data: each object has exactly its members, and the Python console can read it.
//!
//! S3: a group as console posts it, and how its containers are created.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::time::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::console;
use crate::cluster::{Cluster, IMAGE, demo_group, eventually};

const SOON: Duration = Duration::from_secs(60);

/// Every object of `GET /api/podgroups`, and its members in the words of the contract.
const OBJECTS: [(&str, &str); 17] = [
    ("", "Spec PrevState Pods Healthst State OOMkilled LastError UpdatedAt"),
    ("/Spec", "Name Namespace Version CreatedAt UpdatedAt Pod NumInstances RestartPolicy"),
    (
        "/Spec/Pod",
        "Name Namespace Version CreatedAt UpdatedAt Network Containers Filters Labels Dependencies Annotation Stateful SetupTime \
         KillTimeout PrevState HealthConfig",
    ),
    ("/Spec/Pod/PrevState", "NodeName IPs"),
    ("/Spec/Pod/HealthConfig", "cmd options"),
    ("/Spec/Pod/HealthConfig/options", "interval timeout retries"),
    (
        "/Spec/Pod/Containers/0",
        "Name Namespace Version CreatedAt UpdatedAt Image Env User WorkingDir DnsSearch Volumes SystemVolumes CloudVolumes \
         Command Entrypoint CpuLimit MemoryLimit Expose LogConfig",
    ),
    ("/Spec/Pod/Containers/0/LogConfig", "Type Config"),
    ("/PrevState/0", "NodeName IPs"),
    (
        "/Pods/0",
        "InstanceNo Containers Healthst State OOMkilled LastError UpdatedAt TargetState DriftCount RestartCount RestartAt",
    ),
    ("/Pods/0/Containers/0", "Id Runtime NodeName NodeIp ContainerIp NodePort ContainerPort Protocol"),
    (
        "/Pods/0/Containers/0/Runtime",
        "AppArmorProfile Args Config Created Driver ExecDriver ExecIDs HostConfig HostnamePath HostsPath Id Image LogPath \
         MountLabel Name NetworkSettings Path ProcessLabel ResolvConfPath RestartCount State Volumes VolumesRW Node",
    ),
    (
        "/Pods/0/Containers/0/Runtime/Config",
        "AttachStderr AttachStdin AttachStdout Cmd Domainname Entrypoint Env ExposedPorts Hostname Image Labels \
         MacAddress NetworkDisabled OnBuild OpenStdin PortSpecs StdinOnce Tty User VolumeDriver Volumes WorkingDir",
    ),
    (
        "/Pods/0/Containers/0/Runtime/HostConfig",
        "Binds CapAdd CapDrop ContainerIDFile Dns DnsSearch ExtraHosts IpcMode Links LxcConf NetworkMode PidMode PortBindings \
         Privileged PublishAllPorts ReadonlyRootfs RestartPolicy SecurityOpt VolumesFrom LogConfig CpuShares Memory \
         CgroupParent BlkioWeight BlkioWeightDevice BlkioDeviceReadBps BlkioDeviceWriteBps BlkioDeviceReadIOps \
         BlkioDeviceWriteIOps CpuPeriod CpuQuota CpusetCpus CpusetMems Devices DiskQuota KernelMemory MemoryReservation \
         MemorySwap MemorySwappiness OomKillDisable PidsLimit Ulimits CpuCount CpuPercent IOMaximumIOps IOMaximumBandwidth",
    ),
    (
        "/Pods/0/Containers/0/Runtime/NetworkSettings",
        "Bridge Gateway GlobalIPv6Address GlobalIPv6PrefixLen IPAddress IPPrefixLen IPv6Gateway LinkLocalIPv6Address \
         LinkLocalIPv6PrefixLen MacAddress Ports Networks",
    ),
    (
        "/Pods/0/Containers/0/Runtime/State",
        "Dead Error ExitCode FinishedAt OOMKilled Paused Pid Restarting Running StartedAt Health",
    ),
    ("/Pods/0/Containers/0/Runtime/Node", "Name ID Addr IP Cpus Memory Labels"),
];

/// What console posts: no versions, no times, `null` where it has nothing, two misspelt members.
fn posted() -> Value {
    let annotation = json!({
        "mountpoint": ["shape.lain.local"], "https_only": true, "service_name": "", "backup": [], "logs": [],
        "healthcheck": "/ping", "ports": [],
    });
    json!({
        "Name": "shape.web.web", "Namespace": "shape", "NumInstances": 2, "RestartPolicy": 1, "CreateAt": null,
        "UpdateAt": null,
        "Pod": {
            "Name": "shape.web.web", "Namespace": "shape", "Filters": ["constraint:group==default"],
            "Labels": {"team": "x"}, "Dependencies": [], "Annotation": annotation.to_string(), "Stateful": false,
            "SetupTime": 5, "KillTimeout": 15, "HealthConfig": {},
            "Containers": [{
                "Image": IMAGE, "Env": ["TZ=UTC", "LAIN_APPNAME=shape", "LAIN_PROCNAME=web"], "User": "", "WorkingDir": "",
                "DnsSearch": ["shape.lain"], "Volumes": ["/lain/logs"], "SystemVolumes": [], "CloudVolumes": [],
                "Command": null, "Entrypoint": null, "CpuLimit": 1, "MemoryLimit": 33_554_432, "Expose": 8080,
                "LogConfig": null,
            }],
        },
    })
}

/// S3.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_as_console_posts_it_has_every_member_of_the_contract_and_console_can_read_it() {
    let cluster = Cluster::start(&[]).await;
    let began = body_of(&cluster, "/api/engine/config").await;
    assert_eq!(began, json!({"readonly": false, "maintenance": false}));
    cluster.accepted(Method::POST, "/api/podgroups", Some(&posted())).await;
    // From the first moment on console shows the page, however far the deployment is.
    let group = eventually(SOON, "both run, and every state on the way can be read", async || {
        let body = body_of(&cluster, "/api/podgroups?name=shape.web.web").await;
        let shown = console::read(&body).unwrap_or_else(|why| panic!("console stumbles: {why}\n{body:#}"));
        // The agent performs the check of the annotation: docs/compatibility.md.
        let is_healthy = |pod: &Value| pod["Containers"][0]["Runtime"]["State"]["Health"]["Status"] == "healthy";
        let are_healthy = body["Pods"].as_array().is_some_and(|pods| pods.iter().all(is_healthy));
        (body["State"] == 2 && are_healthy && shown.instances.iter().all(|instance| instance.running)).then_some(body)
    })
    .await;
    has_exactly_the_members(&group);
    is_read_by_console(&group);
    has_the_container_settings_of_the_original(&group);
    is_in_utc(&group, "");
    dependency_pods_are_read_by_console_too(&cluster).await;
    let nodes = body_of(&cluster, "/api/nodes").await;
    let named = |name: &Value| nodes.as_array().into_iter().flatten().any(|node| node["Name"] == *name);
    assert!(named(&group["Pods"][0]["Containers"][0]["NodeName"]), "{nodes}");
}

/// `GET /api/depends`: pods by the namespace of those who need them.
async fn dependency_pods_are_read_by_console_too(cluster: &Cluster) {
    let path = "/api/depends?name=svc.portal.portal";
    cluster.accepted(Method::POST, "/api/depends", Some(&demo_group("svc.portal.portal", 0)["Pod"])).await;
    assert_eq!(body_of(cluster, path).await["Pods"], json!({}), "nothing needs it yet");
    let mut user = demo_group("cons.web.web", 2);
    user["Pod"]["Dependencies"] = json!([{"PodName": "svc.portal.portal", "Policy": 0}]);
    cluster.accepted(Method::POST, "/api/podgroups", Some(&user)).await;
    let (body, shown) = eventually(SOON, "both portals are shown", async || {
        let body = body_of(cluster, path).await;
        let shown = console::read_dependency(&body).unwrap_or_else(|why| panic!("console stumbles: {why}\n{body:#}"));
        let running = shown.iter().flat_map(|(_, shown)| &shown.instances).filter(|instance| instance.running).count();
        (running == 2).then_some((body, shown))
    })
    .await;
    let [(namespace, pods)] = &shown[..] else { panic!("one namespace: {shown:?}") };
    assert_eq!((namespace.as_str(), pods.last_error.as_str()), ("cons", ""));
    let named = |name: &str| name.starts_with("/svc.portal.portal-node-") && name.ends_with("-cons.v0-i0-d0");
    assert!(pods.instances.iter().all(|instance| named(&instance.container_name)), "{pods:?}");
    let (pod, members) = (&body["Pods"]["cons"][0], OBJECTS[9].1);
    let found: BTreeSet<&str> = pod.as_object().expect("a pod").keys().map(String::as_str).collect();
    assert_eq!((found, &pod["InstanceNo"]), (members.split(' ').collect(), &json!(0)));
}

async fn body_of(cluster: &Cluster, path: &str) -> Value {
    let (status, text) = cluster.call(1, Method::GET, path, None).await;
    assert!(status.is_success(), "{path}: {status} {text}");
    serde_json::from_str(&text).expect("JSON")
}

fn has_exactly_the_members(group: &Value) {
    for (pointer, words) in OBJECTS {
        let object = group.pointer(pointer).and_then(Value::as_object);
        let object = object.unwrap_or_else(|| panic!("{pointer} is no object:\n{group:#}"));
        let found: Vec<&str> = object.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = words.split_whitespace().collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{pointer}");
    }
}

fn is_read_by_console(group: &Value) {
    let shown = console::read(group).expect("console reads it");
    assert_eq!((shown.last_error.as_str(), shown.instances.len()), ("", 2));
    for (number, instance) in (1..).zip(&shown.instances) {
        assert_eq!(instance.container_name, format!("/shape.web.web.v0-i{number}-d0"));
        assert_eq!((instance.container_id.len(), instance.container_port), (64, 8080));
        assert!(instance.started_at > Timestamp::NEVER && !instance.node_ip.is_empty());
        assert!(instance.container_ip.parse::<std::net::IpAddr>().is_ok(), "{}", instance.container_ip);
        let number = format!("DEPLOYD_POD_INSTANCE_NO={number}");
        for entry in [
            "LAIN_APPNAME=shape",
            "LAIN_PROCNAME=web",
            &number,
            "DEPLOYD_POD_NAME=shape.web.web",
            "DEPLOYD_POD_NAMESPACE=shape",
        ] {
            assert!(instance.env.iter().any(|found| found == entry), "{entry} is not in {:?}", instance.env);
        }
        // Placement expressions travelled in Env because Swarm read them there; here they are no one's environment.
        assert!(!instance.env.iter().any(|entry| entry.starts_with("constraint:") || entry.starts_with("affinity:")));
    }
}

fn has_the_container_settings_of_the_original(group: &Value) {
    let runtime = &group["Pods"][0]["Containers"][0]["Runtime"];
    let host = &runtime["HostConfig"];
    assert_eq!((&host["Memory"], &host["MemorySwap"]), (&json!(33_554_432), &json!(33_554_432)));
    assert_eq!((&host["CpuPeriod"], &host["CpuQuota"]), (&json!(1_000_000), &json!(500_000)));
    assert_eq!((&host["NetworkMode"], &host["DnsSearch"]), (&json!("shape"), &json!(["shape.lain"])));
    assert!(["", "no"].contains(&host["RestartPolicy"]["Name"].as_str().expect("a name")), "{host}");
    let bind = host["Binds"][0].as_str().expect("a bind").replace("//", "/");
    assert!(bind.ends_with("/shape/shape.web.web/1/lain/logs:/lain/logs"), "{bind}");
    assert!(host["PortBindings"]["8080/tcp"].is_array() && runtime["Config"]["ExposedPorts"]["8080/tcp"].is_object());
    let labels = &runtime["Config"]["Labels"];
    for (label, value) in [
        (contract::labels::POD_NAME, "shape.web.web"),
        (contract::labels::POD_NAMESPACE, "shape"),
        (contract::labels::INSTANCE, "1"),
        (contract::labels::VERSION, "0"),
        (contract::labels::DRIFT, "0"),
        (contract::labels::CONTAINER_INDEX, "0"),
        ("team", "x"),
    ] {
        assert_eq!(labels[label], value, "{label}");
    }
    assert_eq!(labels[contract::labels::ANNOTATION], group["Spec"]["Pod"]["Annotation"]);
}

/// Every time is UTC, written with `Z`.
fn is_in_utc(value: &Value, at: &str) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| is_in_utc(value, &format!("{at}/{key}"))),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| is_in_utc(item, &format!("{at}/{index}")))
        }
        Value::String(text) if at.ends_with("At") || at.ends_with("/Created") => {
            assert!(text.ends_with('Z') && Timestamp::parse(text).is_ok(), "{at}: {text}");
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
