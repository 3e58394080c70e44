//! Tests of the instance reconciler; small builders make the input.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::labels::Identity;
use contract::order::Assignment;
use contract::pod_id::PodId;
use contract::spec::{ContainerSpec, PodSpec};
use contract::state::{RestartPolicy, TargetState};
use contract::switches::Switches;
use contract::time::Timestamp;
use proptest::prelude::*;

use super::*;

#[path = "instance/crash_tests.rs"]
mod crashes;
#[path = "instance/rollout_tests.rs"]
mod rollouts;

const LIMITS: RestartLimits = RestartLimits { most: 3, window: Duration::from_secs(1800) };
const GRACE: Duration = Duration::from_secs(10);
/// Digest of the spec that existing containers are updated to in random histories.
const LIVE: &str = "live";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
}
fn pod(text: &str) -> PodId {
    text.parse().expect("a pod id")
}
fn spec(containers: usize) -> PodSpec {
    PodSpec { containers: vec![ContainerSpec::default(); containers], ..Default::default() }
}

/// The input, owned, so that tests can change single fields.
#[derive(Debug)]
struct InputBuilder {
    desired: Vec<(PodId, Assignment, PodSpec, RememberedPod)>,
    observed: Vec<(String, Identity, Activity, i64, Timestamp)>,
    recreate_at: Timestamp,
    switches: Switches,
    /// Pods with missing images.
    images: BTreeMap<PodId, Images>,
    /// For every desired pod: the images of its successor.
    next_images: Option<Images>,
    /// For every desired pod.
    live: Option<LiveUpdate>,
    /// Digests of containers that were not created from the spec "made".
    updated: BTreeMap<String, String>,
    /// Containers that fail a startup or liveness check.
    failing: BTreeSet<String>,
}

fn facts() -> InputBuilder {
    InputBuilder {
        desired: Vec::new(),
        observed: Vec::new(),
        recreate_at: at(1_000_000),
        switches: Switches::default(),
        images: BTreeMap::new(),
        next_images: None,
        live: None,
        updated: BTreeMap::new(),
        failing: BTreeSet::new(),
    }
}

