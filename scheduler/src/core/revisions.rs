//! Keeps a group's revisions: who asked for which, what became of it, and which are forgotten.
//!
//! Nobody reports what becomes of a release: it is read off the group's record and its release whenever one of them is
//! written, so the revisions are stored with what they tell of. The surprise: a revision the present one needs to go back to
//! outlives every limit, and so does one that instances still run.

use contract::keys;
use contract::layout;
use contract::name::GroupName;
use contract::query::Answer;
use contract::record::{GroupRecord, RevisionOutcome, RevisionRecord, RevisionsRecord, Slot};
use contract::rollout_view::{RevisionView, RevisionsView};
use contract::time::Timestamp;
use planner::rollout::controller::RolloutState;
use planner::rollout::revisions::{OldRevision, forgotten};
use planner::rollout::transition::RolloutPhase;

use super::commit;
use super::io::Write;
use super::leader::Leading;
use super::queries::Library;
use super::state::Group;

/// Former revisions kept unless the group says otherwise.
const USUAL_LIMIT: i64 = 10;
/// Bytes of a group's revisions at most, but for those it needs: ten of the largest specs.
const MOST_BYTES: usize = 2560 * 1024;

/// Why there is a revision.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// Who asked; empty when a failure did.
    pub(super) by: String,
    /// Why, in the asker's words.
    pub(super) cause: String,
    /// The revision it is a copy of.
    pub(super) copies: Option<u32>,
    /// It takes the one before back, which failed.
    pub(super) takes_back: bool,
}

/// What the revisions are read off.
pub(super) struct Standing<'a> {
    pub(super) record: &'a GroupRecord,
    pub(super) release: Option<&'a RolloutState>,
    pub(super) slots: &'a [Slot],
    pub(super) now: Timestamp,
}

impl Standing<'_> {
    /// The revisions as they are now that the group stands so. `origin` is that of the present one, if it is new.
    pub(super) fn noted(
        &self,
        before: Option<&GroupRecord>,
        past: &RevisionsRecord,
        origin: Origin,
    ) -> RevisionsRecord {
        let mut past = past.clone();
        if let Some(before) = before {
            present_known(&mut past, before);
        }
        let present = self.record.spec.version;
        if past.revisions.iter().all(|revision| revision.number != present) {
            self.open(&mut past, origin);
        }
        self.conclude(&mut past);
        self.forget(&mut past);
        past
    }

    fn open(&self, past: &mut RevisionsRecord, origin: Origin) {
        let ended = if origin.takes_back { RevisionOutcome::RolledBack } else { RevisionOutcome::Superseded };
        for revision in past.revisions.iter_mut().filter(|revision| revision.outcome == RevisionOutcome::Open) {
            (revision.outcome, revision.ended_at) = (ended, self.now);
        }
        let spec = &self.record.spec;
        let Origin { by, cause, copies, takes_back: _ } = origin;
        let revision = opened(spec.version, self.now, self.record);
        past.revisions.push(RevisionRecord { by, cause, copies, ..revision });
    }

    fn conclude(&self, past: &mut RevisionsRecord) {
        let present = self.record.spec.version;
        let release = self.release.filter(|release| release.target == present);
        let outcome = if self.record.proven == Some(present) {
            RevisionOutcome::Completed
        } else if release.is_some_and(|release| release.phase == RolloutPhase::Aborted) {
            RevisionOutcome::Aborted
        } else {
            return;
        };
        let is_due = |revision: &&mut RevisionRecord| {
            revision.number == present && revision.outcome != outcome && revision.outcome != RevisionOutcome::Completed
        };
        if let Some(revision) = past.revisions.iter_mut().find(is_due) {
            (revision.outcome, revision.ended_at) = (outcome, self.now);
        }
    }

    fn forget(&self, past: &mut RevisionsRecord) {
        let present = self.record.spec.version;
        let is_completed = |revision: &&RevisionRecord| revision.outcome == RevisionOutcome::Completed;
        let proven = past.revisions.iter().rfind(is_completed).map(|revision| revision.number);
        let mut numbers: Vec<u32> = past.revisions.iter().map(|revision| revision.number).collect();
        numbers.retain(|number| *number != present);
        numbers.sort_unstable();
        let old =
            |number: &u32| OldRevision { pods: self.running(*number), is_last_completed: proven == Some(*number) };
        let limit = self.record.spec.revision_history_limit.unwrap_or(USUAL_LIMIT);
        let old: Vec<OldRevision> = numbers.iter().map(old).collect();
        let gone: Vec<u32> = forgotten(&old, limit).into_iter().map(|at| numbers[at]).collect();
        past.revisions.retain(|revision| !gone.contains(&revision.number));
        let needed = |revision: &RevisionRecord| [Some(present), proven].contains(&Some(revision.number));
        while bytes(past) > MOST_BYTES {
            let Some(oldest) = past.revisions.iter().position(|revision| !needed(revision)) else { return };
            past.revisions.remove(oldest);
        }
    }

    fn running(&self, number: u32) -> i64 {
        let pods = self.slots.iter().flat_map(Slot::pods).filter(|pod| pod.version == number);
        i64::try_from(pods.count()).unwrap_or(i64::MAX)
    }
}

