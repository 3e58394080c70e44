//! A rollout as a test sees it: its views in the API, commands to it, and its containers.

use std::time::Duration;

use contract::pod_id::PodId;
use contract::record::RevisionOutcome;
use contract::rollout_view::{RevisionsView, RolloutPhase, RolloutPod, RolloutStatus, RolloutView};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::images;
use crate::cluster::{Cluster, demo_group, eventually};
use crate::docker::Workload;

/// A step of a release on two cores, with a take-over in between.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// A demo group with the fields of a release.
pub(super) fn group(name: &str, count: u32, fields: &Value) -> Value {
    let mut group = demo_group(name, count);
    // The tests watch each step of a rollout: they do not wait 10 s for every instance, and they say when to roll back.
    group["MinReadySeconds"] = 0.into();
    group["FailureAction"] = "Hold".into();
    for (key, value) in fields.as_object().expect("fields") {
        group[key] = value.clone();
    }
    group
}

/// The pod of a group, with another image.
pub(super) fn with_image(group: &Value, image: &str) -> Value {
    let mut pod = group["Pod"].clone();
    pod["Containers"][0]["Image"] = image.into();
    pod
}

/// The revision a container was made for.
pub(super) fn revision(container: &Workload) -> u32 {
    let pod: PodId = container.name.parse().expect("a container is called after its pod");
    pod.version
}

pub(super) struct Rollout<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl<'a> Rollout<'a> {
    /// The rollout of a group that the caller creates.
    pub(super) async fn of(cluster: &'a Cluster, name: &str) -> Self {
        images::make().await;
        Self { cluster, name: name.to_owned() }
    }

    /// Creates the group, and waits for nothing.
    pub(super) async fn open(cluster: &'a Cluster, group: &Value) -> Self {
        let release = Self::of(cluster, group["Name"].as_str().expect("a name")).await;
        cluster.accepted(Method::POST, "/api/podgroups", Some(group)).await;
        release
    }

    /// Creates the group and waits until all of it is available.
    pub(super) async fn deployed(cluster: &'a Cluster, group: &Value) -> Self {
        let release = Self::open(cluster, group).await;
        release.completed(0).await;
        release
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its view; none while the group is unknown or there is no leader.
    pub(super) async fn view(&self) -> Option<RolloutView> {
        let (status, text) =
            self.cluster.call(0, Method::GET, &format!("/api/rollouts?name={}", self.name), None).await;
        match status {
            StatusCode::OK => {
                Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("a RolloutView: {error}\n{text}")))
            }
            StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE => None,
            other => panic!("{}: {other} {text}", self.name),
        }
    }

    /// Waits until it is what `wanted` says.
    pub(super) async fn until(&self, what: &str, wanted: impl Fn(&RolloutView) -> bool) -> RolloutView {
        let mut last = None;
        let found = tokio::time::timeout(SOON, async {
            let mut pause = tokio::time::interval(Duration::from_millis(50));
            loop {
                pause.tick().await;
                if let Some(view) = self.view().await {
                    if wanted(&view) {
                        return view;
                    }
                    last = Some(view);
                }
            }
        });
        match found.await {
            Ok(view) => view,
            Err(_) => {
                let containers = self.containers().await;
                panic!("{} never: {what}\n{last:#?}\n{containers:#?}", self.name)
            }
        }
    }

    /// Waits until every instance is at revision `release` and available.
    pub(super) async fn completed(&self, release: u32) -> RolloutView {
        self.until(&format!("release {release} is complete"), |view| {
            view.release == release && view.phase == RolloutPhase::Completed && view.status == RolloutStatus::Complete
        })
        .await
    }

    /// Asks for another pod.
    pub(super) async fn change(&self, pod: &Value) {
        self.patched("spec", Some(pod)).await;
    }

    /// A `PATCH` that must be accepted.
    pub(super) async fn patched(&self, command: &str, body: Option<&Value>) {
        let (status, text) = self.patch(command, body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{command}: {text}");
    }

    pub(super) async fn patch(&self, command: &str, body: Option<&Value>) -> (StatusCode, String) {
        let path = format!("/api/podgroups?name={}&cmd={command}", self.name);
        self.cluster.call(0, Method::PATCH, &path, body).await
    }

    pub(super) async fn containers(&self) -> Vec<Workload> {
        self.cluster.engine.of_group(self.cluster.id(), &self.name).await
    }

    /// The containers, once there are exactly the instances 1..=count and each runs once.
    pub(super) async fn exactly(&self, count: u32) -> Vec<Workload> {
        self.cluster.exactly(&self.name, count, SOON).await
    }

    pub(super) async fn history(&self) -> RevisionsView {
        let path = format!("/api/revisions?name={}", self.name);
        eventually(SOON, "the revisions can be read", async || {
            let (status, text) = self.cluster.call(1, Method::GET, &path, None).await;
            (status == StatusCode::OK).then(|| serde_json::from_str(&text).expect("a RevisionsView"))
        })
        .await
    }

    /// Number, outcome and what it copies, of every revision.
    pub(super) async fn outcomes(&self) -> Vec<(u32, RevisionOutcome, Option<u32>)> {
        let revisions = self.history().await.revisions.into_iter();
        revisions.map(|revision| (revision.revision, revision.outcome, revision.copies)).collect()
    }
}

/// Every pod of every instance.
pub(super) fn pods(view: &RolloutView) -> impl Iterator<Item = &RolloutPod> {
    view.instances.iter().flat_map(|instance| &instance.pods)
}
