//! The calls of the API: groups, nodes, dependency pods, switches, events.

use std::collections::BTreeMap;

use contract::api::{
    ClusterStatus, DeadLetters, Events, Letter, NamespacePodsWithSpec, Node, PodGroupLine, PodGroupList,
    PodGroupWithSpec,
};
use contract::event::Event;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::switches::Constraint;
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::delivery::Delivered;
use super::{Api, Error, Reply, Request, Retry};

/// `GET /api/engine/config`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Changes are refused.
    pub readonly: bool,
    /// Changes are refused, and exited instances are not restarted.
    pub maintenance: bool,
}

/// Asks the API to refuse what it would otherwise ignore or clamp. Older apiservers ignore the parameter.
pub(super) const STRICT: (&str, &str) = ("strict", "true");
pub(super) const GROUPS: &str = "/api/podgroups";
const NODES: &str = "/api/nodes";
const DEPENDS: &str = "/api/depends";
const STATUS: &str = "/api/status";
const CONFIG: &str = "/api/engine/config";
const GUARD: &str = "/api/guard";
const CONSTRAINTS: &str = "/api/constraints";
const NOTIFIES: &str = "/api/notifies";
pub(crate) const EVENTS: &str = "/api/events";
pub(crate) const LOGS: &str = "/api/logs";

/// Groups.
impl Api {
    pub async fn group(&self, name: &str) -> Result<Option<PodGroupWithSpec>, Error> {
        let reply = self.get(GROUPS, &[("name", name)]).await?;
        if reply.status == StatusCode::NOT_FOUND { Ok(None) } else { reply.read().map(Some) }
    }

    /// All groups in name order.
    pub async fn groups(&self) -> Result<Vec<PodGroupLine>, Error> {
        self.lines(("all", "true")).await
    }

    /// All groups of a namespace, in name order.
    pub async fn groups_of(&self, namespace: &str) -> Result<Vec<PodGroupLine>, Error> {
        self.lines(("namespace", namespace)).await
    }

    /// One group as lists show it, with its current operation; also while it is being removed.
    pub async fn line(&self, namespace: &str, name: &str) -> Result<Option<PodGroupLine>, Error> {
        Ok(self.groups_of(namespace).await?.into_iter().find(|line| line.name == name))
    }

    async fn lines(&self, which: (&'static str, &str)) -> Result<Vec<PodGroupLine>, Error> {
        let mut lines = Vec::new();
        let mut after = String::new();
        loop {
            let page: PodGroupList = self.get(GROUPS, &[which, ("after", &after)]).await?.read()?;
            let progress = !page.pod_groups.is_empty() && page.next > after;
            lines.extend(page.pod_groups);
            if page.next.is_empty() || !progress {
                return Ok(lines);
            }
            after = page.next;
        }
    }

    /// Creates a group.
    pub async fn create(&self, spec: &PodGroupSpec, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::POST, GROUPS, &[STRICT]).with(spec), retry).await
    }

    /// Changes a group's number of instances and, if given, its restart policy.
    pub async fn scale(
        &self,
        name: &str,
        instances: u32,
        policy: Option<RestartPolicy>,
        retry: &mut Retry,
    ) -> Result<(), Error> {
        let number = instances.to_string();
        let mut params = vec![("name", name), ("cmd", "replica"), ("num_instances", number.as_str())];
        params.extend(policy.map(|policy| ("restart_policy", policy.word())));
        let request = Request::new(Method::PATCH, GROUPS, &params);
        self.change(request, retry).await.map_err(|error| named(error, name))
    }

    /// Gives a group another pod spec, for the reason given.
    pub async fn patch(&self, name: &str, pod: &PodSpec, cause: Option<&str>, retry: &mut Retry) -> Result<(), Error> {
        let mut params = vec![("name", name), ("cmd", "spec"), STRICT];
        params.extend(cause.map(|cause| ("cause", cause)));
        let request = Request::new(Method::PATCH, GROUPS, &params).with(pod);
        self.change(request, retry).await.map_err(|error| named(error, name))
    }

    /// Starts, stops or restarts instances; 0 means all.
    pub async fn operate(&self, name: &str, act: &str, instance: u32, retry: &mut Retry) -> Result<(), Error> {
        let number = instance.to_string();
        let params = [("name", name), ("cmd", "operation"), ("optype", act), ("instance", number.as_str())];
        let request = Request::new(Method::PATCH, GROUPS, &params);
        self.change(request, retry).await.map_err(|error| named(error, name))
    }

    /// Deletes a group; `mode` says what happens to its containers.
    pub async fn delete(&self, name: &str, mode: Option<&str>, retry: &mut Retry) -> Result<(), Error> {
        let mut params = vec![("name", name)];
        params.extend(mode.map(|mode| ("mode", mode)));
        let request = Request::new(Method::DELETE, GROUPS, &params);
        self.change(request, retry).await.map_err(|error| named(error, name))
    }
}

/// Nodes and the cluster.
impl Api {
    /// The nodes.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.get(NODES, &[]).await?.read()
    }

    pub async fn cluster(&self) -> Result<ClusterStatus, Error> {
        self.get("/api/cluster", &[]).await?.read()
    }

    /// Moves instances off a node.
    pub async fn drift(&self, params: &[(&'static str, &str)], retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::PATCH, NODES, params), retry).await
    }

    /// Moves everything off a node.
    pub async fn evacuate(&self, node: &str, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::DELETE, NODES, &[("node", node)]), retry).await
    }
}

/// Dependency pods.
impl Api {
    pub async fn dependency(&self, name: &str) -> Result<Option<NamespacePodsWithSpec>, Error> {
        let reply = self.get(DEPENDS, &[("name", name)]).await?;
        if reply.status == StatusCode::NOT_FOUND { Ok(None) } else { reply.read().map(Some) }
    }

