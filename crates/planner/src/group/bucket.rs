//! Decides what one instance is found to be.
//!
//! It looks at the slot, at what its node reports and at the node itself, and changes nothing. The surprise: silence is a
//! bucket of its own, because nothing may be concluded from it.

use contract::query::Liveness;
use contract::record::Slot;
use contract::report::{EngineState, PodFacts};
use contract::spec::PodSpec;
use contract::state::{RunState, TargetState};

use super::Planning;
use crate::placement::Candidate;

/// What one instance is found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// It has no place.
    Waiting,
    /// It has a place, and the node it leaves has not let go of it yet.
    Leaving,
    /// It has a place and is not up yet.
    Pending,
    /// It runs.
    Running,
    /// It ended; its agent starts it again or lets it go.
    Ended,
    /// It could not be created.
    Failed,
    /// Its container is gone.
    Missing,
    /// Its node is lost.
    Lost,
    /// It is left as it is: moving or making it anew could cost its data, it shall be stopped, or the guard sleeps.
    Held,
    /// Its node or the engine there does not answer; nothing is concluded from that.
    Unheard,
}

impl Planning<'_> {
    /// The bucket of one slot as the plan has it now.
    pub(super) fn bucket(&self, index: usize) -> Bucket {
        self.bucket_of(&self.plan.slots[index], self.seen(index))
    }

    /// The bucket of a pod of which this is reported.
    pub(super) fn bucket_of(&self, slot: &Slot, seen: Option<&PodFacts>) -> Bucket {
        let Some(node) = &slot.node else { return Bucket::Waiting };
        let pod = &self.revision(slot.version).pod;
        let host = self.host(node);
        if slot.leaves.is_some() {
            // Nothing of it was ever ordered there, so not even data is lost with that node.
            return if self.is_lost(node) { Bucket::Lost } else { Bucket::Leaving };
        }
        match host.map(|host| (host.liveness, host.engine)) {
            Some((Liveness::Lost, _)) if pod.is_stateful() && !self.is_forsaken(node) => Bucket::Held,
            Some((Liveness::Lost, _)) => Bucket::Lost,
            Some((Liveness::Alive, EngineState::Up)) => match seen {
                None => Bucket::Pending,
                // Its node has it and does not know yet that it is wanted again: it may well serve.
                Some(seen) if seen.leaving => Bucket::Unheard,
                Some(seen) => reported(slot, seen, pod, self.facts.guarding),
            },
            Some((Liveness::Suspect | Liveness::Unknown, _))
            | Some((Liveness::Alive, EngineState::Hung | EngineState::Down))
            | None => Bucket::Unheard,
        }
    }

    /// Whether nothing was heard of the instance's node since this leader leads: it may still answer.
    pub(super) fn may_still_answer(&self, index: usize) -> bool {
        let host = self.plan.slots[index].node.as_ref().and_then(|node| self.host(node));
        host.is_none_or(|host: &Candidate| host.liveness == Liveness::Unknown)
    }
}

fn reported(slot: &Slot, seen: &PodFacts, pod: &PodSpec, guarding: bool) -> Bucket {
    match seen.state {
        RunState::Success => Bucket::Running,
        RunState::Exit | RunState::Fail | RunState::Paused => Bucket::Ended,
        RunState::Error if slot.target == TargetState::Stop || seen.containers.iter().any(|c| c.running) => {
            Bucket::Ended
        }
        RunState::Error => Bucket::Failed,
        RunState::Missing if slot.target == TargetState::Stop || pod.stateful || !guarding => Bucket::Held,
        RunState::Missing => Bucket::Missing,
        RunState::Pending | RunState::Drift | RunState::Inconsistent | RunState::Removed => Bucket::Pending,
    }
}
