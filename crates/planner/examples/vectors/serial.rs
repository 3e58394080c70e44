//! Adapters of deployd's own strategy.

use planner::rollout::serial::{Drift, Instance, Scaling, Step, is_collected, leaves, scaling, upgrade};
use serde_json::{Value, json};

use crate::input::{Answer, Input};

pub(crate) fn deployd_scale(input: &Input) -> Answer<Value> {
    let Scaling { deploy, remove } = scaling(input.count("current")?, input.count("wanted")?);
    Ok(json!({"deploy": deploy.collect::<Vec<_>>(), "remove": remove.rev().collect::<Vec<_>>()}))
}

pub(crate) fn deployd_upgrade(input: &Input) -> Answer<Value> {
    let steps = upgrade(input.count("num")?, input.flag("first_healthy")?, input.flag("last_spec_cached")?);
    let word = |step| match step {
        Step::Upgrade(instance) => format!("upgrade:{instance}"),
        Step::Rollback(instance) => format!("rollback:{instance}"),
    };
    Ok(json!(steps.map(word).collect::<Vec<_>>()))
}

pub(crate) fn deployd_depend_gc(input: &Input) -> Answer<Value> {
    let (verified, started) = (input.moment("verify_time")?, input.moment("controller_started")?);
    Ok(json!(is_collected(input.moment("now")?, verified, started, input.span_or("gc", 300)?)))
}

pub(crate) fn deployd_should_drift(input: &Input) -> Answer<Value> {
    let instance = Instance {
        node: input.text_or("node", "")?,
        is_stateful: input.flag("stateful")?,
        is_pending: input.flag_or("pending", false)?,
    };
    let drift = Drift {
        from: input.text_or("from_node", "")?,
        // No node, or an empty name: any other.
        to: input.maybe_text("to_node")?.filter(|to| !to.is_empty()),
        is_forced: input.flag("force")?,
    };
    Ok(json!(leaves(instance, drift)))
}
