//! The calls of the API about rollouts.
//!
//! A 404 may mean the group, its rollout, a revision or an instance; only that of the group has no message of its own.

use contract::command::Refusal;
use contract::rollout_view::{PlanView, RevisionsView, RolloutView};
use contract::spec::PodGroupSpec;
use reqwest::Method;
use serde_json::{Map, Value};

use super::calls::{GROUPS, STRICT};
use super::{Api, Error, Request, Retry};

impl Api {
    pub async fn rollout(&self, name: &str) -> Result<RolloutView, Error> {
        let reply = self.get("/api/rollouts", &[("name", name)]).await?;
        reply.read().map_err(|error| of_group(error, name))
    }

    pub async fn revisions(&self, name: &str) -> Result<RevisionsView, Error> {
        let reply = self.get("/api/revisions", &[("name", name)]).await?;
        reply.read().map_err(|error| of_group(error, name))
    }

    pub async fn plan(&self, spec: &PodGroupSpec) -> Result<PlanView, Error> {
        self.send(&Request::new(Method::POST, "/api/podgroups/plan", &[STRICT]).with(spec), None).await?.read()
    }

    /// Sends an action such as `pause` to the rollout of a group, with its parameters.
    pub async fn control_rollout(
        &self,
        name: &str,
        action: &str,
        with: &[(&'static str, String)],
        retry: &mut Retry,
    ) -> Result<(), Error> {
        let mut params = vec![("name", name), ("cmd", "rollout"), ("action", action)];
        params.extend(with.iter().map(|(key, value)| (*key, value.as_str())));
        let request = Request::new(Method::PATCH, GROUPS, &params);
        self.change(request, retry).await.map_err(|error| of_group(error, name))
    }

    /// Changes the rollout settings of a group; `null` resets a field.
    pub async fn set_strategy(&self, name: &str, fields: &Map<String, Value>, retry: &mut Retry) -> Result<(), Error> {
        let params = [("name", name), ("cmd", "strategy"), STRICT];
        let request = Request::new(Method::PATCH, GROUPS, &params).with(fields);
        self.change(request, retry).await.map_err(|error| of_group(error, name))
    }

    /// Sets a readiness gate of an instance, as the parameters say.
    pub async fn set_gate(&self, params: &[(&'static str, &str)], retry: &mut Retry) -> Result<(), Error> {
        let name = params.iter().find(|(key, _)| *key == "name").map_or("", |(_, name)| *name);
        let request = Request::new(Method::PATCH, GROUPS, params);
        self.change(request, retry).await.map_err(|error| of_group(error, name))
    }

    /// Marks an instance as drained.
    pub async fn drained(&self, name: &str, instance: u32, retry: &mut Retry) -> Result<(), Error> {
        let number = instance.to_string();
        let params = [("name", name), ("cmd", "drained"), ("instance", number.as_str())];
        let request = Request::new(Method::PATCH, GROUPS, &params);
        self.change(request, retry).await.map_err(|error| of_group(error, name))
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
