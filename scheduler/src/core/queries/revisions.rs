//! Answers which revisions a group has had.

use contract::name::GroupName;
use contract::query::Answer;
use contract::record::{Instance, RevisionRecord};
use contract::rollout_view::{RevisionView, RevisionsView};

use crate::core::state::Group;
use crate::core::state::revisions::present_known;

use super::Queries;

impl Queries<'_> {
    /// The revisions of a group.
    pub(super) fn revisions(&self, name: &GroupName) -> Answer {
        let group = self.state.groups.get(name).filter(|group| group.is_present());
        Answer::Revisions(group.map(|group| Box::new(view(name, group))))
    }
}

fn view(name: &GroupName, group: &Group) -> RevisionsView {
    let mut past = group.past.clone();
    present_known(&mut past, &group.record);
    let pods = || group.instances().iter().flat_map(Instance::pods);
    let shown = |revision: RevisionRecord| RevisionView {
        revision: revision.number,
        at: revision.at,
        by: revision.by,
        cause: revision.cause,
        outcome: revision.outcome,
        ended_at: revision.ended_at,
        copies: revision.copies,
        instances: u32::try_from(pods().filter(|pod| pod.version == revision.number).count()).unwrap_or(u32::MAX),
        pod: revision.pod,
    };
    RevisionsView {
        name: name.to_string(),
        current: group.record.spec.version,
        revisions: past.revisions.into_iter().map(shown).collect(),
    }
}