impl InputBuilder {
    fn want(mut self, id: &str, containers: usize) -> Self {
        let assignment =
            Assignment { target: TargetState::Run, restart_policy: RestartPolicy::Always, ..Default::default() };
        // One test checks that an exit is read first; the others start with exits that were read.
        let memory =
            RememberedPod { exits_read: (0..3).map(|index| (index, at(50))).collect(), ..RememberedPod::default() };
        self.desired.push((pod(id), assignment, spec(containers), memory));
        self
    }
    fn policy(mut self, policy: RestartPolicy) -> Self {
        self.desired.last_mut().expect("a wanted pod").1.restart_policy = policy;
        self
    }
    fn stopped(mut self) -> Self {
        self.desired.last_mut().expect("a wanted pod").1.target = TargetState::Stop;
        self
    }
    fn stateful(mut self) -> Self {
        self.desired.last_mut().expect("a wanted pod").2.stateful = true;
        self
    }
    /// Requests this many starts and restarts at second 60.
    fn asked(mut self, starts: u32, restarts: u32) -> Self {
        let (_, assignment, _, memory) = self.desired.last_mut().expect("a wanted pod");
        (assignment.starts_requested, assignment.restarts_requested) = (starts, restarts);
        memory.requested_at = at(60);
        self
    }
    fn started(mut self, seconds: i64) -> Self {
        self.observed.last_mut().expect("a container").4 = at(seconds);
        self
    }
    fn statuses(mut self, activity: Activity) -> Self {
        self.observed.last_mut().expect("a container").2 = activity;
        self
    }
    fn exit_code(mut self, code: i64) -> Self {
        self.observed.last_mut().expect("a container").3 = code;
        self
    }
    fn switch(mut self, change: impl FnOnce(&mut Switches)) -> Self {
        change(&mut self.switches);
        self
    }
    fn remember(mut self, change: impl FnOnce(&mut RememberedPod)) -> Self {
        change(&mut self.desired.last_mut().expect("a wanted pod").3);
        self
    }
    fn see(mut self, id: &str, of: &str, index: usize, activity: Activity) -> Self {
        let started = at(i64::try_from(self.observed.len()).expect("few"));
        self.observed.push((id.to_owned(), Identity { pod: pod(of), index }, activity, 1, started));
        self
    }
    /// The last desired pod lacks an image that is not pulled before that second.
    fn lacks(self, image: &str, retry_at: i64) -> Self {
        self.images(Images::Missing { image: image.to_owned(), retry_at: at(retry_at) })
    }
    fn images(mut self, images: Images) -> Self {
        let pod = self.desired.last().expect("a wanted pod").0.clone();
        self.images.insert(pod, images);
        self
    }
    fn next_images(mut self, next_images: Images) -> Self {
        self.next_images = Some(next_images);
        self
    }
    /// Existing containers are updated to the spec of this digest, not before that second.
    fn live(mut self, digest: &str, retry_at: i64) -> Self {
        self.live = Some(LiveUpdate { digest: digest.to_owned(), retry_at: at(retry_at) });
        self
    }
    fn updated(mut self, id: &str, digest: &str) -> Self {
        self.updated.insert(id.to_owned(), digest.to_owned());
        self
    }
    fn failing(mut self, id: &str) -> Self {
        self.failing.insert(id.to_owned());
        self
    }
    fn next_at(&self, now: Timestamp) -> InstanceAction {
        let desired = self.desired.iter().map(|(pod, assignment, spec, memory)| DesiredPod {
            pod,
            assignment: assignment.clone(),
            spec,
            memory: memory.clone(),
            recreate_at: self.recreate_at,
            images: self.images.get(pod).cloned().unwrap_or(Images::Present),
            next_images: self.next_images.clone().unwrap_or(Images::Present),
            live: self.live.clone(),
        });
        let ended = at(50);
        let seen = self.observed.iter().map(|(id, identity, activity, exit_code, started_at)| ObservedContainer {
            id,
            identity,
            activity: *activity,
            end: ContainerExit {
                exit_code: *exit_code,
                engine_error: false,
                finished_at: ended,
                seen_at: ended,
                excused: false,
            },
            started_at: *started_at,
            grace: GRACE,
            spec_digest: self.updated.get(id).map_or("made", String::as_str),
            fails_check: self.failing.contains(id),
        });
        InstanceInput { desired: desired.collect(), observed: seen.collect(), limits: LIMITS, switches: self.switches }
            .next_action(now)
    }
    fn next(&self) -> InstanceAction {
        self.next_at(at(100))
    }
}

fn stop(id: &str) -> InstanceAction {
    InstanceAction::Stop { id: id.to_owned(), grace: GRACE }
}
fn request_done(of: &str, restarts: u32, restarted_at: Timestamp) -> InstanceAction {
    InstanceAction::RequestDone { pod: pod(of), history: RestartCount { restarts, restarted_at } }
}
fn create(id: &str, index: usize) -> InstanceAction {
    InstanceAction::Create(Identity { pod: pod(id), index })
}
fn remove(id: &str) -> InstanceAction {
    InstanceAction::Remove { id: id.to_owned(), grace: GRACE }
}
fn start(id: &str, of: &str, restarts: u32, restarted_at: Timestamp) -> InstanceAction {
    let identity = Identity { pod: pod(of), index: 0 };
    InstanceAction::Start { id: id.to_owned(), identity, history: RestartCount { restarts, restarted_at } }
}

#[test]
fn a_new_pod_is_created_and_a_running_one_left_alone() {
    assert_eq!(facts().want("a.v1-i1-d0", 1).next(), create("a.v1-i1-d0", 0));
    let running = facts().want("a.v1-i1-d0", 1).see("x", "a.v1-i1-d0", 0, Activity::Running);
    assert_eq!(running.next(), InstanceAction::Nothing);
}