/// A group that was stored before there were revisions has one all the same: what it asks for now.
fn present_known(past: &mut RevisionsRecord, record: &GroupRecord) {
    let spec = &record.spec;
    if !past.revisions.is_empty() {
        return;
    }
    let at = if spec.updated_at.happened() { spec.updated_at } else { spec.created_at };
    let revision = opened(spec.version, at, record);
    let is_proven = record.proven == Some(spec.version);
    let (outcome, ended_at) =
        if is_proven { (RevisionOutcome::Completed, at) } else { (RevisionOutcome::Open, Timestamp::NEVER) };
    past.revisions.push(RevisionRecord { outcome, ended_at, ..revision });
}

fn opened(number: u32, at: Timestamp, record: &GroupRecord) -> RevisionRecord {
    RevisionRecord {
        number,
        at,
        by: String::new(),
        cause: String::new(),
        pod: record.spec.pod.clone(),
        copies: None,
        outcome: RevisionOutcome::Open,
        ended_at: Timestamp::NEVER,
    }
}

fn bytes(past: &RevisionsRecord) -> usize {
    serde_json::to_vec(past).map_or(0, |text| text.len())
}

impl Leading<'_> {
    /// Reads what became of a group's revisions off how it stands now; the writes that store what changed.
    pub(super) fn note_revisions(
        &mut self,
        name: &GroupName,
        before: Option<&GroupRecord>,
        origin: Origin,
    ) -> Vec<Write> {
        let now = self.now;
        let Some(group) = self.state.groups.get(name) else { return Vec::new() };
        let standing = Standing { record: &group.record, release: group.release.as_ref(), slots: group.slots(), now };
        let past = standing.noted(before, &group.past, origin);
        if past == group.past {
            return Vec::new();
        }
        let is_new = |revision: &&RevisionRecord| !group.past.revisions.contains(revision);
        let puts = past.revisions.iter().filter(is_new).map(|it| commit::put_entry(layout::put_revision(name, it)));
        let is_kept = |number: u32| past.revisions.iter().any(|revision| revision.number == number);
        let gone = group.past.revisions.iter().map(|revision| revision.number).filter(|number| !is_kept(*number));
        let writes = puts.chain(gone.map(|number| Write::Delete { key: keys::revision(name, number) })).collect();
        self.note_specs(name);
        if let Some(group) = self.state.groups.get_mut(name) {
            group.past = past;
        }
        writes
    }

    /// The writes that delete every revision of a group.
    pub(super) fn forget_revisions(&self, name: &GroupName) -> Vec<Write> {
        let revisions = self.state.groups.get(name).into_iter().flat_map(|group| &group.past.revisions);
        revisions.map(|revision| Write::Delete { key: keys::revision(name, revision.number) }).collect()
    }
}

impl Library<'_> {
    /// The revisions of a group.
    pub(super) fn revisions(&self, name: &GroupName) -> Answer {
        let group = self.state.groups.get(name).filter(|group| group.is_present());
        Answer::Revisions(group.map(|group| Box::new(view(name, group))))
    }
}

fn view(name: &GroupName, group: &Group) -> RevisionsView {
    let mut past = group.past.clone();
    present_known(&mut past, &group.record);
    let pods = || group.slots().iter().flat_map(Slot::pods);
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
