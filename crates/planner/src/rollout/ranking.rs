//! Ranks pods: which one is deleted or updated first.
//!
//! Pods are compared by one tuple, which is a total order; the comparator of the original is not, and a sort may panic on
//! it. Ages are compared by powers of two of nanoseconds: otherwise the youngest pod always goes and the nodes become unbalanced.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::moment::Moment;

/// The least ready pod goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    NotReady,
    /// Ready for less than `minReadySeconds`.
    Ready,
    Available,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    Pending,
    Running,
    Unknown,
    Succeeded,
    /// Crash-looping, and in back-off now.
    Failed,
}

impl PodPhase {
    /// Not running. A crash-looping pod counts as finished although the agent restarts it after its back-off.
    pub fn is_finished(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Pending | Self::Running | Self::Unknown => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedPod {
    /// The last criterion.
    pub uid: String,
    /// Empty without a node; pods without a node count as sharing one.
    pub node: String,
    pub phase: PodPhase,
    pub readiness: Readiness,
    pub ready_since: Option<Moment>,
    pub created: Option<Moment>,
    /// The deletion cost that its owner set.
    pub cost: i32,
    /// The highest restart count of its containers.
    pub restarts: i64,
    /// Neither finished nor terminating.
    pub is_active: bool,
}

/// Parses a deletion cost: a 32-bit integer without `+` and leading zeros. Anything else is 0.
pub fn deletion_cost(text: Option<&str>) -> i32 {
    let text = text.unwrap_or("");
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if is_plain { text.parse().unwrap_or(0) } else { 0 }
}

/// The base-2 logarithm of the age in nanoseconds, rounded down: 3 ns are in bucket 1, 4 ns in bucket 2; -1 if not in the past.
pub fn age_bucket(then: Moment, now: Moment) -> i64 {
    match now.nanos_since(then) {
        age if age <= 0 => -1,
        age => 63 - i64::from(age.leading_zeros()),
    }
}

/// The positions of `pods` in the order of deletion. `related` are the pods of all revisions, these included: a pod on the node
/// with the most of them goes first.
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

/// Criteria 1 to 4: node, phase, readiness, deletion cost.
fn place(pod: &RankedPod) -> (bool, u8, Readiness, i32) {
    let phase = match pod.phase {
        PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
    };
    (!pod.node.is_empty(), phase, pod.readiness, pod.cost)
}

type Bucket = Option<i64>;

/// Criteria 6 to 8: ready time, restarts, age. A missing time sorts first.
fn history(pod: &RankedPod, now: Moment) -> (Bucket, Reverse<i64>, Bucket) {
    let bucket = |time: Option<Moment>| time.map(|time| age_bucket(time, now));
    // A pod that is not ready may still carry an old time, which is ignored.
    let ready_since = pod.ready_since.filter(|_| pod.readiness != Readiness::NotReady);
    (bucket(ready_since), Reverse(pod.restarts), bucket(pod.created))
}

/// The beta of a unit: an available pod, because an unhealthy one proves nothing; of several the one with the lowest
/// deletion cost, then the most recently ready. Any pod when none is available.
pub fn beta_pod(pods: &[RankedPod]) -> Option<usize> {
    let is_available = |at: &usize| pods[*at].readiness == Readiness::Available;
    (0..pods.len())
        .filter(is_available)
        .min_by_key(|&at| (pods[at].cost, Reverse(pods[at].ready_since), &pods[at].uid))
        .or_else(|| (0..pods.len()).min_by_key(|&at| &pods[at].uid))
}

/// The positions of `pods` in the order in which a batch updates them: those that already prepare, then unavailable
/// ones, which cost nothing, then in the order of deletion.
pub fn update_order(pods: &[RankedPod], preparing: impl Fn(&RankedPod) -> bool, now: Moment) -> Vec<usize> {
    let mut order = deletion_order(pods, pods, now);
    order.sort_by_key(|&at| (!preparing(&pods[at]), pods[at].readiness == Readiness::Available));
    order
}

#[cfg(test)]
#[path = "ranking_tests.rs"]
mod tests;
