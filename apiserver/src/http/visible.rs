//! Hides objects of namespaces that a client may not read: they are answered like objects that do not exist.
//!
//! A client that may read every namespace costs no query here.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use contract::access::CommandTarget;
use contract::command::Verb;
use contract::name::GroupName;
use contract::query::{Answer, GroupLine, Query};
use contract::spec::{Dependency, PodGroupSpec};
use tokio::time::Instant;

use super::Api;
use super::respond::Refused;
use crate::access::Client;
use crate::queries;

/// Groups per query.
const PAGE: u32 = 1000;
/// How long a follower of events remembers the namespace of a group. A group's namespace is fixed, but its name may be used
/// again after its removal.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Groups that one follower remembers; beyond that it forgets all and asks again.
const MOST_REMEMBERED: usize = 10_000;

/// An object that the client must not see. The answer is that for an unknown object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    /// A standby answered.
    pub stale: bool,
}

/// The groups that a client may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VisibleGroups {
    All,
    These(BTreeSet<String>),
}

impl VisibleGroups {
    pub fn contains(&self, group: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(group),
        }
    }
}

/// Whether the group is hidden from the client. A group that does not exist is hidden too.
pub async fn hidden(api: &Api, client: &Client, name: &GroupName) -> Result<Option<Hidden>, Refused> {
    if client.reads_all() {
        return Ok(None);
    }
    let (namespace, stale) = namespace_of(api, name).await?;
    let is_visible = namespace.is_some_and(|namespace| client.reads(&namespace));
    Ok((!is_visible).then_some(Hidden { stale }))
}

/// Whether the group exists and the client may not read it.
pub async fn foreign(api: &Api, client: &Client, name: &GroupName) -> Result<Option<Hidden>, Refused> {
    if client.reads_all() {
        return Ok(None);
    }
    let (namespace, stale) = namespace_of(api, name).await?;
    let is_foreign = namespace.is_some_and(|namespace| !client.reads(&namespace));
    Ok(is_foreign.then_some(Hidden { stale }))
}

/// All groups that the client may read.
pub async fn groups(api: &Api, client: &Client) -> Result<VisibleGroups, Refused> {
    if client.reads_all() {
        return Ok(VisibleGroups::All);
    }
    let (lines, _) = lines(api, client, None, usize::MAX).await?;
    Ok(VisibleGroups::These(lines.into_iter().map(|line| line.name.to_string()).collect()))
}

/// The first `most` groups after a name that the client may read, and whether a standby answered. A page of the answer is filled
/// from several pages of the scheduler, so that its size does not reveal hidden groups.
pub async fn lines(
    api: &Api,
    client: &Client,
    mut after: Option<GroupName>,
    most: usize,
) -> Result<(Vec<GroupLine>, bool), Refused> {
    let (mut found, mut is_stale) = (Vec::new(), false);
    loop {
        let query = Query::Groups { namespace: None, after, limit: PAGE };
        let reply = api.queries.ask(&query).await?;
        let Answer::Groups(lines) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
        is_stale |= reply.stale;
        after = lines.last().map(|line| line.name.clone());
        let is_last = lines.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        found.extend(lines.into_iter().filter(|line| client.reads(&line.namespace)));
        if is_last || found.len() >= most {
            found.truncate(most);
            return Ok((found, is_stale));
        }
    }
}

/// The namespace that decides which of a client's bindings a command carries; none when that does not matter.
pub async fn namespace_for_proof(api: &Api, client: &Client, verb: &Verb) -> Result<Option<String>, Refused> {
    match verb.target() {
        CommandTarget::New(namespace) => Ok(Some(namespace.to_owned())),
        _ if !client.proof_needs_namespace(verb.right()) => Ok(None),
        CommandTarget::Group(name) => Ok(namespace_of(api, name).await?.0),
        CommandTarget::Dependency(name) => dependency_namespace(api, name).await,
        CommandTarget::Cluster => Ok(None),
    }
}

async fn namespace_of(api: &Api, name: &GroupName) -> Result<(Option<String>, bool), Refused> {
    let reply = api.queries.ask(&Query::Group { name: name.clone(), refresh: false }).await?;
    let Answer::Group(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok((found.map(|group| group.spec.namespace), reply.stale))
}

async fn dependency_namespace(api: &Api, name: &str) -> Result<Option<String>, Refused> {
    let Ok(name) = name.parse() else { return Ok(None) };
    let reply = api.queries.ask(&Query::Dependency { name }).await?;
    let Answer::Dependency(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    Ok(found.map(|dependency| dependency.spec.namespace))
}

/// A dependency pod that the group does not have yet and that the client may not read, or that does not exist.
pub async fn hidden_dependency(
    api: &Api,
    client: &Client,
    (name, spec): (&GroupName, &PodGroupSpec),
) -> Result<Option<String>, Refused> {
    if client.reads_all() || spec.pod.dependencies.is_empty() {
        return Ok(None);
    }
    let reply = api.queries.ask(&Query::Group { name: name.clone(), refresh: false }).await?;
    let Answer::Group(group) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let present = group.map(|group| group.spec.pod.dependencies).unwrap_or_default();
    for Dependency { pod_name, .. } in &spec.pod.dependencies {
        if present.iter().any(|present| present.pod_name == *pod_name) {
            continue;
        }
        let namespace = dependency_namespace(api, pod_name).await?;
        if !namespace.is_some_and(|namespace| client.reads(&namespace)) {
            return Ok(Some(pod_name.clone()));
        }
    }
    Ok(None)
}

/// Decides for one follower of events, group by group.
#[derive(Debug, Default)]
pub struct FollowedGroups {
    namespaces: HashMap<GroupName, (Option<String>, Instant)>,
}

impl FollowedGroups {
    /// Whether the client may read the group. When no scheduler answers it is hidden.
    pub async fn is_visible(&mut self, queries: &queries::Queries, client: &Client, name: &GroupName) -> bool {
        if client.reads_all() {
            return true;
        }
        let now = Instant::now();
        let remembered = self.namespaces.get(name).filter(|(_, at)| now.duration_since(*at) < REMEMBERED_FOR);
        if let Some((Some(namespace), _)) = remembered {
            return client.reads(namespace);
        }
        let reply = queries.ask(&Query::Group { name: name.clone(), refresh: false }).await;
        let Ok(Answer::Group(found)) = reply.map(|reply| reply.answer) else { return false };
        let namespace = found.map(|group| group.spec.namespace);
        let is_visible = namespace.as_deref().is_some_and(|namespace| client.reads(namespace));
        if self.namespaces.len() >= MOST_REMEMBERED {
            self.namespaces.clear();
        }
        self.namespaces.insert(name.clone(), (namespace, now));
        is_visible
    }
}
