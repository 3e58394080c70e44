//! Decides which pods go first when some must (sections 3.4, 3.5 and 4.8).
//!
//! One key, compared as a whole: a total order (D-9), unlike the comparator it descends from, which a sort may panic on.
//! Ages count by power of two of nanoseconds, so that not always the youngest dies and nodes do not drift out of balance.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::moment::Moment;
use super::recreate::PodPhase;

/// How ready a pod is; the least ready goes first (D-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// It serves nobody.
    NotReady,
    /// It serves, but not for long enough.
    Ready,
    /// It counts.
    Available,
}

/// A pod, as far as choosing goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedPod {
    /// Decides when nothing else does.
    pub uid: String,
    /// Where it is; empty when nowhere yet. Pods that are nowhere count as being together.
    pub node: String,
    /// What it is doing.
    pub phase: PodPhase,
    /// How ready it is.
    pub readiness: Readiness,
    /// Since when it is ready.
    pub ready_since: Option<Moment>,
    /// When it was made.
    pub created: Option<Moment>,
    /// What losing it costs, by its owner's word.
    pub cost: i32,
    /// The most restarts of one of its containers.
    pub restarts: i64,
    /// The most restarts of one of its sidecars.
    pub sidecar_restarts: i64,
    /// It neither finished nor is going away.
    pub is_active: bool,
}

/// Reads a deletion cost: a 32-bit number without `+` and leading zeros. Anything else is 0.
pub fn deletion_cost(text: Option<&str>) -> i32 {
    let text = text.unwrap_or("");
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if is_plain { text.parse().unwrap_or(0) } else { 0 }
}

/// The power of two an age is at least, in nanoseconds; -1 for what is not in the past.
pub fn age_bucket(then: Moment, now: Moment) -> i64 {
    match now.nanos_since(then) {
        age if age <= 0 => -1,
        age => 63 - i64::from(age.leading_zeros()),
    }
}

/// The pods in the order they go, as positions in `pods`. `related` are the pods of all revisions, these included: the more
/// of them on a node, the sooner one there goes.
pub fn deletion_order(pods: &[RankedPod], related: &[RankedPod], now: Moment) -> Vec<usize> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod.is_active) {
        *on_node.entry(&pod.node).or_default() += 1;
    }
    let rank = |pod: &RankedPod| on_node.get(pod.node.as_str()).copied().unwrap_or(0);
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_key(|&at| (place(&pods[at]), Reverse(rank(&pods[at])), history(&pods[at], now), &pods[at].uid));
    order
}

/// Criteria 1 to 4: where it is, what it does, how ready it is, what it costs.
fn place(pod: &RankedPod) -> (bool, u8, Readiness, i32) {
    let phase = match pod.phase {
        PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
    };
    (!pod.node.is_empty(), phase, pod.readiness, pod.cost)
}

type Bucket = Option<i64>;

/// Criteria 6 to 8: how long it is ready, how often it restarted, how old it is. No time sorts first.
fn history(pod: &RankedPod, now: Moment) -> (Bucket, Reverse<i64>, Reverse<i64>, Bucket) {
    let bucket = |time: Option<Moment>| time.map(|time| age_bucket(time, now));
    // A pod that is not ready has no ready age: an old time it may still carry says nothing.
    let ready_since = pod.ready_since.filter(|_| pod.readiness != Readiness::NotReady);
    (bucket(ready_since), Reverse(pod.restarts), Reverse(pod.sidecar_restarts), bucket(pod.created))
}

/// The pod that is updated first in its unit (section 4.8): one that is available, for a sick canary proves nothing; the
/// cheapest, then the most recently ready. Any pod when none is available.
pub fn beta_pod(pods: &[RankedPod]) -> Option<usize> {
    let is_available = |at: &usize| pods[*at].readiness == Readiness::Available;
    (0..pods.len())
        .filter(is_available)
        .min_by_key(|&at| (pods[at].cost, Reverse(pods[at].ready_since), &pods[at].uid))
        .or_else(|| (0..pods.len()).min_by_key(|&at| &pods[at].uid))
}

/// The pods in the order a group takes them (section 4.8): those already preparing, then those not available, which cost
/// nothing, then as they would be deleted.
pub fn update_order(pods: &[RankedPod], preparing: impl Fn(&RankedPod) -> bool, now: Moment) -> Vec<usize> {
    let mut order = deletion_order(pods, pods, now);
    order.sort_by_key(|&at| (!preparing(&pods[at]), pods[at].readiness == Readiness::Available));
    order
}

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
