//! Groups that nobody touches: whatever happens to their containers was done by a fault.

use std::time::Duration;

use crate::chaos::scenario::group_on;
use crate::cluster::docker::{ContainerView, Engine};
use crate::cluster::{Answer, Cluster, Error, Request, eventually};
use reqwest::Method;

const GROUPS: u32 = 3;
const INSTANCES: u32 = 2;
/// Six starts on a machine that is busy.
const SOON: Duration = Duration::from_secs(60);

/// The containers of the calm groups and when each was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ControlGroups(Vec<(ContainerView, Option<String>)>);

impl ControlGroups {
    /// Deploys the groups and waits until all of them run.
    pub(crate) async fn deploy(cluster: &Cluster) -> Result<Self, Error> {
        for number in 1..=GROUPS {
            let name = format!("calm{number}-{}.web.web", cluster.tag());
            let body = Some(group_on(&name, INSTANCES, Some("calm"), |_| {}));
            let request = Request { method: Method::POST, path: "/api/podgroups".to_owned(), body };
            let what = format!("calm{number} is accepted");
            let key = format!("calm-{number}");
            eventually(SOON, &what, async || match cluster.api.call(0, &request, Some(&key)).await {
                Answer::Said { status: 202, .. } => Some(()),
                Answer::Said { .. } | Answer::Nothing { .. } => None,
            })
            .await?;
        }
        eventually(SOON, "the calm groups run", async || {
            let calm = Self::look(cluster).await.ok()?;
            let all = calm.0.len() == (GROUPS * INSTANCES) as usize && calm.0.iter().all(|(seen, _)| seen.running);
            all.then_some(calm)
        })
        .await
    }

    /// The containers as they are now.
    pub(crate) async fn look(cluster: &Cluster) -> Result<Self, Error> {
        Self::of(&cluster.engine, &cluster.id, |seen| seen.group.starts_with("calm")).await
    }

    /// The containers of a cluster in an engine that `count`, as they are now.
    pub(crate) async fn of(
        engine: &Engine,
        cluster: &str,
        count: impl Fn(&ContainerView) -> bool,
    ) -> Result<Self, Error> {
        let mut found = Vec::new();
        for seen in engine.of_cluster(cluster).await?.into_iter().filter(count) {
            let started_at = engine.started_at(&seen.id).await;
            found.push((seen, started_at));
        }
        Ok(Self(found))
    }

    /// The containers.
    pub(crate) fn seen(&self) -> impl Iterator<Item = &ContainerView> {
        self.0.iter().map(|(seen, _)| seen)
    }

    /// Every container that is not as it was.
    pub(crate) fn disturbed(&self, now: &Self) -> Vec<String> {
        let gone = self.0.iter().filter(|one| !now.0.contains(one)).map(|one| format!("was {one:?}"));
        let fresh = now.0.iter().filter(|one| !self.0.contains(one)).map(|one| format!("is {one:?}"));
        gone.chain(fresh).collect()
    }
}
