//! Refuses commands that would store more while etcd is nearly full.
//!
//! etcd that reaches its quota refuses every write, also the leader's own. So at 70 % of the quota the leader refuses what makes
//! the cluster larger: creates, larger specs and scale-out. Everything that makes it smaller or repairs it passes: delete,
//! scale-in, stop, abort, undo and the leader's own decisions.

use contract::command::{Refusal, Verb};
use contract::event::Kind;
use contract::spec::PodSpec;
use serde::Serialize;

use super::Core;
use super::events;
use super::io::Effect;
use super::leader::Leading;

/// Percent of the quota from which growth is refused.
const FULL_AT: u64 = 70;

/// Whether growth is refused at this size. A quota of 0 is unknown and refuses nothing.
fn is_full(used: u64, quota: u64) -> bool {
    quota > 0 && used / FULL_AT >= quota / 100
}

impl Core {
    /// The size of the store was sampled: the leader reports when refusals begin and when they end.
    pub(super) fn store_size(&mut self, in_use: u64) -> Vec<Effect> {
        let quota = self.settings.store_quota;
        let (was, is) = (is_full(self.store_used, quota), is_full(in_use, quota));
        self.store_used = in_use;
        if was == is {
            return Vec::new();
        }
        let message = if is {
            Refusal::StoreFull { used: in_use, quota }.to_string()
        } else {
            format!(
                "etcd holds {} MiB, less than {FULL_AT} % of its quota: nothing is refused for its size",
                in_use >> 20
            )
        };
        self.lead(|leading| leading.tell(vec![Effect::Record(events::event(Kind::Engine, message, leading.now))]))
    }
}

impl Leading<'_> {
    /// Refuses a command that would store more while the store is nearly full.
    pub(super) fn judge_growth(&self, verb: &Verb) -> Result<(), Refusal> {
        let (used, quota) = (self.store_used, self.settings.store_quota);
        if is_full(used, quota) && self.grows(verb) { Err(Refusal::StoreFull { used, quota }) } else { Ok(()) }
    }

    fn grows(&self, verb: &Verb) -> bool {
        match verb {
            Verb::CreateGroup { .. } | Verb::CreateDependency { .. } => true,
            Verb::Replica { name, num_instances, .. } => {
                let group = self.state.groups.get(name);
                group.is_some_and(|group| i64::from(*num_instances) > group.record.spec.num_instances)
            }
            Verb::PatchSpec { name, pod, .. } => {
                self.state.groups.get(name).is_some_and(|group| is_larger(pod, &group.record.spec.pod))
            }
            Verb::UpdateDependency { pod } => {
                let name = pod.name.parse().ok();
                let before = name.and_then(|name| self.state.dependencies.spec_of(&name));
                before.is_some_and(|before| is_larger(pod, before))
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
            | Verb::Restore { .. } => false,
        }
    }
}

/// Times and version are ours, so they do not count.
fn is_larger(after: &PodSpec, before: &PodSpec) -> bool {
    let (version, created_at, updated_at) = (before.version, before.created_at, before.updated_at);
    bytes(&PodSpec { version, created_at, updated_at, ..after.clone() }) > bytes(before)
}

fn bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |text| text.len())
}
