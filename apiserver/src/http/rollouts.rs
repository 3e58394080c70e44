//! `/api/rollouts`, `/api/revisions` and `/api/podgroups/plan` (ours): the state of a rollout, the kept revisions, and what
//! a spec would change. All three are read-only; a plan is a POST only because its input is a whole spec.

use axum::http::StatusCode;
use contract::access::Right;
use contract::command::Refusal;
use contract::name::GroupName;
use contract::query::{Answer, Query};
use contract::spec::PodGroupSpec;
use serde::Serialize;

use super::respond::{self, HttpResult, Refused};
use super::router::HttpMethod;
use super::{Api, Call, guard, podgroups, redact, renamed, visible, writes};
use crate::queries;

/// Answers the state of a group's rollout.
pub async fn rollouts(api: &Api, call: &Call) -> HttpResult {
    let name = group_of(call)?;
    if let Some(hidden) = visible::hidden(api, &call.client, &name).await? {
        return answer(None::<()>, hidden.stale);
    }
    let reply = api.queries.ask(&Query::Rollout { name }).await?;
    let Answer::Rollout(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    answer(found.as_deref().map(renamed::rollout), reply.stale)
}

/// Answers which revisions of a group are kept.
pub async fn revisions(api: &Api, call: &Call) -> HttpResult {
    let name = group_of(call)?;
    if let Some(hidden) = visible::hidden(api, &call.client, &name).await? {
        return answer(None::<()>, hidden.stale);
    }
    let reply = api.queries.ask(&Query::Revisions { name }).await?;
    let Answer::Revisions(mut found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    if let Some(found) = &mut found {
        redact::revisions(&call.client, found);
    }
    answer(found, reply.stale)
}

/// Answers what a spec would change; the leader refuses it as it would refuse the change itself.
pub async fn plan(api: &Api, call: &Call) -> HttpResult {
    match call.method {
        HttpMethod::Post => {}
        HttpMethod::Get | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            return Err(Refused::unsupported(call.method.word()));
        }
    }
    let spec = Box::new(podgroups::parse_group(&call.body, podgroups::is_strict(call))?);
    writes::check_size(&spec)?;
    allowed(api, call, &spec).await?;
    let reply = api.queries.plan(spec).await?;
    let Answer::Plan(planned) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    if let (Some(seconds), Err(refusal)) = (reply.retry_after, &planned) {
        return Err(Refused::busy(refusal.to_string(), seconds));
    }
    let plan = planned.map_err(|refusal| writes::refused(&refusal).stale(reply.stale))?;
    Ok(respond::stale(respond::json(StatusCode::OK, &renamed::plan(&plan)), reply.stale))
}

/// Refuses a plan for a namespace that the client may not deploy to, about a group that it may not read, or with a new dependency
/// pod that it may not read, as the leader refuses the change itself.
async fn allowed(api: &Api, call: &Call, spec: &PodGroupSpec) -> Result<(), Refused> {
    if !call.client.principal.may(Right::Deploy, Some(&spec.namespace)) {
        return Err(guard::denied(&call.client, Right::Deploy, &format!("in the namespace {:?}", spec.namespace)));
    }
    let Ok(name) = spec.name.parse::<GroupName>() else { return Ok(()) };
    if let Some(hidden) = visible::foreign(api, &call.client, &name).await? {
        return Err(writes::refused(&Refusal::GroupUnknown).stale(hidden.stale));
    }
    match visible::hidden_dependency(api, &call.client, (&name, spec)).await? {
        Some(hidden) => {
            let object = format!("the DependencyPod {hidden}, or there is none");
            Err(guard::denied(&call.client, Right::Read, &object))
        }
        None => Ok(()),
    }
}

/// The group that a GET names.
fn group_of(call: &Call) -> Result<GroupName, Refused> {
    match call.method {
        HttpMethod::Get => podgroups::group_name(call),
        HttpMethod::Post | HttpMethod::Put | HttpMethod::Patch | HttpMethod::Delete => {
            Err(Refused::unsupported(call.method.word()))
        }
    }
}

fn answer<T: Serialize>(found: Option<T>, stale: bool) -> HttpResult {
    let body = found.ok_or_else(|| writes::refused(&Refusal::GroupUnknown).stale(stale))?;
    Ok(respond::stale(respond::json(StatusCode::OK, &body), stale))
}
