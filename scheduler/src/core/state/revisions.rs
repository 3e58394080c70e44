//! Records the revisions of a group: the author, the cause and the outcome of each, and which are dropped.
//!
//! The outcome of a revision is derived from the group's record and rollout whenever one of them is written, so all are stored
//! together. The revision that a rollback needs is kept beyond every limit, and so is one that instances still run.

use contract::name::GroupName;
use contract::record::{GroupRecord, Instance, RevisionOutcome, RevisionRecord, RevisionsRecord};
use contract::time::Timestamp;
use contract::{keys, layout};
use planner::rollout::controller::RolloutState;
use planner::rollout::revisions::{OldRevision, forgotten};
use planner::rollout::transition::RolloutPhase;

use crate::core::commit;
use crate::core::io::Write;
use crate::core::leader::Leading;

/// Old revisions kept by default.
const USUAL_LIMIT: i64 = 10;
/// Bytes of a group's revisions at most, but for those it needs: ten of the largest specs.
const MOST_BYTES: usize = 2560 * 1024;

/// Why there is a revision.
#[derive(Debug, Default)]
pub(in crate::core) struct Origin {
    /// The author; empty when a failure caused a rollback.
    pub(in crate::core) by: String,
    /// The reason that the author gave.
    pub(in crate::core) cause: String,
    /// The revision it is a copy of.
    pub(in crate::core) copies: Option<u32>,
    /// It takes the one before back, which failed.
    pub(in crate::core) takes_back: bool,
}

/// The parts of a group from which its revisions follow.
struct RevisionInput<'a> {
    record: &'a GroupRecord,
    release: Option<&'a RolloutState>,
    instances: &'a [Instance],
    now: Timestamp,
}

impl RevisionInput<'_> {
    /// The revisions after this change. `origin` describes the current revision, if it is new.
    pub(super) fn updated(
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
        let pods = self.instances.iter().flat_map(Instance::pods).filter(|pod| pod.version == number);
        i64::try_from(pods.count()).unwrap_or(i64::MAX)
    }
}

/// A group that was stored before there were revisions has one: its current spec.
pub(in crate::core) fn present_known(past: &mut RevisionsRecord, record: &GroupRecord) {
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

/// Updates a group's revisions from its current state. Returns the writes that store what changed.
pub(in crate::core) fn note_revisions(
    leading: &mut Leading<'_>,
    name: &GroupName,
    before: Option<&GroupRecord>,
    origin: Origin,
) -> Vec<Write> {
    let now = leading.now;
    let Some(group) = leading.state.groups.get(name) else { return Vec::new() };
    let input =
        RevisionInput { record: &group.record, release: group.release.as_ref(), instances: group.instances(), now };
    let past = input.updated(before, &group.past, origin);
    if past == group.past {
        return Vec::new();
    }
    let is_new = |revision: &&RevisionRecord| !group.past.revisions.contains(revision);
    let puts = past.revisions.iter().filter(is_new).map(|it| commit::put_entry(layout::put_revision(name, it)));
    let is_kept = |number: u32| past.revisions.iter().any(|revision| revision.number == number);
    let gone = group.past.revisions.iter().map(|revision| revision.number).filter(|number| !is_kept(*number));
    let writes = puts.chain(gone.map(|number| Write::Delete { key: keys::revision(name, number) })).collect();
    leading.note_specs(name);
    if let Some(group) = leading.state.groups.get_mut(name) {
        group.past = past;
    }
    writes
}

/// The writes that delete every revision of a group.
pub(in crate::core) fn forget_revisions(leading: &Leading<'_>, name: &GroupName) -> Vec<Write> {
    let revisions = leading.state.groups.get(name).into_iter().flat_map(|group| &group.past.revisions);
    revisions.map(|revision| Write::Delete { key: keys::revision(name, revision.number) }).collect()
}
