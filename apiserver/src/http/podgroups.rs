//! `/api/podgroups`: create, read, delete and patch (replicas, spec, operation, and [`super::rollout_commands`]).
//!
//! The apiserver checks the request itself: first the name, then the command, then its parameters. The leader checks whether
//! the group exists and is unlocked.

use axum::http::StatusCode;
use contract::command::{Act, Removal, Verb};
use contract::lenient_json;
use contract::name::GroupName;
use contract::query::{Answer, Query};
use contract::rollout_fields;
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::RestartPolicy;
use contract::validate::MOST_INSTANCES;
use contract::{duplicate_fields, strict};
use serde_json::Value;

use super::respond::{self, HttpResult, Refused, shown};
use super::rollout_commands;
use super::router::HttpMethod;
use super::writes::{self, Promise};
use super::{Api, Call, redact, visible};
use crate::queries;
use crate::view;

const NO_NAME: &str = "No pod group name provided.";
const UNKNOWN: &str = "PodGroup not existed";
/// Default and largest page size.
const PAGE: (i64, i64) = (100, 1000);

pub async fn call(api: &Api, call: Call) -> HttpResult {
    match call.method {
        HttpMethod::Get => get(api, &call).await,
        HttpMethod::Post => post(api, call).await,
        HttpMethod::Patch => patch(api, call).await,
        HttpMethod::Delete => delete(api, call).await,
        HttpMethod::Put => Err(Refused::unsupported(call.method.word())),
    }
}

async fn get(api: &Api, call: &Call) -> HttpResult {
    let Some(name) = call.params.text("name") else { return list(api, call).await };
    let refresh = call.params.boolean("force_update", false);
    let unknown = || match refresh {
        true => Refused::not_found(UNKNOWN),
        false => Refused::not_found(format!("No such pod group name={}", shown(name))),
    };
    // An invalid name is an unknown name.
    let group: GroupName = name.parse().map_err(|_| unknown())?;
    if refresh && let Some(hidden) = visible::hidden(api, &call.client, &group).await? {
        return Err(unknown().stale(hidden.stale));
    }
    let reply = api.queries.ask(&Query::Group { name: group, refresh }).await?;
    let Answer::Group(found) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
    let found = found.filter(|group| call.client.reads(&group.spec.namespace));
    let group = found.ok_or_else(|| unknown().stale(reply.stale))?;
    let inspected = api.queries.inspect(view::inspect_requests(&group.pods)).await;
    let mut body = view::pod_group(*group, inspected);
    redact::group(&call.client, &mut body);
    Ok(respond::stale(respond::json(StatusCode::OK, &body), reply.stale))
}

async fn list(api: &Api, call: &Call) -> HttpResult {
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
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let (lines, stale) = match namespace {
        None if !call.client.reads_all() => visible::lines(api, &call.client, after, most).await?,
        namespace => {
            let reply = api.queries.ask(&Query::Groups { namespace, after, limit }).await?;
            let Answer::Groups(mut lines) = reply.answer else { return Err(queries::Error::Mismatch.into()) };
            lines.retain(|line| call.client.reads(&line.namespace));
            (lines, reply.stale)
        }
    };
    Ok(respond::stale(respond::json(StatusCode::OK, &view::group_list(lines, most)), stale))
}

async fn post(api: &Api, call: Call) -> HttpResult {
    let spec = parse_group(&call.body, is_strict(&call))?;
    let promise = Promise { check_url: check_url(&spec.name), message: "PodGroupSpec added into the orc engine." };
    let spec = Box::new(spec);
    writes::change(api, &call, Verb::CreateGroup { spec }, promise).await
}

/// `strict=true` refuses unknown fields and numbers out of range.
pub(super) fn is_strict(call: &Call) -> bool {
    call.params.boolean("strict", false)
}

/// Decodes and validates the body of a create.
pub(super) fn parse_group(body: &[u8], is_strict: bool) -> Result<PodGroupSpec, Refused> {
    let unreadable = |error| Refused::bad_request(format!("Invalid PodGroupSpec params format: {error}"));
    if let Some(problem) = duplicate_fields::problem(body).filter(|_| is_strict) {
        return Err(Refused::bad_request(format!("Invalid PodGroupSpec params format: {problem}")));
    }
    let body: Value = lenient_json::from_slice(body).map_err(unreadable)?;
    let document = body.as_object().cloned().unwrap_or_default();
    let mut spec: PodGroupSpec = lenient_json::from_value(body).map_err(unreadable)?;
    let mut flaws =
        if is_strict { strict::group_flaws(&document, &spec) } else { rollout_fields::strangers(&document) };
    if is_strict && !strict::names(&document, "RestartPolicy") {
        // The original's default is `never`, which hardly any service wants: only requests without `strict` keep it.
        spec.restart_policy = RestartPolicy::Always;
    }
    flaws.extend(redact::flaws(&spec.pod, "Pod."));
    flaws.extend(spec.validate().err().unwrap_or_default());
    if flaws.is_empty() { Ok(spec) } else { Err(Refused::flawed("Missing paremeters for PodGroupSpec", &flaws)) }
}