    pub async fn create_dependency(&self, pod: &PodSpec, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::POST, DEPENDS, &[STRICT]).with(pod), retry).await
    }

    /// Gives a dependency pod another spec.
    pub async fn update_dependency(&self, pod: &PodSpec, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::PUT, DEPENDS, &[STRICT]).with(pod), retry).await
    }

    pub async fn delete_dependency(&self, name: &str, force: bool, retry: &mut Retry) -> Result<(), Error> {
        let params = [("name", name), ("force", if force { "true" } else { "false" })];
        self.change(Request::new(Method::DELETE, DEPENDS, &params), retry).await
    }
}

/// Switches, constraints and webhooks.
impl Api {
    /// Whether the engine is started.
    pub async fn started(&self) -> Result<bool, Error> {
        let status: BTreeMap<String, String> = self.get(STATUS, &[]).await?.read()?;
        Ok(status.get("status").is_some_and(|status| status == "started"))
    }

    /// Starts or stops the engine.
    pub async fn run_engine(&self, running: bool, retry: &mut Retry) -> Result<(), Error> {
        let body = json!({ "status": if running { "start" } else { "stop" } });
        self.change_blindly(Request::new(Method::PATCH, STATUS, &[]).with(&body), retry).await
    }

    /// Read-only and maintenance.
    pub async fn config(&self) -> Result<Config, Error> {
        self.get(CONFIG, &[]).await?.read()
    }

    /// Changes the members of `change`, leaves the others.
    pub async fn configure(&self, change: &Value, retry: &mut Retry) -> Result<Config, Error> {
        let Delivered { reply, key } =
            self.deliver(Request::new(Method::PATCH, CONFIG, &[]).with(change), retry).await?;
        if reply.status == StatusCode::ACCEPTED {
            self.until_decided(&key, retry).await?;
            return self.config().await;
        }
        reply.read()
    }

    /// Whether the scheduler replaces missing containers.
    pub async fn guarding(&self) -> Result<bool, Error> {
        let guard: BTreeMap<String, String> = self.get(GUARD, &[]).await?.read()?;
        Ok(guard.get("guard").is_some_and(|guard| guard == "working"))
    }

    pub async fn guard(&self, work: bool, retry: &mut Retry) -> Result<(), Error> {
        let params = [("work", if work { "true" } else { "false" })];
        self.change_blindly(Request::new(Method::POST, GUARD, &params), retry).await
    }

    /// The constraint of a type, if there is one.
    pub async fn constraint(&self, kind: &str) -> Result<Option<Constraint>, Error> {
        let reply = self.get(CONSTRAINTS, &[("type", kind)]).await?;
        if reply.status == StatusCode::NOT_FOUND { Ok(None) } else { reply.read().map(Some) }
    }

    /// Sets the constraint of its type.
    pub async fn constrain(&self, constraint: &Constraint, retry: &mut Retry) -> Result<(), Error> {
        let word = |yes: bool| if yes { "true" } else { "false" };
        let params = [
            ("type", constraint.kind.as_str()),
            ("value", constraint.value.as_str()),
            ("equal", word(constraint.equal)),
            ("soft", word(constraint.soft)),
        ];
        self.change(Request::new(Method::PATCH, CONSTRAINTS, &params), retry).await
    }

    /// Removes the constraint of a type.
    pub async fn remove_constraint(&self, kind: &str, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::DELETE, CONSTRAINTS, &[("type", kind)]), retry).await
    }

    /// The callbacks.
    pub async fn callbacks(&self) -> Result<Vec<String>, Error> {
        let reply = self.get(NOTIFIES, &[]).await?;
        if reply.status == StatusCode::NOT_FOUND { Ok(Vec::new()) } else { reply.read() }
    }

    /// Adds a callback.
    pub async fn add_callback(&self, url: &str, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::POST, NOTIFIES, &[("callback", url)]), retry).await
    }

    /// Removes a callback.
    pub async fn remove_callback(&self, url: &str, retry: &mut Retry) -> Result<(), Error> {
        self.change(Request::new(Method::DELETE, NOTIFIES, &[("callback", url)]), retry).await
    }
}

/// Events.
impl Api {
    /// Events, oldest first.
    pub async fn events(&self, params: &[(&'static str, &str)]) -> Result<Vec<Event>, Error> {
        Ok(self.get(EVENTS, params).await?.read::<Events>()?.events)
    }

    /// Messages that could not be read or delivered, newest last.
    pub async fn dead_letters(&self, limit: u32) -> Result<Vec<Letter>, Error> {
        let limit = limit.to_string();
        Ok(self.get("/api/deadletters", &[("limit", &limit)]).await?.read::<DeadLetters>()?.dead_letters)
    }
}

/// `POST /api/guard` answers 200 whatever happens, as the original does. `Failed` means that the change was not stored, or that
/// the apiserver does not know whether it was.
pub(super) fn with_guard_status(request: &Request<'_>, reply: Reply) -> Reply {
    let has_failed = || {
        let switched = serde_json::from_slice::<BTreeMap<String, String>>(&reply.body).unwrap_or_default();
        switched.get("successed").is_some_and(|successed| successed != "OK")
    };
    if request.method == Method::POST && request.path == GUARD && has_failed() {
        let body = b"the apiserver could not store the change of the guard".to_vec();
        return Reply { status: StatusCode::SERVICE_UNAVAILABLE, is_unknown: true, body, ..reply };
    }
    reply
}

/// The API's 404 does not say what was not found.
fn named(error: Error, name: &str) -> Error {
    match error {
        Error::NotFound(_) => Error::no_group(name),
        other => other,
    }
}
