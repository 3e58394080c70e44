//! Changes of the stored instances and the lock of a group from one commit to the next.
//!
//! Targets and counters follow from the accepted starts, stops and restarts, each exactly once. Versions never decrease. A move is
//! queued once per command and ends when it has left no instance behind.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::command::{Act, Drift, Operation};
use contract::record::{GroupRecord, Instance, OperationRecord, Presence, RevisionsRecord};
use contract::state::TargetState;
use contract::time::Timestamp;
use planner::rollout::controller::RolloutState;

use crate::checks::invariants::{Invariant, Violation};

/// Accepted requests that the stored instances do not show yet.
#[derive(Debug, Clone, Default)]
pub struct PendingRequests {
    /// By instance, in the sequence of acceptance.
    acts: BTreeMap<u32, Vec<(Act, Timestamp)>>,
    drifts: Vec<Drift>,
    /// Moves accepted since the last commit.
    recent: Vec<Drift>,
    /// Commands accepted since the last commit.
    fresh: usize,
    /// A command that clears the last error was accepted since the last commit.
    begun: bool,
    /// The begin of the current move, and the instances at that time.
    drifting: Option<(Timestamp, Vec<Instance>)>,
}

#[derive(Debug, Clone, Default)]
pub struct StoredGroup {
    pub record: GroupRecord,
    pub instances: Vec<Instance>,
    pub release: Option<RolloutState>,
    pub revisions: RevisionsRecord,
}

impl StoredGroup {
    pub fn pods(&self) -> impl Iterator<Item = (u32, &Instance)> {
        (1..).zip(&self.instances).flat_map(|(number, instance)| instance.pods().map(move |pod| (number, pod)))
    }
}

impl PendingRequests {
    pub fn accepted(&mut self) {
        self.fresh += 1;
    }

    /// A command that clears the last error was accepted.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    pub fn is_one_command(&self) -> bool {
        self.fresh <= 1
    }

    pub fn operate(&mut self, act: Act, instance: u32, instances: u32, at: Timestamp) {
        let all = if instance == 0 { 1..=instances } else { instance..=instance.min(instances) };
        for number in all.filter(|_| act != Act::Nothing) {
            self.acts.entry(number).or_default().push((act, at));
        }
    }

    pub fn drift(&mut self, drift: &Drift) {
        self.drifts.push(drift.clone());
        self.recent.push(drift.clone());
        self.begin();
    }

    pub fn take_recent(&mut self) -> Vec<Drift> {
        std::mem::take(&mut self.recent)
    }

    pub fn check(
        &mut self,
        was: &StoredGroup,
        is: &StoredGroup,
        limit: Duration,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let broken = |invariant, detail| Err(Violation { invariant, detail });
        let unknown =
            |pod: &Instance| pod.version != is.record.spec.version && !is.record.former.contains_key(&pod.version);
        if let Some((instance, pod)) = is.pods().find(|(_, pod)| unknown(pod)) {
            return broken(
                Invariant::VersionsHaveSpecs,
                format!("instance {instance}: no spec for version {}", pod.version),
            );
        }
        if was.record.spec.version > is.record.spec.version {
            return broken(Invariant::CountsGrow, format!("{} became {:?}", was.record.spec.version, is.record.spec));
        }
        self.check_acts(was, is, limit, now)?;
        self.check_drifts(was, is)?;
        // Errors of a paused upgrade end with the upgrade.
        let error = was.record.last_error.as_str();
        let is_about = |words: &str| error.starts_with("instance ") && error.contains(words);
        let upgrade = is_about("is not upgraded")
            || is_about(" fails in version ")
            || error.starts_with("the upgrade to version ");
        let cleared = !was.record.last_error.is_empty() && is.record.last_error.is_empty();
        // The error of a rollout ends when the rollout continues.
        let cleared = cleared && !is.record.spec.has_strategy();
        if cleared && std::mem::take(&mut self.fresh) == 0 && !upgrade {
            return broken(
                Invariant::ErrorsStayUntilNextOperation,
                format!("{:?} was forgotten", was.record.last_error),
            );
        }
        (self.fresh, self.begun) = (0, false);
        Ok(())
    }

    /// The group was orphaned and adopted within one commit: requests in between are in effect or pending, and the state in between is
    /// unknown.
    pub fn adopt(&mut self, is: &StoredGroup) {
        (self.fresh, self.begun) = (0, false);
        self.acts.retain(|number, acts| {
            acts.drain(..acts.len().saturating_sub(1));
            is_pending(&is.record, *number)
        });
    }

    fn check_acts(
        &mut self,
        was: &StoredGroup,
        is: &StoredGroup,
        limit: Duration,
        now: Timestamp,
    ) -> Result<(), Violation> {
        let nothing = Instance::default();
        // A group that waits for ports has no instances to start or stop. It may have been deployed, and operated, since the previous commit.
        let is_deployed = was.instances.is_empty() && !is.record.spec.has_strategy();
        for (number, instance) in (1..).zip(&is.instances).filter(|(_, instance)| is_instance(instance)) {
            let index = usize::try_from(number - 1).unwrap_or(0);
            let before = was.instances.get(index).filter(|before| is_instance(before)).unwrap_or(&nothing);
            let mut acts = self.acts.remove(&number).unwrap_or_default();
            let waiting: Vec<(Act, Timestamp)> =
                if is_pending(&is.record, number) { acts.pop().into_iter().collect() } else { Vec::new() };
            let mut possible = vec![requested(before)];
            for (act, at) in &acts {
                // A restart that its operation did not reach before the time limit is dropped.
                let is_late = *act == Act::Restart && now >= *at + limit;
                // A rollout may have created the instance after the command for all instances.
                let is_new = is.record.spec.has_strategy() && !was.instances.get(index).is_some_and(is_instance);
                let skipped = if is_late || is_new || is_deployed { possible.clone() } else { Vec::new() };
                possible = possible.into_iter().map(|before| after(before, *act)).chain(skipped).collect();
            }
            if !possible.contains(&requested(instance)) {
                let detail = format!("instance {number}: {before:?} became {instance:?}, requested were {acts:?}");
                return Err(Violation { invariant: Invariant::RequestsTakeEffectOnce, detail });
            }
            self.acts.insert(number, waiting);
        }
        let count = u32::try_from(is.instances.len()).unwrap_or(u32::MAX);
        self.acts.retain(|number, acts| *number <= count && !acts.is_empty());
        Ok(())
    }

    fn check_drifts(&mut self, was: &StoredGroup, is: &StoredGroup) -> Result<(), Violation> {
        let broken = |detail: String| Err(Violation { invariant: Invariant::MovesComplete, detail });
        let (before, after) = (&was.record.drifts, &is.record.drifts);
        let kept = after.iter().take_while(|drift| before.contains(drift)).count();
        if !before.ends_with(&after[..kept]) {
            return broken(format!("{before:?} became {after:?}"));
        }
        for drift in &after[kept..] {
            let Some(asked) = self.drifts.iter().position(|asked| asked == drift) else {
                return broken(format!("no command requested {drift:?}"));
            };
            self.drifts.remove(asked);
        }
        let move_since = |record: &GroupRecord| drifting(record).map(|operation| operation.since);
        let ended = move_since(&was.record).filter(|_| move_since(&was.record) != move_since(&is.record));
        if let Some((drift, (since, instances))) =
            before.first().zip(self.drifting.take_if(|(at, _)| Some(*at) == ended))
        {
            let mut left = left_behind(drift, &instances, is);
            // The instance shows why it was not moved.
            let shows_why =
                |number: &u32| usize::try_from(*number).is_ok_and(|it| !is.instances[it - 1].not_moved.is_empty());
            left.retain(|number| !shows_why(number));
            // The error of a move that timed out is shown until another operation starts, which may be in the same commit; rollouts start without
            // a lock.
            let is_explained = !is.record.last_error.is_empty() || is.record.operation.is_some() || self.begun;
            if !left.is_empty() && !is_explained {
                return broken(format!("{drift:?} since {since} is over and left {left:?} behind"));
            }
        }
        if let Some(since) = move_since(&is.record).filter(|_| self.drifting.is_none()) {
            self.drifting = Some((since, was.instances.clone()));
        }
        Ok(())
    }
}