async fn delete(api: &Api, call: Call) -> HttpResult {
    if call.params.text("name").is_none() {
        return Err(Refused::bad_request(NO_NAME));
    }
    let removal = match call.params.text("mode") {
        None | Some("foreground") => Removal::Foreground,
        Some("background") => Removal::Background,
        Some("orphan") => Removal::Orphan,
        Some(other) => {
            let message =
                format!("Bad parameter for mode, should be foreground, background or orphan but {:?}", shown(other));
            return Err(Refused::bad_request(message));
        }
    };
    let name = group_name(&call)?;
    let promise =
        Promise { check_url: check_url(name.as_str()), message: "PodGroupSpec will be deleted from the orc engine." };
    writes::change(api, &call, Verb::RemoveGroup { name, removal }, promise).await
}

async fn patch(api: &Api, call: Call) -> HttpResult {
    let Some(name) = call.params.text("name") else { return Err(Refused::bad_request(NO_NAME)) };
    let patched = Promise { check_url: check_url(name), message: "PodGroupSpec will be patched and rescheduled." };
    let (change, promise) = match call.params.text("cmd").unwrap_or_default() {
        "replica" => (replica(&call)?, patched),
        "spec" => (spec(&call)?, patched),
        "operation" => (operation(&call)?, patched),
        "strategy" => {
            (rollout_commands::strategy(&call)?, rollout_commands::promise(name, "Strategy will be patched."))
        }
        "rollout" => (rollout_commands::rollout(&call)?, rollout_commands::promise(name, "Rollout will follow.")),
        "gate" => (rollout_commands::gate(&call)?, rollout_commands::promise(name, "Readiness gate will be set.")),
        "drained" => {
            (rollout_commands::drained(&call)?, rollout_commands::promise(name, "Instance will be taken as drained."))
        }
        other => {
            let message = format!(
                "Unknown command cmd={:?}: should be replica, spec or operation, or, for rollouts, strategy, rollout, \
                 gate or drained",
                shown(other)
            );
            return Err(Refused::bad_request(message));
        }
    };
    writes::change(api, &call, change, promise).await
}

fn replica(call: &Call) -> Result<Verb, Refused> {
    let wanted = call.params.integer("num_instances", -1);
    if wanted > MOST_INSTANCES {
        let message = format!("Bad parameter for num_instances, at most {MOST_INSTANCES} are allowed but {wanted}");
        return Err(Refused::bad_request(message));
    }
    let num_instances = u32::try_from(wanted)
        .map_err(|_| Refused::bad_request(format!("Bad parameter for num_instances, should be > 0 but {wanted}")))?;
    let policy = call.params.text("restart_policy").map(|word| {
        RestartPolicy::from_word(word).ok_or_else(|| {
            let message =
                format!("Bad parameter for restart_policy, should be never, always or onfail but {:?}", shown(word));
            Refused::bad_request(message)
        })
    });
    let restart_policy = policy.transpose()?;
    Ok(Verb::Replica { name: group_name(call)?, num_instances, restart_policy })
}

/// A limit of 0 means "unchanged".
fn spec(call: &Call) -> Result<Verb, Refused> {
    // A form body is consumed by the parameters, as in the original.
    let body = if call.consumed { &[] } else { call.body.as_ref() };
    let pod = parse_pod(body, is_strict(call), "Missing parameter for PodSpec")?;
    let cause = rollout_commands::cause(call)?;
    Ok(Verb::PatchSpec { name: group_name(call)?, pod: Box::new(pod), cause })
}

/// Decodes and validates a pod spec; `flawed` starts the error message.
pub(super) fn parse_pod(body: &[u8], is_strict: bool, flawed: &str) -> Result<PodSpec, Refused> {
    let unreadable = |error| Refused::bad_request(format!("Bad parameter format for PodSpec, {error}"));
    if let Some(problem) = duplicate_fields::problem(body).filter(|_| is_strict) {
        return Err(Refused::bad_request(format!("Bad parameter format for PodSpec, {problem}")));
    }
    let body: Value = lenient_json::from_slice(body).map_err(unreadable)?;
    let document = body.as_object().cloned().unwrap_or_default();
    let pod: PodSpec = lenient_json::from_value(body).map_err(unreadable)?;
    let mut flaws = if is_strict { strict::pod_flaws(&document, &pod) } else { Vec::new() };
    flaws.extend(redact::flaws(&pod, ""));
    flaws.extend(pod.validate().err().unwrap_or_default());
    if flaws.is_empty() { Ok(pod) } else { Err(Refused::flawed(flawed, &flaws)) }
}

/// Unknown operations and invalid numbers are accepted without effect, as in the original.
fn operation(call: &Call) -> Result<Verb, Refused> {
    let act = match call.params.text("optype") {
        Some("start") => Act::Start,
        Some("stop") => Act::Stop,
        Some("restart") => Act::Restart,
        Some(_) | None => Act::Nothing,
    };
    let instance = call.params.integer("instance", 0);
    let name = group_name(call)?;
    Ok(match u32::try_from(instance) {
        Ok(instance) => Verb::Operate { name, act, instance },
        Err(_) => Verb::Operate { name, act: Act::Nothing, instance: 0 },
    })
}

pub(super) fn group_name(call: &Call) -> Result<GroupName, Refused> {
    let name = call.params.text("name").ok_or_else(|| Refused::bad_request(NO_NAME))?;
    name.parse().map_err(|_| Refused::not_found(UNKNOWN))
}

fn check_url(name: &str) -> String {
    format!("/api/podgroups?name={name}")
}