#[test]
fn maintenance_holds_automatic_restarts_and_nothing_else() {
    let maintenance = |mut facts: InputBuilder| {
        facts.switches.hold_restarts = true;
        facts
    };
    let ended = || facts().want("a.v1-i1-d0", 1).see("x", "a.v1-i1-d0", 0, Activity::Exited);
    assert_eq!(ended().next(), start("x", "a.v1-i1-d0", 1, at(100)));
    assert_eq!(maintenance(ended()).next(), InstanceAction::Nothing);
    // A requested start is no automatic restart, and a new pod is no restart at all.
    let stopped_by_order = ended().remember(|memory| {
        memory.stopped_by_order.insert(0);
    });
    assert_eq!(maintenance(stopped_by_order).next(), start("x", "a.v1-i1-d0", 1, at(100)));
    assert_eq!(maintenance(facts().want("a.v1-i1-d0", 1)).next(), create("a.v1-i1-d0", 0));
    // The agent recreates a missing container when the scheduler does not answer.
    let mut missing = facts().want("a.v1-i1-d0", 1).remember(|memory| memory.created = true);
    missing.recreate_at = at(90);
    assert_eq!(maintenance(missing).next(), create("a.v1-i1-d0", 0));
}

#[test]
fn while_the_guard_is_off_a_missing_container_is_left_even_without_a_leader() {
    let mut missing = facts().want("a.v1-i1-d0", 1).remember(|memory| memory.created = true);
    missing.recreate_at = at(90);
    missing.switches.hold_missing = true;
    assert_eq!(missing.next(), InstanceAction::Nothing);
    // A pod that was never created is not missing, and an exit is handled by the restart policy.
    let mut fresh = facts().want("a.v1-i1-d0", 1);
    fresh.switches.hold_missing = true;
    assert_eq!(fresh.next(), create("a.v1-i1-d0", 0));
    let mut ended = facts().want("a.v1-i1-d0", 1).see("x", "a.v1-i1-d0", 0, Activity::Exited);
    ended.switches.hold_missing = true;
    assert_eq!(ended.next(), start("x", "a.v1-i1-d0", 1, at(100)));
}

#[test]
fn switches_apply_differently_to_instances_and_dependency_pods() {
    let (instance, dependency) = ("a.v1-i1-d0", "d-n1-a.v1-i0-d0");
    let ended = |id: &str| facts().want(id, 1).see("x", id, 0, Activity::Exited);
    let missing = |id: &str| InputBuilder { recreate_at: at(0), ..facts().want(id, 1).remember(|m| m.created = true) };
    let switches = |hold_restarts, hold_missing, paused| Switches { hold_restarts, hold_missing, paused };
    // switches; whether exited containers are started and missing ones created: of an instance, of a dependency pod
    let table = [
        (switches(false, false, false), [true, true], [true, true]),
        (switches(true, false, false), [false, true], [true, true]),
        (switches(false, true, false), [true, false], [true, true]),
        (switches(true, true, false), [false, false], [true, true]),
        (switches(false, false, true), [false, false], [false, false]),
    ];
    for (on, of_instance, of_dependency) in table {
        for (id, expected) in [(instance, of_instance), (dependency, of_dependency)] {
            let done =
                [ended(id), missing(id)].map(|facts| facts.switch(|b| *b = on).next() != InstanceAction::Nothing);
            assert_eq!(done, expected, "{id} {on:?}");
        }
    }
}

#[test]
fn a_missing_dependency_pod_is_recreated_immediately_even_if_stateful() {
    let id = "d-n1-a.v1-i0-d0";
    let missing = facts().want(id, 1).remember(|m| m.created = true);
    assert_eq!(missing.next(), create(id, 0), "without waiting for the scheduler");
    assert_eq!(missing.stateful().next(), create(id, 0));
    let refused = facts().want(id, 1).remember(|m| (m.created, m.retry_at) = (true, at(110)));
    assert_eq!(refused.next(), InstanceAction::WaitUntil(at(110)));
    let spent = facts().want(id, 1).remember(|m| m.history = RestartCount { restarts: 3, restarted_at: at(40) }).see(
        "x",
        id,
        0,
        Activity::Exited,
    );
    assert_eq!(spent.next(), InstanceAction::CrashLooping(pod(id)), "its restarts are limited as any pod's");
}

