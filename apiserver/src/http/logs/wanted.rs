//! The parameters of `GET /api/logs`, and which containers they name. Pure.

use std::collections::BTreeMap;

use contract::logs::LogTime;
use contract::name::NodeName;
use contract::pod_id::PodId;
use contract::query::{GroupView, PodView};
use contract::session::LogSelection;
use contract::time::Timestamp;

use crate::http::params::Params;
use crate::http::respond::{Refused, shown};

/// Containers that one request reads at most: each is a session of an agent.
pub(super) const MOST_SOURCES: usize = 100;

/// A container of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceKey {
    pub(super) instance: u32,
    pub(super) container: u32,
}

/// Where the container of a [`SourceKey`] is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogTarget {
    pub(super) pod: PodId,
    /// None while the instance has no place.
    pub(super) node: Option<NodeName>,
    /// When it last started; never before its first start.
    pub(super) started_at: Timestamp,
    /// What keeps the instance from running; empty when nothing is known.
    pub(super) why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    instance: Option<u32>,
    container: Option<u32>,
    tail: Option<u32>,
    since: Option<LogTime>,
    previous: bool,
    pub(super) follow: bool,
    /// Containers that the client has read until this time.
    after: BTreeMap<SourceKey, LogTime>,
}

impl Wanted {
    pub(super) fn read(params: &Params, now: Timestamp) -> Result<Self, Refused> {
        let wanted = Self {
            instance: number(params, "instance")?,
            container: number(params, "container")?,
            tail: number(params, "tail")?,
            since: params.text("since").map(|text| since(text, now)).transpose()?,
            previous: params.boolean("previous", false),
            follow: params.boolean("follow", false),
            after: after(params.text("after").unwrap_or_default())?,
        };
        if wanted.previous && wanted.follow {
            return Err(Refused::bad_request(
                "previous and follow exclude each other: the lines before the start are complete",
            ));
        }
        Ok(wanted)
    }

    /// The containers of the group that the parameters name; an error when they name none, or too many.
    pub(super) fn sources(&self, group: &GroupView) -> Result<Vec<SourceKey>, Refused> {
        let (name, count) = (&group.spec.name, group.spec.pod.containers.len());
        let last = group.pods.iter().map(|pod| pod.id.instance).max().unwrap_or(0);
        if let Some(instance) = self.instance
            && !group.pods.iter().any(|pod| pod.id.instance == instance)
        {
            let has = if last == 0 { "no instances".to_owned() } else { format!("the instances 1 to {last}") };
            return Err(Refused::not_found(format!("{name} has no instance {instance}; it has {has}")));
        }
        if let Some(container) =
            self.container.filter(|container| usize::try_from(*container).is_ok_and(|it| it >= count))
        {
            let last = count.saturating_sub(1);
            let text =
                format!("the pods of {name} have no container {container}; they have the containers 0 to {last}");
            return Err(Refused::not_found(text));
        }
        let found = self.named(group);
        if found.len() > MOST_SOURCES {
            let text = format!(
                "{name} has {} containers, and one request reads the logs of at most {MOST_SOURCES}; name an instance",
                found.len()
            );
            return Err(Refused::bad_request(text));
        }
        Ok(found)
    }

    /// The same without a check, for a group that changes while its logs are followed: the first ones.
    pub(super) fn named(&self, group: &GroupView) -> Vec<SourceKey> {
        let count = u32::try_from(group.spec.pod.containers.len()).unwrap_or(u32::MAX);
        let is_named = |key: &SourceKey| {
            self.instance.is_none_or(|it| it == key.instance) && self.container.is_none_or(|it| it == key.container)
        };
        let of = |pod: &PodView| {
            let instance = pod.id.instance;
            (0..count).map(move |container| SourceKey { instance, container })
        };
        let mut found: Vec<SourceKey> = group.pods.iter().flat_map(of).filter(is_named).collect();
        found.sort_unstable();
        found
    }

