//! Direct access to Docker, beside the adapter under test.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use agent::container::{Host, Plan, plan};
use agent::docker::Engine;
use agent::engine_health::EngineHealth;
use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig, NetworkCreateRequest};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, EventsOptionsBuilder, KillContainerOptionsBuilder,
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder, RemoveImageOptions,
    TagImageOptionsBuilder,
};
use contract::labels::{self, Owner};
use contract::pod_id::PodId;
use contract::spec::{ContainerSpec, PodSpec};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use serde_json::Value;

pub(crate) const SOCKET: &str = "/var/run/docker.sock";
pub(crate) const IMAGE: &str = "deployd-test/demo:1";

/// Label of the image: digest of the program in it.
const DEMO_LABEL: &str = "demo";

/// The containers and networks of one test.
pub(crate) struct Cluster {
    pub(crate) raw: Docker,
    pub(crate) id: String,
}

/// Runs a test in its own cluster and cleans up, also after a failure.
pub(crate) async fn in_cluster(test: impl AsyncFnOnce(&Cluster)) {
    let raw = Docker::connect_with_unix(SOCKET, 60, bollard::API_DEFAULT_VERSION)
        .expect("a Docker engine at /var/run/docker.sock; ./deploy/test gets one");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
    let cluster = Cluster { raw, id: format!("test-{now}-{}", std::process::id()) };
    cluster.ensure_image().await;
    let ended = std::panic::AssertUnwindSafe(test(&cluster)).catch_unwind().await;
    cluster.clean().await;
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

impl Cluster {
    pub(crate) fn host(&self, node: &str) -> Host {
        Host {
            owner: Owner { cluster: self.id.clone(), node: node.parse().expect("a name") },
            volume_root: std::env::temp_dir().join(&self.id).display().to_string(),
            cloud_volume_root: "/nowhere".to_owned(),
            quota_cores: 8,
            publish_ip: "127.0.0.1".to_owned(),
            throttles: Vec::new(),
        }
    }
    pub(crate) fn engine(&self, node: &str) -> Engine {
        Engine::new(PathBuf::from(SOCKET), self.host(node), 6, EngineHealth::new().0)
    }
    /// Containers that are stopped with this signal. The kernel drops signals that process 1 does not handle.
    pub(crate) async fn ending_with(&self, signal: &str, count: usize) -> Vec<String> {
        let mut made = Vec::new();
        for number in 0..count {
            let body = ContainerCreateBody {
                image: Some(IMAGE.to_owned()),
                labels: Some(self.plan(&self.spec(1), 0).labels.into_iter().collect()),
                stop_signal: Some(signal.to_owned()),
                host_config: Some(HostConfig { network_mode: Some("none".to_owned()), ..Default::default() }),
                ..Default::default()
            };
            let options = CreateContainerOptionsBuilder::new().name(&format!("{}-{signal}-{number}", self.id)).build();
            let id = self.raw.create_container(Some(options), body).await.expect("creates").id;
            self.raw.start_container(&id, None).await.expect("starts");
            made.push(id);
        }
        made
    }
    /// A unique group name: all clusters of an engine share container names.
    pub(crate) fn pod(&self, instance: u32) -> PodId {
        PodId { group: self.id.parse().expect("a name"), instance, version: 1, drift: 0 }
    }
    pub(crate) fn spec(&self, count: usize) -> PodSpec {
        let container =
            ContainerSpec { image: IMAGE.to_owned(), memory_limit: 32 << 20, cpu_limit: 1, ..Default::default() };
        PodSpec {
            name: self.id.clone(),
            namespace: "test".to_owned(),
            network: "bridge".to_owned(),
            containers: vec![container; count],
            ..Default::default()
        }
    }
    pub(crate) fn plan(&self, spec: &PodSpec, index: usize) -> Plan {
        plan(&self.host("n1"), &self.pod(1), spec, index).expect("there is such a container")
    }
    pub(crate) async fn inspect(&self, id: &str) -> Option<Value> {
        let found = self.raw.inspect_container(id, None).await.ok()?;
        Some(serde_json::to_value(found).expect("encodes"))
    }
    pub(crate) async fn kill(&self, id: &str) {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        self.raw.kill_container(id, Some(options)).await.expect("kills");
    }
    /// Removes a container behind the agent's back.
    pub(crate) async fn remove(&self, id: &str) {
        let options = RemoveContainerOptionsBuilder::new().force(true).build();
        self.raw.remove_container(id, Some(options)).await.expect("removes");
    }
    /// Docker's events of a container since `since`, live.
    pub(crate) fn happenings(&self, id: &str, since: &str) -> impl Stream<Item = String> + use<> {
        self.events(EventsOptionsBuilder::new().since(since), id)
    }
    /// Number of starts of a container since `since`.
    pub(crate) async fn starts(&self, id: &str, since: &str) -> usize {
        let options = EventsOptionsBuilder::new().since(since).until(&engine_time());
        self.events(options, id).filter(|action| std::future::ready(action == "start")).count().await
    }
    /// Docker's time of an event of a container since `since`, in nanoseconds.
    pub(crate) async fn when(&self, id: &str, since: &str, action: &str) -> i64 {
        let filters = HashMap::from([("container", vec![id.to_owned()]), ("event", vec![action.to_owned()])]);
        let options = EventsOptionsBuilder::new().since(since).until(&engine_time()).filters(&filters).build();
        let events: Vec<_> = self.raw.events(Some(options)).collect().await;
        let first = events.into_iter().next().expect("it happened").expect("an event");
        first.time_nano.expect("a time")
    }
    fn events(&self, options: EventsOptionsBuilder, id: &str) -> impl Stream<Item = String> + use<> {
        let filters = HashMap::from([("container", vec![id.to_owned()])]);
        let events = self.raw.events(Some(options.filters(&filters).build()));
        events.filter_map(async |event| event.expect("an event").action)
    }
    pub(crate) async fn is_running(&self, id: &str) -> bool {
        self.inspect(id).await.is_some_and(|document| document["State"]["Running"] == true)
    }
    /// Ids of all containers of this test.
    pub(crate) async fn containers(&self) -> Vec<String> {
        let filters = HashMap::from([("label", vec![format!("{}={}", labels::CLUSTER, self.id)])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let found = self.raw.list_containers(Some(options)).await.expect("lists");
        found.into_iter().filter_map(|summary| summary.id).collect()
    }
    /// Creates a container behind the adapter's back, with a label of the test.
    pub(crate) async fn foreign(&self, name: &str, mut texts: HashMap<String, String>) -> String {
        texts.insert("deployd-test".to_owned(), self.id.clone());
        let body = ContainerCreateBody {
            image: Some(IMAGE.to_owned()),
            labels: Some(texts),
            host_config: Some(HostConfig { network_mode: Some("none".to_owned()), ..Default::default() }),
            ..Default::default()
        };
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let id = self.raw.create_container(Some(options), body).await.expect("creates").id;
        self.raw.start_container(&id, None).await.expect("starts");
        id
    }
    /// A second tag of the demo image, which counts as another image.
    pub(crate) async fn second_image(&self) -> String {
        let (repository, _) = IMAGE.split_once(':').expect("a tag");
        let options = TagImageOptionsBuilder::new().repo(repository).tag("2").build();
        self.raw.tag_image(IMAGE, Some(options)).await.expect("tags");
        format!("{repository}:2")
    }
    /// A foreign network with addresses chosen by Docker.
    pub(crate) async fn foreign_network(&self, name: &str) {
        let texts = HashMap::from([("deployd-test".to_owned(), self.id.clone())]);
        let request = NetworkCreateRequest { name: name.to_owned(), labels: Some(texts), ..Default::default() };
        self.raw.create_network(request).await.expect("makes the network");
    }
    pub(crate) async fn network(&self, name: &str) -> Value {
        let found = self.raw.inspect_network(name, None).await.expect("there is such a network");
        serde_json::to_value(found).expect("encodes")
    }
    pub(crate) async fn networks(&self, name: &str) -> usize {
        let filters = HashMap::from([("name", vec![name])]);
        let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
        self.raw.list_networks(Some(options)).await.expect("lists").len()
    }
    async fn clean(&self) {
        for label in [format!("{}={}", labels::CLUSTER, self.id), format!("deployd-test={}", self.id)] {
            let filters = HashMap::from([("label", vec![label])]);
            let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
            for summary in self.raw.list_containers(Some(options)).await.unwrap_or_default() {
                let options = RemoveContainerOptionsBuilder::new().force(true).build();
                self.raw.remove_container(&summary.id.unwrap_or_default(), Some(options)).await.ok();
            }
            let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
            for network in self.raw.list_networks(Some(options)).await.unwrap_or_default() {
                self.raw.remove_network(&network.id.unwrap_or_default()).await.ok();
            }
        }
        let fresh = format!("{}:{}", IMAGE.split(':').next().expect("a name"), self.id);
        self.raw.remove_image(&fresh, None::<RemoveImageOptions>, None).await.ok();
        std::fs::remove_dir_all(std::env::temp_dir().join(&self.id)).ok();
    }
    /// An image with the demo program as it is now; [`IMAGE`] may be older.
    pub(crate) async fn fresh_image(&self) -> String {
        let image = format!("{}:{}", IMAGE.split(':').next().expect("a name"), self.id);
        self.import(&image).await;
        image
    }
    async fn ensure_image(&self) {
        let known = self.raw.inspect_image(IMAGE).await.ok();
        let labels = known.and_then(|image| image.config?.labels).unwrap_or_default();
        // An engine may still have the image of an older demo.
        if labels.get(DEMO_LABEL) != Some(&demo_digest()) {
            self.import(IMAGE).await;
        }
    }
    async fn import(&self, image: &str) {
        let archive = super::tar::with_executable("demo", &std::fs::read(demo()).expect("the demo program"));
        let (repository, tag) = image.split_once(':').expect("a tag");
        let options = CreateImageOptionsBuilder::new()
            .from_src("-")
            .repo(repository)
            .tag(tag)
            .changes(vec!["ENTRYPOINT [\"/demo\"]".to_owned(), format!("LABEL {DEMO_LABEL}={}", demo_digest())])
            .build();
        let body = bollard::body_full(archive.into());
        let mut lines = self.raw.create_image(Some(options), Some(body), None);
        while let Some(line) = lines.next().await {
            line.expect("the engine takes the image");
        }
    }
}

fn demo_digest() -> String {
    contract::digest::Digest::of_bytes(&std::fs::read(demo()).expect("the demo program")).to_string()
}

/// Now, in Docker's format.
pub(crate) fn engine_time() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    format!("{}.{:09}", now.as_secs(), now.subsec_nanos())
}

/// Any block device of this machine.
pub(crate) fn block_device() -> String {
    let mut names: Vec<String> = std::fs::read_dir("/sys/block")
        .expect("the kernel's list")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| std::fs::read_to_string(format!("/sys/block/{name}/size")).is_ok_and(|size| size.trim() != "0"))
        .filter(|name| Path::new("/dev").join(name).exists())
        .collect();
    names.sort();
    format!("/dev/{}", names.last().expect("this machine has a disk"))
}

/// The demo program, built on demand.
fn demo() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the checkout");
    let program = root.join("target/demo/demo");
    if !program.exists() {
        let built = Command::new(root.join("deploy/build-demo")).current_dir(root).status().expect("runs");
        assert!(built.success(), "./deploy/build-demo failed");
    }
    program
}
