//! `/api/rollouts`, `/api/revisions` and `/api/podgroups/plan` (ours): where a release stands, what was before it, and what
//! a spec would do. All three ask and change nothing; a plan is a POST only because its question is a whole spec.

use axum::http::StatusCode;
use contract::command::Refusal;
use contract::name::GroupName;
use contract::query::{Answer as Told, Query};
use serde::Serialize;

use super::respond::{self, Answer, Refused};
use super::router::Verb;
use super::{Api, Call, podgroups, writes};
use crate::queries;

/// Answers where the release of a group stands.
pub async fn rollouts(api: &Api, call: &Call) -> Answer {
    let name = asked(call)?;
    let reply = api.queries.ask(&Query::Rollout { name }).await?;
    let Told::Rollout(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    told(found, reply.stale)
}

/// Answers which revisions of a group are kept.
pub async fn revisions(api: &Api, call: &Call) -> Answer {
    let name = asked(call)?;
    let reply = api.queries.ask(&Query::Revisions { name }).await?;
    let Told::Revisions(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    told(found, reply.stale)
}

/// Answers what a spec would do, refused as the change itself would be.
pub async fn plan(api: &Api, call: &Call) -> Answer {
    match call.verb {
        Verb::Post => {}
        Verb::Get | Verb::Put | Verb::Patch | Verb::Delete => return Err(Refused::unsupported(call.verb.word())),
    }
    let spec = Box::new(podgroups::asked_for(&call.body)?);
    writes::check_size(&spec)?;
    let reply = api.queries.plan(spec).await?;
    let Told::Plan(planned) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    if let (Some(seconds), Err(refusal)) = (reply.retry_after, &planned) {
        return Err(Refused::busy(refusal.to_string(), seconds));
    }
    let plan = planned.map_err(|refusal| writes::refused(&refusal).stale(reply.stale))?;
    Ok(respond::stale(respond::json(StatusCode::OK, &plan), reply.stale))
}

/// The group a GET asks about.
fn asked(call: &Call) -> Result<GroupName, Refused> {
    match call.verb {
        Verb::Get => podgroups::group_name(call),
        Verb::Post | Verb::Put | Verb::Patch | Verb::Delete => Err(Refused::unsupported(call.verb.word())),
    }
}

fn told<T: Serialize>(found: Option<T>, stale: bool) -> Answer {
    let body = found.ok_or_else(|| writes::refused(&Refusal::GroupUnknown).stale(stale))?;
    Ok(respond::stale(respond::json(StatusCode::OK, &body), stale))
}
