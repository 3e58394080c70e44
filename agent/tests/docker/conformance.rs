//! The same actions on Docker, through the agent's executor, and on the fake engine that tests use: both give the same results.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent::core::io::{Action, ActionFailure, ContainerSeen, Input};
use agent::docker::Engine;
use agent::metrics::Metrics;
use agent::policy::NodePolicy;
use agent::shell::executor::{ContainerRules, Executor};
use contract::labels::Owner;
use contract::pod_id::PodId;
use contract::spec::PodSpec;
use contract::time::Timestamp;
use testkit::engine::FakeEngine;
use testkit::random::Random;
use tokio::sync::mpsc;

use super::docker::{Cluster, in_cluster};

const GRACE: Duration = Duration::from_secs(10);

type ActionResult = Result<Option<ContainerSeen>, ActionFailure>;

trait Subject {
    async fn perform(&mut self, action: Action) -> ActionResult;
    async fn inventory(&self) -> Vec<ContainerSeen>;
    /// Another program creates a container of this name.
    async fn add_foreign(&mut self, name: &str);
}

struct Docker<'a> {
    cluster: &'a Cluster,
    engine: Arc<Engine>,
    executor: Executor,
    inputs: mpsc::Receiver<Input>,
}

impl<'a> Docker<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let (engine, (sender, inputs)) = (Arc::new(cluster.engine("n1")), mpsc::channel(1));
        let node = ContainerRules { host: cluster.host("n1"), policy: NodePolicy::new(&[], 512) };
        let executor = Executor::new(Arc::clone(&engine), node, sender, Metrics::new().0);
        Self { cluster, engine, executor, inputs }
    }
}

impl Subject for Docker<'_> {
    async fn perform(&mut self, action: Action) -> ActionResult {
        self.executor.perform(self.cluster.pod(1).key(), action);
        match self.inputs.recv().await {
            Some(Input::ActionDone { result, .. }) => result,
            other => panic!("not a result: {other:?}"),
        }
    }
    async fn inventory(&self) -> Vec<ContainerSeen> {
        self.engine.inventory().await.expect("lists")
    }
    async fn add_foreign(&mut self, name: &str) {
        self.cluster.foreign(name, HashMap::new()).await;
    }
}

struct Fake {
    engine: FakeEngine,
    owner: Owner,
    now: Timestamp,
}

impl Subject for Fake {
    async fn perform(&mut self, action: Action) -> ActionResult {
        self.now = self.now + Duration::from_secs(1);
        self.engine.perform(&self.owner, &action, self.now, &mut Random::new(0)).result
    }
    async fn inventory(&self) -> Vec<ContainerSeen> {
        self.engine.inventory(&self.owner)
    }
    async fn add_foreign(&mut self, name: &str) {
        self.engine.add_foreign(name, BTreeMap::new(), self.now);
    }
}

/// The ids of the containers in the sequence of their creation.
#[derive(Default)]
struct Ids(Vec<String>);

impl Ids {
    fn number(&mut self, id: &str) -> usize {
        if !self.0.iter().any(|known| known == id) {
            self.0.push(id.to_owned());
        }
        self.0.iter().position(|known| known == id).expect("just added")
    }
    /// What both engines must agree on. Addresses, times and exit codes depend on the machine.
    fn summary(&mut self, seen: &ContainerSeen) -> String {
        let (number, pod, index) = (self.number(&seen.id), &seen.identity.pod, seen.identity.index);
        let times = (seen.started_at.happened(), seen.finished_at >= seen.started_at);
        let (digest, has_ip) = (&seen.spec_digest, !seen.ip.is_empty());
        format!("{number}: {pod}[{index}] {:?} {:?} {times:?} ip {has_ip} {digest}", seen.phase, seen.health)
    }
    fn result(&mut self, result: &ActionResult) -> String {
        match result {
            Ok(Some(seen)) => self.summary(seen),
            Ok(None) => "gone".to_owned(),
            Err(ActionFailure::Refused(_)) => "refused".to_owned(),
            Err(ActionFailure::NoImage { trouble, .. }) => format!("no image: {trouble:?}"),
            Err(ActionFailure::Unreachable(_)) => "unreachable".to_owned(),
        }
    }
}

/// Performs the actions and describes every result.
async fn story(mut subject: impl Subject, pod: &PodId, spec: &PodSpec) -> Vec<String> {
    let (mut ids, mut lines) = (Ids::default(), Vec::new());
    let (spec, other) =
        (Arc::new(spec.clone()), Arc::new(PodSpec { annotation: "changed".to_owned(), ..spec.clone() }));
    let (address, hardening) = (String::new(), None);
    let create = |pod: &PodId| Action::Create {
        pod: pod.clone(),
        index: 0,
        spec: Arc::clone(&spec),
        address: address.clone(),
        hardening: hardening.clone(),
    };
    let created = subject.perform(create(pod)).await;
    lines.push(ids.result(&created));
    let id = ids.0.first().expect("a container").clone();
    let next = PodId { version: 2, ..pod.clone() };
    let (update, start) =
        (Action::Update { id: id.clone(), pod: pod.clone(), index: 0, spec: other }, Action::Start { id: id.clone() });
    let stop = Action::Stop { id: id.clone(), grace: GRACE };
    let replace = Action::Replace {
        old: id.clone(),
        grace: GRACE,
        pod: next.clone(),
        index: 0,
        spec: Arc::clone(&spec),
        address: String::new(),
        hardening: None,
    };
    let actions = [
        // A container of that name is adopted.
        create(pod),
        update.clone(),
        stop.clone(),
        stop.clone(),
        create(pod),
        stop.clone(),
        start.clone(),
        start.clone(),
        replace,
        // The first container is gone.
        start,
        stop,
        update,
        Action::ReadEnd { id: id.clone() },
        Action::Remove { id, grace: GRACE },
    ];
    for action in actions {
        let result = subject.perform(action.clone()).await;
        let kind = format!("{action:?}");
        lines.push(format!("{}: {}", kind.split(' ').next().unwrap_or_default(), ids.result(&result)));
    }
    let third = PodId { version: 3, ..next };
    subject.add_foreign(&third.to_string()).await;
    lines.push(ids.result(&subject.perform(create(&third)).await));
    lines.extend(subject.inventory().await.iter().map(|seen| ids.summary(seen)));
    lines
}

#[tokio::test]
async fn the_fake_engine_answers_like_docker() {
    in_cluster(async |cluster: &Cluster| {
        let (pod, spec, owner) = (cluster.pod(1), cluster.spec(1), cluster.host("n1").owner);
        let fake = Fake { engine: FakeEngine::new("c", 4), owner, now: Timestamp::from_millis(0) };
        assert_eq!(story(fake, &pod, &spec).await, story(Docker::new(cluster), &pod, &spec).await);
    })
    .await;
}
