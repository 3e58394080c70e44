//! `/api/policies` (ours): what the workloads of each namespace may request from the nodes.

use axum::http::StatusCode;
use contract::command::Verb;
use contract::policy::{EVERY_NAMESPACE, NamespacePolicy, Policy, check_namespace};
use contract::query::{Answer, Query};
use contract::validate::Flaw;

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::writes::{self, Promise};
use super::{Api, Call};
use crate::queries;

pub async fn call(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, call).await,
        HttpMethod::Put => {
            let (namespace, policy) = (namespace(call)?, policy(call)?);
            let promise = promise(&namespace, "Policy will apply to every new spec.");
            writes::change(api, call, Verb::SetPolicy { namespace, policy: Box::new(policy) }, promise).await
        }
        HttpMethod::Delete => {
            let namespace = namespace(call)?;
            let promise = promise(&namespace, "Policy of the cluster will apply to the namespace.");
            writes::change(api, call, Verb::RemovePolicy { namespace }, promise).await
        }
        HttpMethod::Post | HttpMethod::Patch => Err(Refused::unsupported(call.method.word())),
    }
}

/// All stored policies, or the one that applies to a namespace: its own, or the default under `*`.
async fn get(api: &Api, call: &Call) -> HttpResult {
    let asked = call.params.text("namespace").map(|_| namespace(call)).transpose()?;
    let reply = api.queries.ask(&Query::Policies).await?;
    let Answer::Policies(rows) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    // The default concerns every client.
    let is_visible = |row: &NamespacePolicy| row.namespace == EVERY_NAMESPACE || call.client.reads(&row.namespace);
    let rows: Vec<NamespacePolicy> = rows.into_iter().filter(is_visible).collect();
    let body = match asked {
        None => respond::json(StatusCode::OK, &rows),
        Some(namespace) => respond::json(StatusCode::OK, &applying(&rows, &namespace)),
    };
    Ok(respond::stale(body, reply.stale))
}

fn applying(rows: &[NamespacePolicy], namespace: &str) -> NamespacePolicy {
    let find = |name: &str| rows.iter().find(|row| row.namespace == name).cloned();
    let baseline = || NamespacePolicy { namespace: EVERY_NAMESPACE.to_owned(), policy: Policy::default() };
    find(namespace).or_else(|| find(EVERY_NAMESPACE)).unwrap_or_else(baseline)
}

fn namespace(call: &Call) -> Result<String, Refused> {
    let namespace = call.params.text("namespace").unwrap_or_default();
    let flaw = |error: contract::name::Error| Flaw { field: "namespace".to_owned(), problem: error.to_string() };
    check_namespace(namespace).map_err(|error| flawed(&[flaw(error)]))?;
    Ok(namespace.to_owned())
}

fn policy(call: &Call) -> Result<Policy, Refused> {
    let unreadable = |error: serde_json::Error| {
        let problem = format!("should be JSON such as {{\"Level\": \"baseline\"}}: {error}");
        flawed(&[Flaw { field: "body".to_owned(), problem }])
    };
    let policy: Policy = serde_json::from_slice(&call.body).map_err(unreadable)?;
    policy.validate().map_err(|flaws| flawed(&flaws))?;
    Ok(policy)
}

fn promise(namespace: &str, message: &'static str) -> Promise {
    Promise { check_url: format!("/api/policies?namespace={namespace}"), message }
}

fn flawed(flaws: &[Flaw]) -> Refused {
    Refused::flawed("Bad parameters for a policy", flaws)
}