#[test]
fn a_requested_start_starts_stopped_containers_and_counts_once() {
    let id = "a.v1-i1-d0";
    let down = || facts().want(id, 1).policy(RestartPolicy::Never).asked(1, 0).see("x", id, 0, Activity::Exited);
    let wished = |m: &mut RememberedPod| m.stopped_by_order = BTreeSet::from([0]);
    assert_eq!(down().remember(wished).next(), start("x", id, 0, Timestamp::NEVER), "counted when it is answered");
    let braked = down().remember(wished).switch(|b| (b.hold_restarts, b.paused) = (true, true));
    assert_eq!(braked.next(), start("x", id, 0, Timestamp::NEVER), "a requested start is no automatic restart");
    let up = facts().want(id, 1).asked(1, 0).see("x", id, 0, Activity::Running);
    assert_eq!(up.next(), request_done(id, 0, Timestamp::NEVER), "it ran already: nothing to do or to count");
    assert_eq!(up.started(61).next(), request_done(id, 1, at(100)));
    let started_since_request =
        facts().want(id, 1).asked(1, 0).remember(|m| m.started_since_request = BTreeSet::from([0]));
    assert_eq!(started_since_request.see("x", id, 0, Activity::Running).next(), request_done(id, 1, at(100)));
}

#[test]
fn a_requested_start_without_effect_is_confirmed() {
    let id = "a.v1-i1-d0";
    let refused = facts().want(id, 1).asked(1, 0).remember(|m| {
        (m.stopped_by_order, m.retry_at) = (BTreeSet::from([0]), at(110));
    });
    assert_eq!(refused.see("x", id, 0, Activity::Exited).next(), request_done(id, 0, Timestamp::NEVER));
    let missing = facts().want(id, 1).asked(1, 1).remember(|m| m.created = true);
    assert_eq!(missing.next(), request_done(id, 0, Timestamp::NEVER));
    assert_eq!(facts().want(id, 1).asked(1, 1).stopped().next(), request_done(id, 0, Timestamp::NEVER));
}

#[test]
fn a_restart_stops_and_starts_each_container_in_turn_and_counts_once() {
    let id = "a.v1-i1-d0";
    let two = |first, second| facts().want(id, 2).asked(0, 1).see("x", id, 0, first).see("y", id, 1, second);
    assert_eq!(two(Activity::Running, Activity::Running).next(), stop("x"));
    assert_eq!(two(Activity::Exited, Activity::Running).next(), start("x", id, 0, Timestamp::NEVER));
    let first_done =
        two(Activity::Running, Activity::Running).remember(|m| m.started_since_request = BTreeSet::from([0]));
    assert_eq!(first_done.next(), stop("y"));
    let done = |facts: InputBuilder| facts.remember(|m| m.started_since_request = BTreeSet::from([0, 1]));
    assert_eq!(done(two(Activity::Running, Activity::Running)).next(), request_done(id, 1, at(100)));
    // The engine's start time counts as well as the memory: the agent may have crashed in between.
    let by_clock = facts().want(id, 1).asked(0, 1).see("x", id, 0, Activity::Running).started(61);
    assert_eq!(by_clock.next(), request_done(id, 1, at(100)));
    assert_eq!(by_clock.started(60).next(), stop("x"), "at the very moment is before");
}

#[test]
fn a_requested_restart_ignores_policy_restart_limit_and_switches() {
    let id = "a.v1-i1-d0";
    let down = facts().want(id, 1).policy(RestartPolicy::Never).asked(0, 1).see("x", id, 0, Activity::Exited);
    let spent = down.remember(|m| m.is_crash_looping = true).switch(|b| b.hold_restarts = true);
    assert_eq!(spent.next(), start("x", id, 0, Timestamp::NEVER));
}

#[test]
fn an_exit_after_the_restart_is_handled_by_the_policy() {
    let id = "a.v1-i1-d0";
    let ended = || facts().want(id, 1).asked(0, 1).see("x", id, 0, Activity::Exited).started(61);
    assert_eq!(ended().next(), start("x", id, 1, at(100)));
    assert_eq!(ended().policy(RestartPolicy::Never).next(), request_done(id, 1, at(100)));
}

#[test]
fn a_stop_wins_over_a_restart() {
    let id = "a.v1-i1-d0";
    let running = facts().want(id, 1).stopped().asked(1, 1).see("x", id, 0, Activity::Running);
    assert_eq!(running.next(), stop("x"));
    let down = facts().want(id, 1).stopped().asked(1, 1).see("x", id, 0, Activity::Exited);
    assert_eq!(down.next(), request_done(id, 0, Timestamp::NEVER));
}

