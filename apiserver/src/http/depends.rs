//! `/api/depends`: dependency pods, which run beside the instances that name them.
//!
//! As in the original, a change has its name in the body, two texts are spelt differently, and a removal without force is
//! answered 202 even when the dependency stays because it is in use.

use axum::http::StatusCode;
use contract::command::Verb;
use contract::name::GroupName;
use contract::query::{Answer, Query};
use contract::spec::PodSpec;

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::writes::{self, Promise};
use super::{Api, Call, podgroups, redact};
use crate::{queries, view};

const NO_NAME: &str = "Missing dependency pod name for the request";
const UNKNOWN: &str = "DependencyPod not existed";

pub async fn call(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, &call).await,
        HttpMethod::Post => post(api, call).await,
        HttpMethod::Put => put(api, call).await,
        HttpMethod::Delete => delete(api, call).await,
        HttpMethod::Patch => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let name = dependency_name(call)?;
    let reply = api.queries.ask(&Query::Dependency { name }).await?;
    let Answer::Dependency(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let found = found.filter(|dependency| call.client.reads(&dependency.spec.namespace));
    let dependency = found.ok_or_else(|| Refused::not_found(UNKNOWN).stale(reply.stale))?;
    let inspected = api.queries.inspect(view::inspect_requests(dependency.pods.values().flatten())).await;
    let mut body = view::dependency(*dependency, inspected);
    redact::dependency(&call.client, &mut body);
    Ok(respond::stale(respond::json(StatusCode::OK, &body), reply.stale))
}

async fn post(api: &Api, call: Call) -> HttpResult {
    let pod = pod_spec(&call, "Missing paremeters for PodSpec")?;
    let promise = promise(&pod.name, "Dependency pod will be added into orc engine.");
    writes::change(api, &call, Verb::CreateDependency { pod }, promise).await
}

async fn put(api: &Api, call: Call) -> HttpResult {
    let pod = pod_spec(&call, "Missing parameters for PodSpec")?;
    let promise = promise(&pod.name, "Dependency PodSpec would be updated in orc engine.");
    writes::change(api, &call, Verb::UpdateDependency { pod }, promise).await
}

async fn delete(api: &Api, call: Call) -> HttpResult {
    let name = dependency_name(&call)?;
    let force = call.params.boolean("force", false);
    let promise = promise(name.as_str(), "Dependency pod will be removed from the orc engine.");
    writes::change(api, &call, Verb::RemoveDependency { name, force }, promise).await
}

/// The body of a change; `flawed` starts the error message.
fn pod_spec(call: &Call, flawed: &str) -> Result<Box<PodSpec>, Refused> {
    podgroups::parse_pod(&call.body, podgroups::is_strict(call), flawed).map(Box::new)
}

fn dependency_name(call: &Call) -> Result<GroupName, Refused> {
    let name = call.params.text("name").ok_or_else(|| Refused::bad_request(NO_NAME))?;
    // An invalid name is an unknown name.
    name.parse().map_err(|_| Refused::not_found(UNKNOWN))
}

fn promise(name: &str, message: &'static str) -> Promise {
    Promise { check_url: format!("/api/depends?name={name}"), message }
}
