//! Compares what the accepted commands add up to with what the API says and what the engine has.
//!
//! Work may still be under way when it looks first, so it looks again until everything agrees or the time is up; only what
//! disagrees at the end is broken.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use contract::api::PodGroupWithSpec;
use contract::state::TargetState;
use contract::switches::Constraint;
use serde_json::Value;

use crate::chaos::model::{ExpectedState, Kind, Object};
use crate::cluster::docker::ContainerView;
use crate::cluster::specs::MARK;
use crate::cluster::{Answer, Api, Cluster};

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokenPromise {
    pub(crate) promise: Promise,
    pub(crate) what: String,
}

/// What was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// An acknowledged command has its effect.
    Kept,
    /// Nothing takes effect twice, and nothing runs twice.
    Once,
    /// A fault of the control plane touches no container.
    Undisturbed,
    /// A deposed leader changes nothing.
    Fenced,
    /// What an experiment must not touch stays as it is: its own containers, foreign ones, restart budgets.
    Spared,
    /// A bad message hurts nobody, and is kept with the reason.
    Buried,
}

/// Looks until everything agrees or `within` has passed; says what does not and how long it took.
pub(crate) async fn settle(cluster: &Cluster, objects: &[Object], within: Duration) -> (Vec<BrokenPromise>, Duration) {
    let begun = Instant::now();
    loop {
        let broken = compare(cluster, objects).await;
        if broken.is_empty() || begun.elapsed() > within {
            return (broken, begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn compare(cluster: &Cluster, objects: &[Object]) -> Vec<BrokenPromise> {
    let Ok(containers) = cluster.engine.of_cluster(&cluster.id).await else {
        return vec![BrokenPromise { promise: Promise::Kept, what: "the engine does not answer".to_owned() }];
    };
    let mut by_group: BTreeMap<String, Vec<ContainerView>> = BTreeMap::new();
    for seen in containers {
        by_group.entry(seen.group.clone()).or_default().push(seen);
    }
    let mut broken = Vec::new();
    for object in objects.iter().filter(|object| !object.doubtful) {
        let found = by_group.get(&object.name).map_or(&[][..], Vec::as_slice);
        let flaws = match object.kind {
            Kind::Group { .. } => group_flaws(&cluster.api, object, found).await,
            Kind::Constraint => constraint_flaws(&cluster.api, object).await,
            Kind::Callback => callback_flaws(&cluster.api, object).await,
        };
        let history = object.history.iter().rev().take(8).rev().cloned().collect::<Vec<_>>().join("; ");
        broken.extend(flaws.into_iter().map(|(promise, flaw)| BrokenPromise {
            promise,
            what: format!("{}: {flaw}\n    expected {:?}\n    last accepted: {history}", object.name, object.expected),
        }));
    }
    broken
}

type Flaw = (Promise, String);

async fn group_flaws(api: &Api, object: &Object, containers: &[ContainerView]) -> Vec<Flaw> {
    let path = format!("/api/podgroups?name={}", object.name);
    let (group, expected) = match (api.get(0, &path).await, &object.expected) {
        (Answer::Said { status: 404, .. }, None) => {
            let flaw = || (Promise::Once, format!("removed, but there are {containers:?}"));
            return if containers.is_empty() { Vec::new() } else { vec![flaw()] };
        }
        (Answer::Said { status: 404, .. }, Some(_)) => return vec![(Promise::Kept, "does not exist".to_owned())],
        (Answer::Said { status: 200, .. }, None) => return vec![(Promise::Kept, "still exists".to_owned())],
        (Answer::Said { status: 200, body }, Some(expected)) => (body, expected),
        (other, _) => return vec![(Promise::Kept, format!("cannot be read: {other:?}"))],
    };
    let group: PodGroupWithSpec = match serde_json::from_value(group) {
        Ok(group) => group,
        Err(error) => return vec![(Promise::Kept, format!("cannot be read: {error}"))],
    };
    let rollbacks = if group.spec.version == expected.version { 0 } else { rollbacks(api, &object.name).await };
    let mut flaws = said_flaws(&group, expected, rollbacks);
    flaws.extend(container_flaws(group.spec.version, rollbacks > 0, expected, containers));
    flaws
}

/// What the API says and should not.
fn said_flaws(group: &PodGroupWithSpec, expected: &ExpectedState, rollbacks: u32) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let version = group.spec.version;
    if version < expected.version {
        flaws.push((Promise::Kept, format!("version {version}, {} patches were accepted", expected.version)));
    } else if version > expected.version + rollbacks {
        let accepted = expected.version;
        flaws.push((Promise::Once, format!("version {version}, {accepted} patches, {rollbacks} rollbacks")));
    }
    let mark = format!("{MARK}={}", expected.mark);
    let env = group.spec.pod.containers.first().map(|container| container.env.clone()).unwrap_or_default();
    if rollbacks == 0 && !env.contains(&mark) {
        flaws.push((Promise::Kept, format!("holds {env:?}, not {mark}")));
    }
    if group.spec.num_instances != i64::from(expected.count) {
        flaws.push((Promise::Kept, format!("has {} instances", group.spec.num_instances)));
    }
    let stopped = group.pods.iter().filter(|pod| pod.target_state == TargetState::Stop).map(|pod| pod.instance_no);
    let stopped: Vec<u32> = stopped.collect();
    if !stopped.iter().eq(&expected.stopped) {
        let error = &group.last_error;
        flaws.push((Promise::Kept, format!("instances {stopped:?} shall be stopped; its last error: {error:?}")));
    }
    flaws
}

/// What the engine has and should not, or the other way round.
fn container_flaws(
    version: u32,
    rolled_back: bool,
    expected: &ExpectedState,
    containers: &[ContainerView],
) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for instance in 1..=expected.count {
        let mine: Vec<&ContainerView> = containers.iter().filter(|seen| seen.instance == instance).collect();
        let shall_run = !expected.stopped.contains(&instance);
        match mine.as_slice() {
            [] if shall_run => flaws.push((Promise::Kept, format!("instance {instance} has no container"))),
            [] => {}
            [one] if one.running != shall_run => {
                flaws.push((Promise::Kept, format!("instance {instance} shall run: {shall_run}, found {one:?}")));
            }
            [one] if shall_run && one.version != version && !rolled_back => {
                flaws.push((Promise::Kept, format!("instance {instance} is not of version {version}: {one:?}")));
            }
            [_] => {}
            more => flaws.push((Promise::Once, format!("instance {instance} is there more than once: {more:?}"))),
        }
    }
    let surplus = containers.iter().filter(|seen| seen.instance == 0 || seen.instance > expected.count);
    flaws.extend(surplus.map(|seen| (Promise::Once, format!("surplus {seen:?}"))));
    flaws
}

async fn rollbacks(api: &Api, name: &str) -> u32 {
    let path = format!("/api/events?group={name}&kind=RolledBack&limit=1000");
    let Answer::Said { status: 200, body } = api.get(0, &path).await else { return 0 };
    let count = body["Events"].as_array().map_or(0, Vec::len);
    u32::try_from(count).unwrap_or(u32::MAX)
}

async fn constraint_flaws(api: &Api, object: &Object) -> Vec<Flaw> {
    let path = format!("/api/constraints?type={}", object.name);
    let said = match api.get(1, &path).await {
        Answer::Said { status: 404, .. } => None,
        Answer::Said { status: 200, body } => serde_json::from_value::<Constraint>(body).ok(),
        other => return vec![(Promise::Kept, format!("cannot be read: {other:?}"))],
    };
    let expected = object.expected.as_ref().map(|expected| format!("m{}", expected.mark));
    let value = said.map(|constraint| constraint.value);
    if value == expected { Vec::new() } else { vec![(Promise::Kept, format!("is {value:?}, not {expected:?}"))] }
}

async fn callback_flaws(api: &Api, object: &Object) -> Vec<Flaw> {
    let there = match api.get(1, "/api/notifies").await {
        Answer::Said { status: 404, .. } => false,
        Answer::Said { status: 200, body } => mentions(&body, &object.name),
        other => return vec![(Promise::Kept, format!("cannot be read: {other:?}"))],
    };
    let expected = object.expected.is_some();
    if there == expected {
        Vec::new()
    } else {
        vec![(Promise::Kept, format!("is there: {there}, expected: {expected}"))]
    }
}

fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Array(values) => values.iter().any(|value| mentions(value, text)),
        Value::Object(members) => members.iter().any(|(key, value)| key == text || mentions(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(instance: u32, version: u32, running: bool) -> ContainerView {
        let (group, node, name) = ("g".to_owned(), "n".to_owned(), String::new());
        ContainerView { group, instance, version, node, name, id: format!("{instance}-{version}"), running }
    }
    fn promises(expected: &ExpectedState, containers: &[ContainerView]) -> Vec<Promise> {
        container_flaws(1, false, expected, containers).into_iter().map(|(promise, _)| promise).collect()
    }

    #[test]
    fn exactly_the_wanted_containers_are_no_flaw_and_everything_else_is() {
        let expected = ExpectedState { version: 1, count: 2, stopped: [2].into(), mark: 0 };
        assert_eq!(promises(&expected, &[seen(1, 1, true), seen(2, 1, false)]), []);
        assert_eq!(promises(&expected, &[seen(1, 1, true)]), [], "who shall not run need not be there");
        assert_eq!(promises(&expected, &[]), [Promise::Kept]);
        assert_eq!(promises(&expected, &[seen(1, 0, true)]), [Promise::Kept], "an old version");
        assert_eq!(promises(&expected, &[seen(1, 1, true), seen(2, 1, true)]), [Promise::Kept], "it shall not run");
        assert_eq!(promises(&expected, &[seen(1, 0, true), seen(1, 1, true)]), [Promise::Once]);
        assert_eq!(promises(&expected, &[seen(1, 1, true), seen(3, 1, true)]), [Promise::Once], "surplus");
    }

    #[test]
    fn a_version_too_low_is_lost_and_one_too_high_is_double_unless_rolled_back() {
        let expected = ExpectedState { version: 2, mark: 5, ..ExpectedState::default() };
        let group = |version: u32| {
            let mut group = PodGroupWithSpec::default();
            group.spec.version = version;
            let container = contract::spec::ContainerSpec { env: vec![format!("{MARK}=5")], ..Default::default() };
            group.spec.pod.containers = vec![container];
            group
        };
        let promises = |version, rollbacks| {
            said_flaws(&group(version), &expected, rollbacks)
                .into_iter()
                .map(|(promise, _)| promise)
                .collect::<Vec<_>>()
        };
        assert_eq!(promises(2, 0), []);
        assert_eq!(promises(1, 0), [Promise::Kept]);
        assert_eq!(promises(3, 0), [Promise::Once]);
        assert_eq!(promises(3, 1), []);
    }
}