#[test]
fn a_new_pod_confirms_the_requests_to_its_predecessor() {
    let id = "a.v1-i1-d1";
    let never = |m: &mut RememberedPod| m.requested_at = Timestamp::NEVER;
    assert_eq!(facts().want(id, 1).asked(2, 3).remember(never).next(), create(id, 0));
    let made = facts().want(id, 1).asked(2, 3).remember(never).see("x", id, 0, Activity::Running);
    assert_eq!(made.next(), request_done(id, 0, Timestamp::NEVER), "and it is no restart");
}

#[test]
fn surplus_containers_are_removed_before_others_are_created() {
    let upgrade = facts().want("a.v2-i1-d0", 2).see("old", "a.v1-i1-d0", 0, Activity::Running);
    assert_eq!(upgrade.next(), remove("old"));
    assert_eq!(facts().see("old", "a.v1-i1-d0", 0, Activity::Exited).next(), remove("old"));
}

#[test]
fn two_desired_versions_run_side_by_side() {
    let surge = facts().want("a.v1-i1-d0", 1).want("a.v2-i1-d0", 1).see("old", "a.v1-i1-d0", 0, Activity::Running);
    assert_eq!(surge.next(), create("a.v2-i1-d0", 0));
}

#[test]
fn of_duplicate_containers_the_running_one_stays_then_the_older() {
    let id = "a.v1-i1-d0";
    let pair = facts().want(id, 1).see("x", id, 0, Activity::Exited).see("y", id, 0, Activity::Running);
    assert_eq!(pair.next(), remove("x"));
    let pair = facts().want(id, 1).see("x", id, 0, Activity::Running).see("y", id, 0, Activity::Running);
    assert_eq!(pair.next(), remove("y"));
}

#[test]
fn containers_are_created_in_index_order_and_a_waiting_one_delays_the_rest() {
    let id = "a.v1-i1-d0";
    assert_eq!(facts().want(id, 3).next(), create(id, 0));
    assert_eq!(facts().want(id, 3).see("x", id, 0, Activity::Running).next(), create(id, 1));
    let waiting = facts().want(id, 2).see("x", id, 1, Activity::Running).remember(|m| m.retry_at = at(200));
    assert_eq!(waiting.next(), InstanceAction::WaitUntil(at(200)));
    assert_eq!(waiting.next_at(at(200)), create(id, 0));
}

#[test]
fn a_container_beyond_the_spec_is_removed() {
    let id = "a.v1-i1-d0";
    let facts = facts().want(id, 1).see("x", id, 0, Activity::Running).see("y", id, 1, Activity::Running);
    assert_eq!(facts.next(), remove("y"));
}

#[test]
fn a_created_container_is_started_without_being_counted() {
    let id = "a.v1-i1-d0";
    let made = facts().want(id, 1).see("x", id, 0, Activity::Created);
    assert_eq!(made.next(), start("x", id, 0, Timestamp::NEVER));
}

#[test]
fn an_exited_container_is_restarted_immediately_and_counted() {
    let id = "a.v1-i1-d0";
    let ended = facts().want(id, 1).remember(|m| m.created = true).see("x", id, 0, Activity::Exited);
    assert_eq!(ended.next(), start("x", id, 1, at(100)));
    assert_eq!(ended.policy(RestartPolicy::Never).next(), InstanceAction::Nothing);
}

#[test]
fn a_start_after_an_ordered_stop_ignores_policy_and_restart_limit() {
    let id = "a.v1-i1-d0";
    let ordered = facts().want(id, 1).stopped().see("x", id, 0, Activity::Running);
    assert_eq!(ordered.next(), stop("x"));
    let down = facts().want(id, 1).stopped().see("x", id, 0, Activity::Exited);
    assert_eq!(down.next(), InstanceAction::Nothing);
    let start_again = facts()
        .want(id, 1)
        .policy(RestartPolicy::Never)
        .remember(|m| {
            m.stopped_by_order = BTreeSet::from([0]);
            m.history = RestartCount { restarts: 3, restarted_at: at(40) };
        })
        .see("x", id, 0, Activity::Exited);
    assert_eq!(start_again.next(), start("x", id, 4, at(100)));
}

