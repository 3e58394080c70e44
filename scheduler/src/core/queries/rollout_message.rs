//! The texts of a rollout: what it waits for, and what would help.

use contract::record::Instance;
use contract::report::PodFacts;
use contract::rollout_view::{RolloutInstance, RolloutPod, RolloutStatus};
use contract::spec::PodGroupSpec;
use contract::time::Timestamp;
use planner::ports;
use planner::rollout::controller::instances;

use super::rollout::RolloutSnapshot;

impl RolloutSnapshot<'_> {
    pub(super) fn message(&self, status: RolloutStatus) -> String {
        let record = &self.group.record;
        if !record.taken_ports.is_empty() {
            return ports::sentence(&record.spec.name, &record.taken_ports);
        }
        if !self.is_running {
            return "scheduling is stopped (deployctl engine start): nothing is planned".to_owned();
        }
        let said = self.status_text(status);
        match &record.operation {
            Some(operation) if self.has_strategy() => {
                format!("{said}; {} holds the PodGroup, and the rollout continues after it", operation.kind.word())
            }
            Some(_) | None => said,
        }
    }

    fn status_text(&self, status: RolloutStatus) -> String {
        let release = self.group.record.spec.version;
        let group = self.release.map_or(0, |release| release.batch);
        match status {
            RolloutStatus::Progressing => self.waiting_text(),
            RolloutStatus::Complete => format!("every instance runs revision {release} and is available"),
            RolloutStatus::Degraded => self.degraded_text(),
            RolloutStatus::Stuck => {
                let waits = self.waiting_text();
                let undo = self.or_undo(", or undo");
                format!("no progress for longer than ProgressDeadlineSeconds: {waits}; fix them{undo}")
            }
            RolloutStatus::Held => match self.release.and_then(|release| release.failure.as_ref()) {
                Some(failure) => {
                    let skip = if failure.batch > 0 {
                        format!(", skip of batch {} leaves them as they are", failure.batch)
                    } else {
                        String::new()
                    };
                    let undo = self.or_undo(", undo goes back");
                    format!("paused by a failure: {}; resume waits for them again{skip}{undo}", failure.message())
                }
                None => self.group.record.last_error.clone(),
            },
            RolloutStatus::WaitingForConfirm => {
                let undo = self.or_undo(" or undo");
                format!(
                    "batch {group} is done: confirm it (action=confirm&release={release}&group={group}) to continue, or abort{undo}"
                )
            }
            RolloutStatus::Paused => "paused: nothing new starts until resume".to_owned(),
            RolloutStatus::Frozen => "frozen: nothing moves until unfreeze".to_owned(),
            RolloutStatus::Aborted => {
                let undo = self.or_undo("undo or ");
                format!("aborted: instances keep their revisions; {undo}a new spec starts another rollout")
            }
        }
    }

    /// `words` if there is a revision to undo to, else nothing.
    fn or_undo(&self, words: &'static str) -> &'static str {
        if self.can_undo { words } else { "" }
    }

    /// For example "degraded: revision 4 completed, but 1 of 4 instances is not available (instance 3: …)".
    fn degraded_text(&self) -> String {
        let (unavailable, release) = (self.unavailable(), self.group.record.spec.version);
        let are = if unavailable.len() == 1 { "is" } else { "are" };
        let (count, total) = (unavailable.len(), self.instances.len());
        let why = unavailable.first().map(|first| self.problem_of(*first)).unwrap_or_default();
        format!("degraded: revision {release} completed, but {count} of {total} instances {are} not available{why}")
    }

    /// Why an instance is not available, in brackets, if that is known.
    fn problem_of(&self, number: u32) -> String {
        let why = self.instances.iter().find(|it| it.instance == number).and_then(|it| self.problem(it));
        why.map(|why| format!(" (instance {number}: {why})")).unwrap_or_default()
    }

    fn waiting_text(&self) -> String {
        if let Some(words) = self.draining_text() {
            return words;
        }
        let waits = self.waits_for();
        let unplaced: i64 = self.report.map(|report| report.units.iter().map(|unit| unit.unplaced).sum()).unwrap_or(0);
        let Some(first) = waits.first() else {
            return match unplaced {
                ..=0 => "in progress".to_owned(),
                1 => "1 instance finds no room".to_owned(),
                _ => format!("{unplaced} instances find no room"),
            };
        };
        let why = self.problem_of(*first);
        format!("waits for {} to be available at revision {}{why}", instances(&waits), self.group.record.spec.version)
    }

    /// The instances that a client must declare drained; none when the group does not require it.
    fn draining_text(&self) -> Option<String> {
        let is_asked = self.group.record.spec.drain.as_ref().is_some_and(|drain| drain.needs_answer);
        let is_unanswered = |pod: &Instance| pod.draining.as_ref().is_some_and(|draining| !draining.is_answered);
        let unanswered = (1..).zip(self.group.instances()).filter(|(_, instance)| instance.pods().any(is_unanswered));
        let unanswered: Vec<u32> = unanswered.map(|(number, _)| number).collect();
        let first = unanswered.first().filter(|_| is_asked)?;
        let waits = instances(&unanswered);
        Some(format!("waits for {waits} to be drained; cmd=drained&instance={first} says that it is"))
    }

    /// Why an instance is not available yet, if that is known.
    fn problem(&self, instance: &RolloutInstance) -> Option<String> {
        let is_new = |pod: &&RolloutPod| self.is_updated(pod.revision);
        let pod = instance.pods.iter().find(is_new).or_else(|| instance.pods.first())?;
        if pod.ready && !pod.available {
            return Some("ready, but not for MinReadySeconds yet".to_owned());
        }
        Some(pod.why.clone()).filter(|why| !why.is_empty())
    }
}

/// Why a pod is not ready, as far as known.
pub(super) fn why(instance: &Instance, seen: Option<&PodFacts>, spec: &PodGroupSpec, now: Timestamp) -> String {
    let closed: Vec<&str> =
        spec.readiness_gates.iter().filter(|gate| !instance.gates.contains_key(*gate)).map(String::as_str).collect();
    let error = seen.map(|seen| seen.last_error.as_str()).filter(|error| !error.is_empty());
    if !instance.why.is_empty() {
        instance.why.clone()
    } else if let Some(error) = error {
        error.to_owned()
    } else if let Some(exit) = seen.and_then(PodFacts::present_exit) {
        exit.describe(now)
    } else if instance.draining.is_some() {
        "it is being taken out of service".to_owned()
    } else if instance.node.is_none() {
        "it has no place yet".to_owned()
    } else if instance.leaves.is_some() {
        "its previous node has not confirmed that the old pod is gone".to_owned()
    } else if seen.is_none() {
        "its node has not reported it yet".to_owned()
    } else if !closed.is_empty() {
        let (word, are) = if closed.len() == 1 { ("gate", "is") } else { ("gates", "are") };
        format!("its readiness {word} {} {are} not true", closed.join(", "))
    } else {
        String::new()
    }
}
