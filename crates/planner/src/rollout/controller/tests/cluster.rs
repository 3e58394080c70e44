//! A fake cluster for the controller: pods take time to start and stop, break, and are re-created at their instance's revision.
//!
//! The leader keeps nothing in memory: each tick it gets the facts and the stored state only. After each decision the cluster asks
//! again, since the leader may change at that moment: the second decision must change nothing.

use std::ops::ControlFlow;

use super::*;

/// The steps of a dry run in a cluster where every pod fits on every node, and whether it completes.
pub(super) fn plan(facts: &RolloutFacts) -> (Vec<SimulatedStep>, bool) {
    let mut steps = Vec::new();
    let completes = dry_run(facts, |step, _| {
        steps.push(step);
        ControlFlow::Continue(())
    });
    (steps, completes)
}

pub(super) fn rolling(surge: i64, unavailable: i64) -> RolloutStrategy {
    RolloutStrategy::Rolling { surge: Some(Amount::Count(surge)), unavailable: Some(Amount::Count(unavailable)) }
}

pub(super) fn batched(batch_size: i64, beta: bool) -> BatchStrategy {
    BatchStrategy {
        batch_size: Amount::Count(batch_size),
        beta,
        spread: Spread::Proportional,
        needs_confirm: false,
        window: None,
    }
}

pub(super) fn batches(batch_size: i64, beta: bool) -> RolloutStrategy {
    RolloutStrategy::Batches(batched(batch_size, beta))
}

/// Batches that a user confirms.
pub(super) fn confirmed(batch_size: i64, beta: bool) -> RolloutStrategy {
    RolloutStrategy::Batches(BatchStrategy { needs_confirm: true, ..batched(batch_size, beta) })
}

pub(super) fn settings(strategy: RolloutStrategy) -> RolloutSettings {
    RolloutSettings {
        strategy,
        min_ready: Duration::ZERO,
        deadline: Some(Duration::from_secs(600)),
        replacement: None,
        keeps_addresses: false,
        failure_action: FailureAction::Hold,
        fail_fast_restarts: 3,
        failure_threshold: Amount::Count(0),
        placement_patience: None,
        auto_reschedule: None,
    }
}

pub(super) fn healthy(revision: u32) -> RolloutPod {
    let mut pod = RolloutPod::ordered(revision);
    pod.node = "n".to_owned();
    pod.phase = PodPhase::Running;
    pod.ready = Ready { ready: true, since: Some(Moment::from_secs(0)) };
    pod.created = Some(Moment::from_secs(0));
    pod
}

pub(super) fn instance(number: u32, unit: usize, revision: u32) -> Instance {
    Instance { number, unit, is_stopped: false, is_bound: false, main: Some(healthy(revision)), next: None, leaving: 0 }
}

/// Units with these preferences, named by position.
pub(super) fn units(preferences: impl IntoIterator<Item = Option<Amount>>) -> Vec<UnitFacts> {
    let unit = |(at, preference): (usize, Option<Amount>)| UnitFacts {
        name: format!("u{at}"),
        preference,
        free_capacity: None,
    };
    preferences.into_iter().enumerate().map(unit).collect()
}

/// The state as the next leader reads it from the store.
fn stored(state: &RolloutState) -> RolloutState {
    let text = serde_json::to_string(state).expect("it can be written");
    let found = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(found, *state);
    found
}

pub(super) struct RolloutCluster {
    pub facts: RolloutFacts,
    /// The leader never changes, so there is no second decision.
    pub is_led_by_one: bool,
    /// Revisions whose pods never become ready.
    pub broken: BTreeSet<u32>,
    /// Ticks that a created pod takes to become ready, and that a terminating one takes.
    pub start: i64,
    pub end: i64,
    /// Pods that each unit has room for; unlimited for units that are not listed.
    pub room: Vec<Option<usize>>,
    /// Terminating pods by instance: the remaining ticks of each.
    leaving: BTreeMap<u32, Vec<i64>>,
    /// Terminating pods of removed instances: the remaining ticks of each.
    terminating_removed: Vec<i64>,
    pub last: Option<Decision>,
    /// Decisions with actions.
    pub history: Vec<(u64, Vec<RolloutAction>)>,
}

