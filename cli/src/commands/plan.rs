//! `deployctl plan`: previews what applying a file would do.
//!
//! It sends the spec that `apply` would send: fields that the file leaves to an existing group (restart policy, pause) come from
//! the group, and what `apply` refuses is refused here.

use contract::rollout_view::{InstanceChange, PlanView};
use serde::Serialize;

use crate::api::Api;
use crate::args;
use crate::commands::apply::{self, Error};
use crate::document::difference::FieldChange;
use crate::document::{self, Document};
use crate::exit::Exit;
use crate::output::{self, show};

/// The effect of a plan; of several plans the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanEffect {
    Unchanged,
    Completes,
    /// No node fits an instance, or the rollout stalls.
    Stalls,
}

/// A plan, and the fields in which the file differs from a group that exists.
#[derive(Debug, Serialize)]
pub(crate) struct Planned {
    #[serde(flatten)]
    pub(crate) view: PlanView,
    #[serde(rename = "Fields", skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<FieldChange>,
}

/// `deployctl plan`; returns the exit code.
pub async fn plan(api: &Api, asked: &args::PlanArgs) -> Result<Exit, Error> {
    let documents = apply::documents(&asked.file, document::read)?;
    let mut worst = PlanEffect::Unchanged;
    for document in &documents {
        let planned = planned(api, document).await?;
        show(asked.output, &planned, || output::plan::plan(&planned));
        worst = worst.max(planned.effect());
    }
    Ok(match worst {
        _ if !asked.detailed_exitcode => Exit::Done,
        PlanEffect::Unchanged => Exit::Done,
        PlanEffect::Completes => Exit::Changes,
        PlanEffect::Stalls => Exit::Unfinished,
    })
}

async fn planned(api: &Api, document: &Document) -> Result<Planned, Error> {
    let Some(current) = api.group(&document.spec.name).await? else {
        return Ok(Planned { view: api.plan(&document.spec).await?, fields: Vec::new() });
    };
    let (spec, difference) = apply::difference(document, &current.spec)?;
    Ok(Planned { view: api.plan(&spec).await?, fields: difference.changes(&current.spec) })
}

impl Planned {
    pub(crate) fn effect(&self) -> PlanEffect {
        let Self { view, fields } = self;
        let is_untouched = view.changes.values().all(|change| *change == InstanceChange::Untouched);
        match view.completes && view.unplaced.is_empty() {
            false => PlanEffect::Stalls,
            true if is_untouched && view.steps.is_empty() && !view.is_new && fields.is_empty() => PlanEffect::Unchanged,
            true => PlanEffect::Completes,
        }
    }
}
