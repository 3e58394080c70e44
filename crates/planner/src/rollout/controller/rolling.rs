//! Rolling updates: which instances are updated.
//!
//! `rollout::rolling` decides how many pods of each revision start or stop; here these become instances. An instance has at most
//! one pod of the target revision, so the new set grows first into instances that just lost their pod, then by surge pods, lowest
//! number first. Unavailable pods stop first, then pods whose surge pod is available.

use std::collections::{BTreeMap, BTreeSet};

use super::decision::RolloutAction;
use super::draft::{Draft, count, pods};
use super::facts::{Instance, RolloutStrategy};
use crate::rollout::limits::{PodReplacement, RolloutLimits, Strategy, default_replacement};
use crate::rollout::ranking;
use crate::rollout::rolling::{self, RollingStep, SetSize, Sets};

/// The strategy for the limits; a batch is its own limit.
pub fn budget_strategy(strategy: RolloutStrategy) -> Strategy {
    match strategy {
        RolloutStrategy::Rolling { surge, unavailable } => Strategy::RollingUpdate { surge, unavailable },
        RolloutStrategy::Recreate | RolloutStrategy::Batches(_) => Strategy::Recreate,
    }
}

/// The limits for running instances: a stopped one is never available.
pub(super) fn limits(draft: &Draft<'_>) -> RolloutLimits {
    let stopped = count(draft.instances.iter().filter(|instance| instance.is_stopped));
    RolloutLimits::of(
        budget_strategy(draft.facts.settings.strategy),
        draft.facts.replicas.saturating_sub(stopped).max(0),
    )
}

/// Takes steps until none is possible; each one removes old pods or adds new ones, so they end.
pub(super) fn roll(draft: &mut Draft<'_>) {
    let limits = limits(draft);
    let settings = &draft.facts.settings;
    // An in-place update never runs beside its old pod, so terminating pods do not block it; waiting for them would take the
    // instance down and lose its address.
    let replacement = match (settings.keeps_addresses, settings.replacement) {
        (true, _) => PodReplacement::Started,
        (false, Some(replacement)) => replacement,
        (false, None) => default_replacement(budget_strategy(settings.strategy), &limits),
    };
    if draft.facts.is_blind && replacement.counted(1) > 0 {
        // Until all nodes have reported, the replacement of a stopped pod could not start.
        return;
    }
    for _ in 0..=draft.instances.len().saturating_mul(4) {
        let order = shrink_order(draft);
        let mut sets = sets(draft, &order, replacement).clamped();
        if open(draft).is_empty() && single(draft).is_empty() {
            // An instance has at most two pods: where each has two old ones, one must stop before a new one starts.
            sets.terminating = limits.max_total;
        }
        match rolling::step(&limits, &sets) {
            RollingStep::Nothing => break,
            RollingStep::ScaleNew(size) => grow(draft, size.saturating_sub(sets.new.spec)),
            RollingStep::ScaleOld { sizes, .. } => {
                let lost = sets.old.iter().zip(sizes).map(|(set, size)| set.spec - size);
                let lost: BTreeMap<u32, i64> = order.into_iter().zip(lost).collect();
                lost.into_iter().for_each(|(revision, pods)| shrink(draft, revision, pods));
            }
        }
    }
    draft.settle();
}

/// Instances without a pod.
fn open(draft: &Draft<'_>) -> Vec<u32> {
    draft.running().filter(|instance| instance.main.is_none()).map(|instance| instance.number).collect()
}

/// Instances with one pod, which is old.
fn single(draft: &Draft<'_>) -> Vec<u32> {
    let is_single =
        |instance: &&Instance| instance.main.is_some() && instance.next.is_none() && !draft.is_updated(instance);
    draft.running().filter(is_single).map(|instance| instance.number).collect()
}

/// Old revisions with desired pods, oldest first.
pub(super) fn revisions(draft: &Draft<'_>) -> Vec<u32> {
    let old: BTreeSet<u32> =
        draft.running().flat_map(pods).filter(|pod| draft.is_old(pod)).map(|pod| pod.revision).collect();
    old.into_iter().collect()
}