#[test]
fn a_stopped_pod_without_containers_is_not_created() {
    assert_eq!(facts().want("a.v1-i1-d0", 1).stopped().next(), InstanceAction::Nothing);
}

#[test]
fn a_missing_container_is_left_to_the_scheduler_until_the_timeout() {
    let id = "a.v1-i1-d0";
    let mut missing = facts().want(id, 1).remember(|m| m.created = true);
    missing.recreate_at = at(160);
    assert_eq!(missing.next(), InstanceAction::WaitUntil(at(160)));
    assert_eq!(missing.next_at(at(160)), create(id, 0));
    let bound = InputBuilder { recreate_at: at(0), ..missing }.stateful();
    assert_eq!(bound.next(), InstanceAction::Nothing);
}

#[test]
fn a_refused_create_is_retried_after_the_back_off() {
    let refused = facts().want("a.v1-i1-d0", 1).remember(|m| m.retry_at = at(110));
    assert_eq!(refused.next(), InstanceAction::WaitUntil(at(110)));
    assert_eq!(refused.next_at(at(110)), create("a.v1-i1-d0", 0));
}

#[test]
fn containers_created_from_another_spec_are_removed_first() {
    let id = "a.v1-i1-d0";
    let outdated = facts().want(id, 1).remember(|m| m.outdated = true).see("x", id, 0, Activity::Running);
    assert_eq!(outdated.next(), remove("x"));
}

#[test]
fn a_container_stuck_in_removal_is_removed_again() {
    let id = "a.v1-i1-d0";
    assert_eq!(facts().want(id, 1).see("x", id, 0, Activity::Leaving).next(), remove("x"));
}

fn any_activity() -> impl Strategy<Value = Activity> {
    prop::sample::select(vec![Activity::Running, Activity::Exited, Activity::Created, Activity::Leaving])
}

fn any_facts() -> impl Strategy<Value = InputBuilder> {
    let names = || prop::sample::select(vec!["a.v1-i1-d0", "a.v1-i1-d1", "a.v2-i1-d0"]);
    let one = (1..3usize, any::<bool>(), any::<bool>(), 0..3u8, 0..2u32, 0..2u32, any::<bool>());
    let desired = prop::collection::btree_map(names(), one, 0..3);
    let seen = prop::collection::vec((names(), 0..3usize, any_activity()), 0..6);
    (desired, seen, any::<bool>(), any::<bool>()).prop_map(|(desired, seen, live, is_replaced)| {
        let mut all = if live { facts().live(LIVE, 0) } else { facts() };
        if is_replaced {
            all = all.next_images(Images::Missing { image: "web:3".to_owned(), retry_at: at(0) });
        }
        for (id, (count, created, stop, policy, starts, restarts, lacks)) in desired {
            let policy = [RestartPolicy::Never, RestartPolicy::Always, RestartPolicy::OnFail][usize::from(policy)];
            all = all.want(id, count).policy(policy).asked(starts, restarts).remember(|m| m.created = created);
            if stop {
                all = all.stopped();
            }
            if lacks {
                all = all.lacks("web:2", 0);
            }
        }
        for (number, (of, index, activity)) in seen.into_iter().enumerate() {
            all = all.see(&format!("c{number}"), of, index, activity);
        }
        all
    })
}

