//! `deployctl plan`: what applying a file would do, and whether it would work out. Nothing is changed.

mod text;

use contract::rollout_view::{Fate, PlanView};

use crate::api::Api;
use crate::apply::{self, Error};
use crate::args;
use crate::document;
use crate::get::show;

/// Exit codes of `--detailed-exitcode`; none of them means anything else.
const CHANGES: u8 = 10;
const WOULD_FAIL: u8 = 11;

/// What a plan comes to; the worst of several counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Every instance is as the file says.
    Nothing,
    /// Something is done, and comes to an end.
    Works,
    /// Something is done, and an instance finds no place or the release no end.
    Fails,
}

/// `deployctl plan`; gives back the exit code.
pub async fn plan(api: &Api, asked: &args::Plan) -> Result<u8, Error> {
    let documents = apply::documents(&asked.file, document::read)?;
    let mut worst = Change::Nothing;
    for document in &documents {
        let view = api.plan(&document.spec).await?;
        show(asked.output, &view, || text::plan(&view));
        worst = worst.max(comes_to(&view));
    }
    Ok(match worst {
        _ if !asked.detailed_exitcode => 0,
        Change::Nothing => 0,
        Change::Works => CHANGES,
        Change::Fails => WOULD_FAIL,
    })
}

fn comes_to(view: &PlanView) -> Change {
    let is_untouched = view.fates.values().all(|fate| *fate == Fate::Untouched);
    match view.completes && view.unplaced.is_empty() {
        false => Change::Fails,
        true if is_untouched && view.steps.is_empty() && !view.is_new => Change::Nothing,
        true => Change::Works,
    }
}
