//! The calls of the API that are about releases.
//!
//! A 404 here may mean the group, its release, a revision or an instance; only that of the group says nothing of itself.

use contract::command::Refusal;
use contract::rollout_view::{PlanView, RevisionsView, RolloutView};
use contract::spec::PodGroupSpec;
use reqwest::Method;
use serde_json::{Map, Value};

use super::calls::{GROUPS, STRICT};
use super::{Api, Error, Patience, Request};

impl Api {
    /// Where the release of a group stands.
    pub async fn rollout(&self, name: &str) -> Result<RolloutView, Error> {
        let reply = self.get("/api/rollouts", &[("name", name)]).await?;
        reply.read().map_err(|error| of_group(error, name))
    }

    /// The revisions of a group.
    pub async fn revisions(&self, name: &str) -> Result<RevisionsView, Error> {
        let reply = self.get("/api/revisions", &[("name", name)]).await?;
        reply.read().map_err(|error| of_group(error, name))
    }

    /// What a spec would do.
    pub async fn plan(&self, spec: &PodGroupSpec) -> Result<PlanView, Error> {
        self.send(&Request::new(Method::POST, "/api/podgroups/plan", &[STRICT]).with(spec), None).await?.read()
    }

    /// Says something to the release of a group: an action, and what goes with it.
    pub async fn say(
        &self,
        name: &str,
        action: &str,
        with: &[(&'static str, String)],
        patience: &mut Patience,
    ) -> Result<(), Error> {
        let mut params = vec![("name", name), ("cmd", "rollout"), ("action", action)];
        params.extend(with.iter().map(|(key, value)| (*key, value.as_str())));
        let request = Request::new(Method::PATCH, GROUPS, &params);
        self.change(request, patience).await.map_err(|error| of_group(error, name))
    }

    /// Changes how a group wants to be changed; a field that is `null` becomes unsaid.
    pub async fn set_strategy(
        &self,
        name: &str,
        fields: &Map<String, Value>,
        patience: &mut Patience,
    ) -> Result<(), Error> {
        let params = [("name", name), ("cmd", "strategy"), STRICT];
        let request = Request::new(Method::PATCH, GROUPS, &params).with(fields);
        self.change(request, patience).await.map_err(|error| of_group(error, name))
    }

    /// Sets a readiness gate of an instance, as the parameters say.
    pub async fn set_gate(&self, params: &[(&'static str, &str)], patience: &mut Patience) -> Result<(), Error> {
        let name = params.iter().find(|(key, _)| *key == "name").map_or("", |(_, name)| *name);
        let request = Request::new(Method::PATCH, GROUPS, params);
        self.change(request, patience).await.map_err(|error| of_group(error, name))
    }

    /// Says that an instance is drained.
    pub async fn drained(&self, name: &str, instance: u32, patience: &mut Patience) -> Result<(), Error> {
        let number = instance.to_string();
        let params = [("name", name), ("cmd", "drained"), ("instance", number.as_str())];
        let request = Request::new(Method::PATCH, GROUPS, &params);
        self.change(request, patience).await.map_err(|error| of_group(error, name))
    }
}

fn of_group(error: Error, name: &str) -> Error {
    match error {
        Error::NotFound(message) if message.is_empty() || message == Refusal::GroupUnknown.to_string() => {
            Error::no_group(name)
        }
        other => other,
    }
}
