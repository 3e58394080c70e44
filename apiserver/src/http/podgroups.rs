//! `/api/podgroups`: create, look, change the number of instances, remove.

use axum::http::StatusCode;
use contract::command::Verb as Change;
use contract::go_json;
use contract::name::GroupName;
use contract::query::{Answer as Told, Query};
use contract::spec::PodGroupSpec;
use contract::state::RestartPolicy;
use contract::validate::{Flaw, MOST_INSTANCES, sentence};

use super::respond::{self, Answer, Refused};
use super::router::Verb;
use super::writes::{self, Promise};
use super::{Api, Call};
use crate::queries;
use crate::view;

const NO_NAME: &str = "No pod group name provided.";
const UNKNOWN: &str = "PodGroup not existed";
/// Most flaws told at once: a body may hold ten thousand, and nobody reads that.
const MOST_FLAWS: usize = 50;
/// Groups on a page, unless the client says otherwise, and at most.
const PAGE: (i64, i64) = (100, 1000);

/// Answers a request.
pub async fn call(api: &Api, call: Call) -> Answer {
    match call.verb {
        Verb::Get => get(api, &call).await,
        Verb::Post => post(api, call).await,
        Verb::Patch => patch(api, call).await,
        Verb::Delete => delete(api, call).await,
        Verb::Put => Err(Refused::unsupported(call.verb.word())),
    }
}

async fn get(api: &Api, call: &Call) -> Answer {
    let Some(name) = call.params.text("name") else { return list(api, call).await };
    let unknown = || match call.params.boolean("force_update", false) {
        true => Refused::not_found(UNKNOWN),
        false => Refused::not_found(format!("No such pod group name={}", shown(name))),
    };
    // A text that cannot be a name names no group.
    let group: GroupName = name.parse().map_err(|_| unknown())?;
    let reply = api.queries.ask(&Query::Group { name: group }).await?;
    let Told::Group(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let group = found.ok_or_else(|| unknown().stale(reply.stale))?;
    let inspected = api.queries.inspect(&group).await;
    let body = view::pod_group(*group, inspected);
    Ok(respond::stale(respond::json(StatusCode::OK, &body), reply.stale))
}

async fn list(api: &Api, call: &Call) -> Answer {
    let params = &call.params;
    let namespace = params.text("namespace").map(str::to_owned);
    if namespace.is_none() && !params.boolean("all", false) {
        return Err(Refused::bad_request(NO_NAME));
    }
    let after = params.text("after").map(str::parse).transpose();
    let after = after.map_err(|error| Refused::bad_request(format!("Bad parameter for after: {error}")))?;
    let (usual, most) = PAGE;
    let limit = params.integer("limit", usual).clamp(1, most);
    let limit = u32::try_from(limit).unwrap_or(1);
    let reply = api.queries.ask(&Query::Groups { namespace, after, limit }).await?;
    let Told::Groups(lines) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let body = view::group_list(lines, usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(respond::stale(respond::json(StatusCode::OK, &body), reply.stale))
}

async fn post(api: &Api, call: Call) -> Answer {
    let spec: PodGroupSpec = go_json::from_slice(&call.body)
        .map_err(|error| Refused::bad_request(format!("Invalid PodGroupSpec params format: {error}")))?;
    spec.validate().map_err(|flaws| Refused::bad_request(missing(&flaws)))?;
    let promise = Promise { check_url: check_url(&spec.name), message: "PodGroupSpec added into the orc engine." };
    let spec = Box::new(spec);
    writes::change(api, &call.headers, Change::CreateGroup { spec }, promise).await
}

async fn delete(api: &Api, call: Call) -> Answer {
    let name = group_name(&call)?;
    let promise =
        Promise { check_url: check_url(name.as_str()), message: "PodGroupSpec will be deleted from the orc engine." };
    writes::change(api, &call.headers, Change::RemoveGroup { name }, promise).await
}

async fn patch(api: &Api, call: Call) -> Answer {
    if call.params.text("name").is_none() {
        return Err(Refused::bad_request(NO_NAME));
    }
    let command = call.params.text("cmd").unwrap_or_default();
    if command != "replica" {
        let message = format!("Unknown command cmd={:?}: supported is \"replica\"", shown(command));
        return Err(Refused::bad_request(message));
    }
    let change = replica(&call)?;
    let name = group_name(&call)?;
    let promise =
        Promise { check_url: check_url(name.as_str()), message: "PodGroupSpec will be patched and rescheduled." };
    let (num_instances, restart_policy) = change;
    writes::change(api, &call.headers, Change::Replica { name, num_instances, restart_policy }, promise).await
}

fn replica(call: &Call) -> Result<(u32, Option<RestartPolicy>), Refused> {
    let wanted = call.params.integer("num_instances", -1);
    if wanted > MOST_INSTANCES {
        let message = format!("Bad parameter for num_instances, at most {MOST_INSTANCES} are allowed but {wanted}");
        return Err(Refused::bad_request(message));
    }
    let instances = u32::try_from(wanted)
        .map_err(|_| Refused::bad_request(format!("Bad parameter for num_instances, should be > 0 but {wanted}")))?;
    let policy = call.params.text("restart_policy").map(|word| {
        RestartPolicy::from_word(word).ok_or_else(|| {
            let message =
                format!("Bad parameter for restart_policy, should be never, always or onfail but {:?}", shown(word));
            Refused::bad_request(message)
        })
    });
    Ok((instances, policy.transpose()?))
}

/// The name parameter of a change.
fn group_name(call: &Call) -> Result<GroupName, Refused> {
    let name = call.params.text("name").ok_or_else(|| Refused::bad_request(NO_NAME))?;
    name.parse().map_err(|_| Refused::not_found(UNKNOWN))
}

fn check_url(name: &str) -> String {
    format!("/api/podgroups?name={name}")
}

fn missing(flaws: &[Flaw]) -> String {
    let told = sentence(&flaws[..flaws.len().min(MOST_FLAWS)]);
    match flaws.len().saturating_sub(MOST_FLAWS) {
        0 => format!("Missing paremeters for PodGroupSpec: {told}"),
        more => format!("Missing paremeters for PodGroupSpec: {told}; and {more} more"),
    }
}

/// A client's text, cut so that an answer stays small.
fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(200).collect();
    if cut.len() < text.len() {
        cut.push_str("...");
    }
    cut
}
