//! `deployctl plan`: what applying a file would do, and whether it would work out. Nothing is changed.
//!
//! The API is asked with the spec that `apply` would lead to: what the file leaves to a group that exists (its restart policy, a
//! pause) is taken from the group, and what `apply` refuses is refused here.

use contract::rollout_view::{InstanceChange, PlanView};

use crate::api::Api;
use crate::args;
use crate::commands::apply::{self, Error};
use crate::document::{self, Document};
use crate::exit::Exit;
use crate::output::{self, show};

/// What a plan comes to; the worst of several counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The group is as the file says.
    Nothing,
    /// Something is done, and comes to an end.
    Works,
    /// Something is done, and an instance finds no place or the release no end.
    Fails,
}

/// A plan, and the fields in which the file differs from a group that exists.
pub(crate) struct Planned {
    pub(crate) view: PlanView,
    pub(crate) fields: Vec<String>,
}

/// `deployctl plan`; gives back the exit code.
pub async fn plan(api: &Api, asked: &args::Plan) -> Result<Exit, Error> {
    let documents = apply::documents(&asked.file, document::read)?;
    let mut worst = Change::Nothing;
    for document in &documents {
        let planned = planned(api, document).await?;
        show(asked.output, &planned.view, || output::plan::plan(&planned));
        worst = worst.max(planned.comes_to());
    }
    Ok(match worst {
        _ if !asked.detailed_exitcode => Exit::Done,
        Change::Nothing => Exit::Done,
        Change::Works => Exit::Changes,
        Change::Fails => Exit::Unfinished,
    })
}

async fn planned(api: &Api, document: &Document) -> Result<Planned, Error> {
    let Some(current) = api.group(&document.spec.name).await? else {
        return Ok(Planned { view: api.plan(&document.spec).await?, fields: Vec::new() });
    };
    let (spec, difference) = apply::difference(document, &current.spec)?;
    Ok(Planned { view: api.plan(&spec).await?, fields: difference.changed_fields() })
}

impl Planned {
    pub(crate) fn comes_to(&self) -> Change {
        let Self { view, fields } = self;
        let is_untouched = view.changes.values().all(|fate| *fate == InstanceChange::Untouched);
        match view.completes && view.unplaced.is_empty() {
            false => Change::Fails,
            true if is_untouched && view.steps.is_empty() && !view.is_new && fields.is_empty() => Change::Nothing,
            true => Change::Works,
        }
    }
}