impl RolloutCluster {
    /// A settled group at revision 1 with these instances of each unit.
    pub(super) fn settled(strategy: RolloutStrategy, sizes: &[usize]) -> Self {
        let unit_of = sizes.iter().enumerate().flat_map(|(unit, size)| std::iter::repeat_n(unit, *size));
        let instances: Vec<Instance> = unit_of.zip(1..).map(|(unit, number)| instance(number, unit, 1)).collect();
        let mut state = RolloutState::toward(1);
        state.phase = transition::RolloutPhase::Completed;
        let facts = RolloutFacts {
            settings: settings(strategy),
            replicas: i64::try_from(instances.len()).expect("few"),
            target: 1,
            equals: BTreeSet::new(),
            proven: Some(1),
            is_rollback: false,
            can_roll_back: true,
            units: units(vec![None; sizes.len()]),
            instances,
            terminating_removed: 0,
            is_blind: false,
            state,
            now: Moment::from_secs(1_000),
        };
        let preferences = sizes.iter().map(|size| Some(Amount::Count(i64::try_from(*size).expect("few"))));
        let mut cluster = Self {
            facts,
            is_led_by_one: false,
            broken: BTreeSet::new(),
            start: 0,
            end: 0,
            room: Vec::new(),
            leaving: BTreeMap::new(),
            terminating_removed: Vec::new(),
            last: None,
            history: Vec::new(),
        };
        if sizes.windows(2).any(|two| two[0] != two[1]) {
            cluster.facts.units = units(preferences);
        }
        cluster.decide();
        assert_eq!(cluster.history, [], "it was as it should be");
        cluster
    }

    pub(super) fn roll_out(&mut self, target: u32) -> &mut Self {
        self.facts.target = target;
        self
    }

    /// Rolls back to revision 1, which completed, under a new number.
    pub(super) fn undo(&mut self, target: u32) -> &mut Self {
        self.facts.target = target;
        self.facts.equals = BTreeSet::from([1]);
        self.facts.is_rollback = true;
        self
    }

    pub(super) fn say(&mut self, control: Control) {
        self.facts.state = apply(&self.facts.state, control, self.facts.now).expect("nothing against it");
    }

    /// Makes one decision and applies its actions to the desired state; pods do not change.
    pub(super) fn decide(&mut self) -> Decision {
        let decision = controller(&self.facts);
        self.facts.state = if self.is_led_by_one { decision.state.clone() } else { stored(&decision.state) };
        for (number, leaving) in self.perform(&decision.actions) {
            self.leaving.entry(number).or_default().extend(std::iter::repeat_n(self.end, leaving));
        }
        if !decision.actions.is_empty() {
            self.history.push((decision.state.batch, decision.actions.clone()));
        }
        if !self.is_led_by_one {
            let again = controller(&self.facts);
            assert_eq!(again.actions, [], "a second leader does nothing more after {:?}", decision.actions);
            assert_eq!(again.state, decision.state, "and remembers the same");
        }
        self.last = Some(decision.clone());
        decision
    }

    /// Additional terminating pods of each instance.
    fn perform(&mut self, actions: &[RolloutAction]) -> Vec<(u32, usize)> {
        let before: BTreeMap<u32, i64> =
            self.facts.instances.iter().map(|instance| (instance.number, instance.leaving)).collect();
        let left = perform_all(&mut self.facts.instances, self.facts.target, actions);
        self.facts.terminating_removed += left;
        self.terminating_removed.extend(std::iter::repeat_n(self.end, usize::try_from(left).expect("none came back")));
        self.leaving.retain(|number, _| self.facts.instances.iter().any(|instance| instance.number == *number));
        let more = |instance: &Instance| {
            let more = instance.leaving - before.get(&instance.number).copied().unwrap_or(0);
            (instance.number, usize::try_from(more).expect("none came back"))
        };
        self.facts.instances.iter().map(more).collect()
    }

    /// One tick: pods terminate, are created and become ready.
    pub(super) fn pass(&mut self) {
        self.facts.now = self.facts.now.after(Duration::from_secs(1));
        let (now, start) = (self.facts.now, Duration::from_secs(u64::try_from(self.start).expect("not before")));
        let waits = self.facts.settings.replacement != Some(PodReplacement::Started);
        self.find_places();
        self.terminating_removed.iter_mut().for_each(|left| *left -= 1);
        self.terminating_removed.retain(|left| *left > 0);
        self.facts.terminating_removed = i64::try_from(self.terminating_removed.len()).expect("few");
        for instance in &mut self.facts.instances {
            let leaving = self.leaving.entry(instance.number).or_default();
            leaving.iter_mut().for_each(|left| *left -= 1);
            leaving.retain(|left| *left > 0);
            instance.leaving = i64::try_from(leaving.len()).expect("few");
            let held = waits && instance.leaving > 0;
            let next = instance.next.as_mut().map(|next| (&mut next.pod, false));
            for (pod, held) in instance.main.as_mut().map(|main| (main, held)).into_iter().chain(next) {
                let may_run = !instance.is_stopped && !held && pod.unschedulable_since.is_none();
                if pod.created.is_none() && may_run {
                    (pod.created, pod.node, pod.phase) = (Some(now), "n".to_owned(), PodPhase::Running);
                }
                let is_up = pod.created.is_some_and(|created| created.after(start) <= now);
                if is_up && !pod.ready.ready && !self.broken.contains(&pod.revision) {
                    pod.ready = Ready { ready: true, since: Some(now) };
                }
            }
        }
        if let Some(transition::RolloutPhase::Completed) = self.last.as_ref().map(|last| last.state.phase) {
            self.facts.proven = Some(self.facts.target);
        }
    }