/// Performs the action like a perfect engine.
fn perform(facts: &mut InputBuilder, next: InstanceAction, made: &mut usize) {
    match next {
        InstanceAction::Nothing | InstanceAction::WaitUntil(_) => {}
        InstanceAction::PullImage(_) => {
            facts.images.clear();
            facts.next_images = None;
        }
        InstanceAction::Update { id, .. } => drop(facts.updated.insert(id, LIVE.to_owned())),
        InstanceAction::Create(identity) => {
            *made += 1;
            facts.observed.push((format!("n{made}"), identity, Activity::Running, 0, at(90)));
        }
        InstanceAction::Replace { old, new, .. } => {
            perform(facts, InstanceAction::Remove { id: old, grace: GRACE }, made);
            perform(facts, InstanceAction::Create(new), made);
        }
        InstanceAction::Start { id, .. } => {
            set(facts, &id, Activity::Running);
            facts.observed.iter_mut().filter(|seen| seen.0 == id).for_each(|seen| seen.4 = at(90));
        }
        InstanceAction::Stop { id, .. } => set(facts, &id, Activity::Exited),
        InstanceAction::Remove { id, .. } => facts.observed.retain(|seen| seen.0 != id),
        InstanceAction::RequestDone { pod, history } => {
            facts.desired.iter_mut().filter(|w| w.0 == pod).for_each(|w| answer(w, history));
        }
        InstanceAction::CrashLooping(_) | InstanceAction::Recovered(_) => unreachable!("no pod has restarts"),
        InstanceAction::ReadExit { .. } => unreachable!("all ends are read"),
    }
}
fn answer((_, assignment, _, memory): &mut (PodId, Assignment, PodSpec, RememberedPod), history: RestartCount) {
    memory.starts_done = assignment.starts_requested;
    memory.restarts_done = assignment.restarts_requested;
    memory.history = history;
}
fn set(facts: &mut InputBuilder, id: &str, activity: Activity) {
    facts.observed.iter_mut().filter(|seen| seen.0 == id).for_each(|seen| seen.2 = activity);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_instance_converges_to_its_desired_pods(mut facts in any_facts()) {
        let mut made = 0;
        let mut steps = 0;
        loop {
            let next = facts.next();
            if matches!(next, InstanceAction::Nothing | InstanceAction::WaitUntil(_)) {
                break;
            }
            if let InstanceAction::Replace { old, .. } = &next {
                prop_assert!(facts.observed.iter().all(|seen| seen.0 == *old), "something else stands beside a replacement");
            }
            if matches!(next, InstanceAction::Create(_)) {
                let ordered = |id: &PodId| facts.desired.iter().any(|w| w.0 == *id);
                prop_assert!(facts.observed.iter().all(|seen| ordered(&seen.1.pod)), "created beside a surplus container");
            }
            perform(&mut facts, next, &mut made);
            steps += 1;
            prop_assert!(steps < 40, "the instance never converges");
        }
        let mut kinds: Vec<&Identity> = facts.observed.iter().map(|seen| &seen.1).collect();
        kinds.sort();
        let all = kinds.len();
        kinds.dedup();
        prop_assert_eq!(kinds.len(), all, "two containers of a kind");
        for seen in &facts.observed {
            prop_assert!(facts.live.is_none() || facts.updated.contains_key(&seen.0));
            prop_assert!(facts.desired.iter().any(|w| w.0 == seen.1.pod && seen.1.index < w.2.containers.len()));
        }
        for (id, assignment, spec, memory) in &facts.desired {
            let asked = (assignment.starts_requested, assignment.restarts_requested);
            prop_assert_eq!(asked, (memory.starts_done, memory.restarts_done), "something is not answered");
            if assignment.target == TargetState::Run && !memory.created {
                let here = facts.observed.iter().filter(|seen| seen.1.pod == *id).count();
                prop_assert_eq!(here, spec.containers.len(), "a new pod is not complete");
            }
            if assignment.target == TargetState::Stop {
                let runs = facts.observed.iter().any(|seen| seen.1.pod == *id && seen.2 == Activity::Running);
                prop_assert!(!runs, "a stopped pod runs");
            }
        }
    }

    #[test]
    fn the_order_of_the_facts_does_not_matter(facts in any_facts()) {
        let next = facts.next();
        let mut turned = facts;
        turned.observed.reverse();
        // Several surplus containers may go in any order; every other action is determined.
        if !matches!(next, InstanceAction::Remove { .. }) {
            prop_assert_eq!(turned.next(), next);
        } else {
            let removes = matches!(turned.next(), InstanceAction::Remove { .. });
            prop_assert!(removes);
        }
    }
}

#[test]
fn a_container_that_fails_a_check_is_stopped_unless_restarts_are_switched_off() {
    let seen = || facts().want("a.v1-i1-d0", 1).see("x", "a.v1-i1-d0", 0, Activity::Running);
    assert_eq!(seen().next(), InstanceAction::Nothing);
    assert_eq!(seen().failing("x").next(), InstanceAction::Stop { id: "x".to_owned(), grace: GRACE });
    assert_eq!(seen().failing("x").switch(|switches| switches.hold_restarts = true).next(), InstanceAction::Nothing);
}