    /// What to read of a container at first.
    pub(super) fn selection(&self, key: SourceKey, pod: &PodId) -> LogSelection {
        let resumed = self.after.get(&key).copied();
        LogSelection {
            pod: pod.clone(),
            container: key.container,
            // A client that continues misses nothing.
            tail: if resumed.is_some() { None } else { self.tail },
            since: resumed.or(self.since),
            previous: self.previous,
            follow: self.follow,
        }
    }
}

/// Where the containers of a group are.
pub(super) fn targets(group: &GroupView) -> BTreeMap<SourceKey, LogTarget> {
    let count = group.spec.pod.containers.len();
    let of = |pod: &PodView| {
        let pod = pod.clone();
        (0..count).filter_map(move |index| {
            let key = SourceKey { instance: pod.id.instance, container: u32::try_from(index).ok()? };
            let started_at = pod.facts.containers.get(index).map(|facts| facts.started_at).unwrap_or_default();
            let (node, why) = (pod.node.clone(), pod.facts.last_error.clone());
            Some((key, LogTarget { pod: pod.id.clone(), node, started_at, why }))
        })
    };
    group.pods.iter().flat_map(of).collect()
}

fn number(params: &Params, name: &str) -> Result<Option<u32>, Refused> {
    let wrong = |text: &str| Refused::bad_request(format!("{name}: {:?} is not a number", shown(text)));
    params.text(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// A time, or a duration before now.
fn since(text: &str, now: Timestamp) -> Result<LogTime, Refused> {
    let before = |span| LogTime::from_nanos((now - span).as_millis().saturating_mul(1_000_000));
    let time = LogTime::parse(text).ok().or_else(|| fabric::duration::parse(text).ok().map(before));
    time.ok_or_else(|| {
        let text = shown(text);
        Refused::bad_request(format!(
            "since: {text:?} is neither a time such as 2026-11-16T01:41:17Z nor a duration such as 10m"
        ))
    })
}

/// `1.0=2026-11-16T01:41:17.5Z,2.0=…`: instance, container and time.
fn after(text: &str) -> Result<BTreeMap<SourceKey, LogTime>, Refused> {
    let one = |part: &str| {
        let (key, time) = part.split_once('=')?;
        let (instance, container) = key.split_once('.')?;
        let key = SourceKey { instance: instance.parse().ok()?, container: container.parse().ok()? };
        Some((key, LogTime::parse(time).ok()?))
    };
    let parts = text.split(',').filter(|part| !part.is_empty());
    let wrong = |part: &str| Refused::bad_request(format!("after: {:?} is not INSTANCE.CONTAINER=TIME", shown(part)));
    parts.map(|part| one(part).ok_or_else(|| wrong(part))).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn wanted(query: &str) -> Result<Wanted, Refused> {
        Wanted::read(&Params::new(Some(query), Vec::new()), NOW)
    }

    fn selection(query: &str, instance: u32) -> LogSelection {
        let pod = "a.b.c.v1-i1-d0".parse().unwrap();
        wanted(query).unwrap().selection(SourceKey { instance, container: 0 }, &pod)
    }

    #[test]
    fn a_time_and_a_span_are_both_read_and_anything_else_is_refused() {
        assert_eq!(selection("since=10m", 1).since, Some(LogTime::from_nanos(400_000_000_000)));
        assert_eq!(selection("since=1970-01-01T00:00:07Z", 1).since, Some(LogTime::from_nanos(7_000_000_000)));
        for wrong in ["since=yesterday", "instance=one", "tail=-1", "container=x", "after=1=2", "follow=1&previous=1"] {
            assert_eq!(wanted(wrong).unwrap_err().status, StatusCode::BAD_REQUEST, "{wrong}");
        }
    }

    #[test]
    fn a_client_that_continues_gets_every_line_from_its_last_one() {
        let query = "tail=5&since=1970-01-01T00:00:01Z&after=1.0=1970-01-01T00:00:07Z";
        let (first, second) = (selection(query, 1), selection(query, 2));
        assert_eq!((first.tail, first.since), (None, Some(LogTime::from_nanos(7_000_000_000))));
        assert_eq!((second.tail, second.since), (Some(5), Some(LogTime::from_nanos(1_000_000_000))));
    }
}
