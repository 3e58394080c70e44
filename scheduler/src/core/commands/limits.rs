//! Size limits: how full etcd may be, and how large a spec may be.
//!
//! When etcd reaches its quota it refuses every write, also the leader's own. So at 70 % of the quota the leader refuses
//! commands that make the cluster larger: create, a larger spec, scale-out. Commands that make it smaller or repair it pass:
//! delete, scale-in, stop, abort, undo, and the leader's own decisions. At 85 % it refuses every new spec, because etcd keeps
//! old values for minutes and a client that sends one large spec after the other would fill the rest.
//!
//! etcd compares the size of its file with the quota. The file does not shrink by itself, so the limits for the file are higher:
//! 90 % and 95 %.
//!
//! etcd refuses requests above 1.5 MiB. Instances, revisions and specs have keys of their own (`contract::layout`), so the spec
//! is the only large value that a user controls. The specs that instances of one group run at the same time are bounded
//! together.

use contract::command::{Refusal, Verb};
use contract::event::Kind;
use contract::record::GroupRecord;
use contract::spec::PodSpec;
use serde::Serialize;

use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::{Core, events};

/// Shown by `deployctl status` when etcd refuses every write.
pub(in crate::core) const NO_SPACE: &str = "etcd reached its quota and refuses every write: nothing is decided until there is room. Run \
     `etcdctl defrag` and then `etcdctl alarm disarm`, or raise --quota-backend-bytes; see docs/operations.md";

/// Size of etcd's database, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::core) struct StoreSize {
    /// Bytes of live data.
    pub(in crate::core) in_use: u64,
    /// Bytes of etcd's file; it shrinks only by defragmentation.
    pub(in crate::core) allocated: u64,
}

/// What the leader refuses because the store is nearly full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fill {
    Free,
    /// Creates, larger specs and scale-out.
    NoGrowth,
    /// Every new spec too.
    NoSpecs,
}

impl Fill {
    /// Percent of the quota in use, and percent of the quota that the file has, from which each begins.
    const LIMITS: [(Self, u64, u64); 2] = [(Self::NoSpecs, 85, 95), (Self::NoGrowth, 70, 90)];

    /// A quota of 0 is unknown and refuses nothing.
    fn of(size: StoreSize, quota: u64) -> Self {
        let reaches = |bytes: u64, percent: u64| quota > 0 && bytes / percent >= quota / 100;
        let is_reached =
            |(_, in_use, file): &&(Self, u64, u64)| reaches(size.in_use, *in_use) || reaches(size.allocated, *file);
        Self::LIMITS.iter().find(is_reached).map_or(Self::Free, |(fill, ..)| *fill)
    }
}

impl StoreSize {
    /// The size to name in a refusal: live data, or the file if only that is over its limit.
    fn decisive(self, quota: u64) -> u64 {
        let in_use = Self { allocated: 0, ..self };
        if Fill::of(in_use, quota) == Fill::Free { self.allocated } else { self.in_use }
    }
}

impl Core {
    /// The size of the store was sampled: the leader reports when refusals begin and when they end.
    pub(in crate::core) fn store_size(&mut self, size: StoreSize) -> Vec<Effect> {
        let quota = self.settings.store_quota;
        let (was, is) = (Fill::of(self.store_size, quota), Fill::of(size, quota));
        self.store_size = size;
        if (was == Fill::Free) == (is == Fill::Free) {
            return Vec::new();
        }
        let message = match is {
            Fill::NoGrowth | Fill::NoSpecs => Refusal::StoreFull { used: size.decisive(quota), quota }.to_string(),
            Fill::Free => {
                format!("etcd holds {} MiB, far from its quota: nothing is refused for its size", size.in_use >> 20)
            }
        };
        self.lead(|leading| leading.emit(vec![Effect::Record(events::event(Kind::Engine, message, leading.now))]))
    }
}

