//! Commands of `PATCH /api/podgroups` about rollouts (ours): `cmd=rollout`, `strategy`, `gate` and `drained`. Pure.
//!
//! Unlike the original's parameters these have no lenient defaults: a missing, malformed or unexpected parameter is refused
//! by its name, because confirming the wrong batch cannot be undone.

use std::str::FromStr;

use contract::command::{RolloutAction, Verb};
use contract::lenient_json;
use contract::rollout_fields;
use contract::validate::LONGEST_CAUSE;

use super::Call;
use super::podgroups::group_name;
use super::respond::{Refused, shown};
use super::writes::Promise;

const ACTIONS: &str = "pause, resume, confirm, abort, undo, skip, freeze or unfreeze";

pub fn promise(name: &str, message: &'static str) -> Promise {
    Promise { check_url: format!("/api/rollouts?name={name}"), message }
}

/// `cmd=rollout`: pause, resume, confirm and so on.
pub fn rollout(call: &Call) -> Result<Verb, Refused> {
    let action = action(call)?;
    let release = number(call, "release")?;
    Ok(Verb::Rollout { name: group_name(call)?, release, action })
}

fn action(call: &Call) -> Result<RolloutAction, Refused> {
    let word = call.params.text("action").unwrap_or_default();
    let (action, taken): (_, &[&str]) = match word {
        "pause" => (RolloutAction::Pause, &[]),
        "resume" => (RolloutAction::Resume, &[]),
        "abort" => (RolloutAction::Abort, &[]),
        "freeze" => (RolloutAction::Freeze, &[]),
        "unfreeze" => (RolloutAction::Unfreeze, &[]),
        "confirm" => (RolloutAction::Confirm { group: required(call, "group")? }, &["group"]),
        "skip" => (RolloutAction::Skip { group: required(call, "group")? }, &["group"]),
        "undo" => {
            let (revision, cause) = (number(call, "revision")?, cause(call)?);
            (RolloutAction::Undo { revision, cause }, &["revision", "cause"])
        }
        other => return Err(bad("action", &format!("should be {ACTIONS} but {:?}", shown(other)))),
    };
    let unused = ["group", "revision", "cause"].into_iter().filter(|name| !taken.contains(name));
    match unused.into_iter().find(|name| call.params.text(name).is_some()) {
        Some(name) => Err(bad(name, &format!("it has no meaning with action={word}; leave it out"))),
        None => Ok(action),
    }
}

/// `cmd=strategy`: a patch of the strategy. The body is JSON whatever its content type.
pub fn strategy(call: &Call) -> Result<Verb, Refused> {
    let fields = lenient_json::from_slice(&call.body)
        .map_err(|error| Refused::bad_request(format!("Bad parameter format for strategy, {error}")))?;
    rollout_fields::check(&fields).map_err(|flaws| Refused::flawed("Bad parameter for strategy", &flaws))?;
    Ok(Verb::PatchStrategy { name: group_name(call)?, fields })
}

/// `cmd=gate`: sets a readiness gate of an instance.
pub fn gate(call: &Call) -> Result<Verb, Refused> {
    let instance = required(call, "instance")?;
    let gate = call.params.text("gate").ok_or_else(|| bad("gate", "should name a readiness gate of the PodGroup"))?;
    let is_true = match call.params.text("value").unwrap_or_default() {
        "true" => true,
        "false" => false,
        other => return Err(bad("value", &format!("should be true or false but {:?}", shown(other)))),
    };
    let version = number(call, "version")?;
    Ok(Verb::SetGate { name: group_name(call)?, instance, gate: gate.to_owned(), is_true, version })
}

/// `cmd=drained`: a draining instance has no traffic left.
pub fn drained(call: &Call) -> Result<Verb, Refused> {
    let instance = required(call, "instance")?;
    Ok(Verb::Drained { name: group_name(call)?, instance })
}

/// The user's reason for the change.
pub fn cause(call: &Call) -> Result<String, Refused> {
    let cause = call.params.text("cause").unwrap_or_default();
    match cause.len() {
        0..=LONGEST_CAUSE => Ok(cause.to_owned()),
        length => Err(bad("cause", &format!("at most {LONGEST_CAUSE} bytes are kept but it has {length}"))),
    }
}

/// A required number from 1.
fn required<T: FromStr + PartialOrd + From<u8>>(call: &Call, name: &str) -> Result<T, Refused> {
    let number = call.params.text(name).and_then(|text| text.parse().ok()).filter(|number| *number >= T::from(1));
    number.ok_or_else(|| {
        let given = call.params.text(name).unwrap_or_default();
        bad(name, &format!("should be a number from 1 but {:?}", shown(given)))
    })
}

/// An optional number.
fn number(call: &Call, name: &str) -> Result<Option<u32>, Refused> {
    let number = call
        .params
        .text(name)
        .map(|text| text.parse().map_err(|_| bad(name, &format!("should be a number from 0 but {:?}", shown(text)))));
    number.transpose()
}

fn bad(name: &str, problem: &str) -> Refused {
    Refused::bad_request(format!("Bad parameter for {name}, {problem}"))
}