    /// Schedules pods that are not created yet or marks them unschedulable, lowest number first.
    fn find_places(&mut self) {
        let now = self.facts.now;
        let mut room = self.room.clone();
        for is_made in [true, false] {
            for instance in &mut self.facts.instances {
                let next = instance.next.as_mut().map(|next| (next.unit, &mut next.pod));
                let pods = instance.main.as_mut().map(|main| (instance.unit, main)).into_iter().chain(next);
                for (unit, pod) in pods.filter(|(_, pod)| pod.created.is_some() == is_made) {
                    let Some(Some(free)) = room.get_mut(unit) else { continue };
                    let is_placed = is_made || *free > 0;
                    *free = free.saturating_sub(1);
                    let since = pod.unschedulable_since.or(Some(now));
                    pod.unschedulable_since = if is_placed { None } else { since };
                }
            }
        }
    }

    /// Declares the units in another order; undeclared units come after them.
    pub(super) fn rotate_units(&mut self, by: usize) {
        let units = self.facts.units.len();
        let by = by % units;
        self.facts.units.rotate_left(by);
        let now = |unit: usize| if unit < units { (unit + units - by) % units } else { unit };
        for instance in &mut self.facts.instances {
            instance.unit = now(instance.unit);
            instance.next.iter_mut().for_each(|next| next.unit = now(next.unit));
        }
    }

    /// The pod of an instance dies and is re-created.
    pub(super) fn kill(&mut self, at: usize) {
        let now = self.facts.now;
        if let Some(main) = self.facts.instances.get_mut(at).and_then(|instance| instance.main.as_mut()) {
            main.ready = Ready { ready: false, since: None };
            main.created = main.created.map(|_| now);
        }
    }

    /// Ticks until the rollout has ended, at most this many times.
    pub(super) fn run(&mut self, most: usize) -> &Decision {
        for _ in 0..most {
            let decision = self.decide();
            self.pass();
            if !decision.state.is_open() && decision.actions.is_empty() {
                break;
            }
        }
        self.last.as_ref().expect("it was asked")
    }

    /// Makes one decision and confirms the batch that it waits for.
    pub(super) fn decide_and_confirm(&mut self) -> Decision {
        let decision = self.decide();
        if let RolloutStatus::WaitingForConfirm { batch } = decision.report.status {
            self.say(Control::Confirm(batch));
        }
        decision
    }

    /// The rollout ended, no instance is being updated and all are available.
    pub(super) fn is_over(&self) -> bool {
        let is_settled = self.facts.instances.iter().all(|instance| instance.next.is_none() && instance.leaving == 0);
        is_settled && !self.facts.state.is_open() && self.available() == self.facts.replicas
    }

    /// Ticks until the rollout is over, at most this many times.
    pub(super) fn finish(&mut self, most: usize) {
        for _ in 0..most {
            let actions = self.decide().actions;
            self.pass();
            if actions.is_empty() && self.is_over() {
                return;
            }
        }
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &RolloutPod> {
        self.facts
            .instances
            .iter()
            .flat_map(|instance| instance.main.iter().chain(instance.next.iter().map(|next| &next.pod)))
    }

    /// Desired pods at each revision.
    pub(super) fn mix(&self) -> BTreeMap<u32, usize> {
        let mut mix = BTreeMap::new();
        self.pods().for_each(|pod| *mix.entry(pod.revision).or_default() += 1);
        mix
    }

    pub(super) fn available(&self) -> i64 {
        let running = self.pods().filter(|pod| self.facts.is_available(pod));
        i64::try_from(running.count()).expect("few")
    }

    pub(super) fn revisions(&self) -> Vec<u32> {
        self.facts.instances.iter().filter_map(|instance| Some(instance.main.as_ref()?.revision)).collect()
    }
}