fn drifting(record: &GroupRecord) -> Option<&OperationRecord> {
    record.operation.as_ref().filter(|operation| operation.kind == Operation::Drifting)
}

/// Instances of a move that are where they were when it began.
fn left_behind(drift: &Drift, before: &[Instance], is: &StoredGroup) -> Vec<u32> {
    let numbered = (1..).zip(before.iter().zip(&is.instances));
    let stayed = numbered.filter(|(number, (was, is_now))| {
        let spec = is.record.former.get(&is_now.version).unwrap_or(&is.record.spec.pod);
        let place = |instance: &Instance| (instance.node.clone(), instance.leaves.clone(), instance.drift);
        let meant = drift.instance.is_none_or(|instance| instance == *number);
        let free = drift.force || !spec.is_stateful();
        meant && free && place(was) == place(is_now) && is_now.node.as_ref() == Some(&drift.from)
    });
    stayed.map(|(number, _)| number).collect()
}

/// Whether a start, stop or restart has not reached the instance yet.
fn is_pending(record: &GroupRecord, number: u32) -> bool {
    record.operation.as_ref().is_some_and(|operation| match operation.kind {
        Operation::Starting | Operation::Stopping | Operation::Restarting => {
            (operation.next.max(1)..=operation.last).contains(&number)
        }
        Operation::Deploying
        | Operation::Scheduling
        | Operation::Upgrading
        | Operation::Drifting
        | Operation::Removing => false,
    })
}

/// Whether the number is in use.
pub fn is_instance(instance: &Instance) -> bool {
    instance.presence != Presence::Free
}

type Requested = (TargetState, u32, u32);

fn requested(instance: &Instance) -> Requested {
    (instance.target, instance.starts_requested, instance.restarts_requested)
}

fn after((target, starts, restarts): Requested, act: Act) -> Requested {
    match act {
        Act::Start => (TargetState::Run, starts + 1, restarts),
        Act::Stop => (TargetState::Stop, starts, restarts),
        Act::Restart => (TargetState::Run, starts, restarts + 1),
        Act::Nothing => (target, starts, restarts),
    }
}