/// Refuses a command that would store more while the store is nearly full.
pub(super) fn check_store_size(leading: &Leading<'_>, verb: &Verb) -> Result<(), Refusal> {
    let quota = leading.settings.store_quota;
    let is_refused = match Fill::of(leading.store_size, quota) {
        Fill::Free => false,
        Fill::NoGrowth => grows(leading, verb, is_larger),
        Fill::NoSpecs => grows(leading, verb, is_other),
    };
    if is_refused { Err(Refusal::StoreFull { used: leading.store_size.decisive(quota), quota }) } else { Ok(()) }
}

/// `adds` compares the spec that a command brings with the present one.
fn grows(leading: &Leading<'_>, verb: &Verb, adds: impl Fn(&PodSpec, &PodSpec) -> bool) -> bool {
    match verb {
        Verb::CreateGroup { .. } | Verb::CreateDependency { .. } => true,
        Verb::Replica { name, num_instances, .. } => {
            let group = leading.state.groups.get(name);
            group.is_some_and(|group| i64::from(*num_instances) > group.record.spec.num_instances)
        }
        Verb::PatchSpec { name, pod, .. } => {
            leading.state.groups.get(name).is_some_and(|group| adds(pod, &group.record.spec.pod))
        }
        Verb::UpdateDependency { pod } => {
            let name = pod.name.parse().ok();
            let before = name.and_then(|name| leading.state.dependencies.spec_of(&name));
            before.is_some_and(|before| adds(pod, before))
        }
        Verb::PatchStrategy { .. }
        | Verb::RemoveGroup { .. }
        | Verb::Rollout { .. }
        | Verb::SetGate { .. }
        | Verb::Drained { .. }
        | Verb::Operate { .. }
        | Verb::Drift { .. }
        | Verb::Evacuate { .. }
        | Verb::Node { .. }
        | Verb::RemoveDependency { .. }
        | Verb::AddCallback { .. }
        | Verb::RemoveCallback { .. }
        | Verb::Configure { .. }
        | Verb::RunEngine { .. }
        | Verb::Guard { .. }
        | Verb::SetConstraint { .. }
        | Verb::RemoveConstraint { .. }
        | Verb::SetPolicy { .. }
        | Verb::RemovePolicy { .. }
        | Verb::CreateToken { .. }
        | Verb::ReportRefused { .. }
        | Verb::RevokeToken { .. }
        | Verb::CreateJoinToken { .. }
        | Verb::RevokeJoinToken { .. }
        | Verb::Join { .. }
        | Verb::EnforceAccess { .. }
        | Verb::Restore { .. } => false,
    }
}

/// Times and version are ours, so they do not count.
fn is_larger(after: &PodSpec, before: &PodSpec) -> bool {
    let (version, created_at, updated_at) = (before.version, before.created_at, before.updated_at);
    bytes(&PodSpec { version, created_at, updated_at, ..after.clone() }) > bytes(before)
}

fn is_other(after: &PodSpec, before: &PodSpec) -> bool {
    !before.patched(after.clone(), before.updated_at).asks_the_same(before)
}

fn bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |text| text.len())
}

/// Bytes of a group's spec at most. A value stays below 1 MiB with it, and two of them fit one transaction of 1.5 MiB.
const LARGEST_SPEC: usize = 640 * 1024;

/// Bytes of the specs that a group's instances run at the same time: ten of the largest that one request holds.
const MOST_SPECS: usize = 2560 * 1024;

/// Refuses a group whose spec is too large, or that runs too many large ones.
pub(super) fn judge(record: &GroupRecord) -> Result<(), Refusal> {
    let limit = |what: &str, limit: usize| Refusal::Limit { what: what.to_owned(), limit: limit as u64 };
    let present = bytes(&record.spec);
    if present > LARGEST_SPEC {
        return Err(limit("bytes of a PodGroup's spec", LARGEST_SPEC));
    }
    let former: usize = record.former.values().map(bytes).sum();
    if present + former > MOST_SPECS {
        return Err(limit("bytes of a PodGroup's specs while it is upgraded", MOST_SPECS));
    }
    Ok(())
}