/// The old revisions in the order in which they give up pods: oldest first, but revisions whose pods are all ready after the
/// others. With the pod of revision 1 ready for less than `MinReadySeconds` and that of revision 4 not started, revision 4
/// goes first.
fn shrink_order(draft: &Draft<'_>) -> Vec<u32> {
    let unready: BTreeSet<u32> =
        draft.running().flat_map(pods).filter(|pod| !pod.ready.ready).map(|pod| pod.revision).collect();
    let mut order = revisions(draft);
    order.sort_by_key(|revision| !unready.contains(revision));
    order
}

/// Pods by revision, in the order of `old`. An instance that moves has two pods of the target revision and counts once.
fn sets(draft: &Draft<'_>, old: &[u32], replacement: PodReplacement) -> Sets {
    let mut sizes: BTreeMap<u32, SetSize> = BTreeMap::new();
    for pod in draft.running().flat_map(pods).filter(|pod| draft.is_old(pod)) {
        let size = sizes.entry(pod.revision).or_default();
        size.spec += 1;
        size.available += i64::from(draft.facts.is_available(pod));
    }
    let old = old.iter().filter_map(|revision| sizes.get(revision).copied()).collect();
    let new = SetSize {
        spec: count(draft.running().filter(|instance| draft.is_updated(instance))),
        available: count(draft.running().filter(|instance| draft.is_updated_available(instance))),
    };
    Sets { new, old, terminating: draft.terminating(replacement) }
}

fn grow(draft: &mut Draft<'_>, pods: i64) {
    let most = usize::try_from(pods).unwrap_or(0);
    let (open, beside) = (open(draft), single(draft));
    let filled = open.len().min(most);
    open.into_iter().take(most).for_each(|number| draft.fill(number));
    beside.into_iter().take(most - filled).for_each(|number| draft.perform(RolloutAction::Surge(number)));
}

/// A pod that may be stopped.
struct Victim {
    number: u32,
    is_next: bool,
    pod: ranking::RankedPod,
    is_available: bool,
    class: u8,
    /// Its drain has started: the choice must not change while the client drains it.
    is_preparing: bool,
    /// The rollout continues without its instance, which therefore comes last.
    is_skipped: bool,
}

fn shrink(draft: &mut Draft<'_>, revision: u32, pods: i64) {
    let victims = victims(draft, revision);
    for (number, is_next) in victims.into_iter().take(usize::try_from(pods).unwrap_or(0)) {
        let has_next = draft.instance(number).is_some_and(|instance| instance.next.is_some());
        match (is_next, has_next) {
            (true, true) => draft.perform(RolloutAction::Drop(number)),
            // Its main pod stopped in this decision, so it is the main pod now.
            (true, false) | (false, false) => draft.vacate(number),
            (false, true) => draft.perform(RolloutAction::Promote(number)),
        }
    }
}

/// The pods of a revision in the order in which they stop.
fn victims(draft: &Draft<'_>, revision: u32) -> Vec<(u32, bool)> {
    let related: Vec<ranking::RankedPod> = draft
        .running()
        .flat_map(|instance| pods(instance).map(|pod| draft.facts.ranked(instance.number, pod)))
        .collect();
    let mut victims: Vec<Victim> = Vec::new();
    for instance in draft.running() {
        for (at, pod) in pods(instance).enumerate().filter(|(_, pod)| pod.revision == revision) {
            let is_next = at > 0 || instance.main.is_none();
            victims.push(Victim {
                number: instance.number,
                is_next,
                pod: draft.facts.ranked(instance.number, pod),
                is_available: draft.facts.is_available(pod),
                class: class(draft, instance, is_next),
                is_preparing: pod.is_preparing,
                is_skipped: draft.is_skipped(instance),
            });
        }
    }
    let pods: Vec<ranking::RankedPod> = victims.iter().map(|victim| victim.pod.clone()).collect();
    let mut order = ranking::deletion_order(&pods, &related, draft.facts.now);
    let skipped_last = |victim: &Victim| victim.is_skipped && victim.is_available;
    order.sort_by_key(|&at| {
        let victim = &victims[at];
        (skipped_last(victim), victim.is_available, victim.class, !victim.is_preparing)
    });
    order.into_iter().map(|at| (victims[at].number, victims[at].is_next)).collect()
}

/// What the instance loses with the pod: 0 nothing, 1 its only pod, 2 its only available one.
fn class(draft: &Draft<'_>, instance: &Instance, is_next: bool) -> u8 {
    match &instance.next {
        Some(_) if is_next => 0,
        Some(next) if draft.facts.is_available(&next.pod) => 0,
        Some(_) => 2,
        None => 1,
    }
}
