//! Workload policies: set and removed by commands, and applied to every new spec.
//!
//! A policy concerns writes: groups that exist keep running when it becomes stricter. An undo is a write too, so it is refused
//! when the policy no longer allows the earlier revision. The rollback of a failed rollout is not: it returns to what runs.

use std::collections::BTreeSet;

use contract::command::Refusal;
use contract::keys;
use contract::name::{GroupName, NodeName};
use contract::policy::{EVERY_NAMESPACE, Hardening, Level, Policy, Usage, Violation, check_namespace, sentence};
use contract::record::{GroupRecord, Presence};
use contract::spec::{PodGroupSpec, PodSpec};

use crate::core::commit::{self, Bundle};
use crate::core::events;
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::state::{Group, State};

use super::admission::{Admission, malformed};

/// Limit, because `GET /api/policies` returns all of them.
const MOST_POLICIES: usize = 4_096;

pub(super) fn set_policy(leading: &mut Leading<'_>, namespace: &str, policy: Policy) -> Result<Bundle, Refusal> {
    checked(namespace)?;
    policy.validate().map_err(|flaws| malformed(&flaws))?;
    let policies = &leading.state.policies;
    if !policies.has(namespace) && policies.len() >= MOST_POLICIES {
        return Err(Refusal::Limit { what: "policies".to_owned(), limit: MOST_POLICIES as u64 });
    }
    let message = format!("the policy of {} is {}", shown(namespace), policy.level);
    let mut writes: Vec<Write> = store_default(leading).into_iter().filter(|_| namespace != EVERY_NAMESPACE).collect();
    writes.push(commit::put(keys::policy(namespace), &policy));
    leading.state.policies.set(namespace, policy);
    Ok(Bundle { writes, effects: vec![events::engine(message, leading.now)], ..Bundle::default() })
}

/// The default of the cluster returns to `baseline`; its record stays, because it says that the store knows policies.
pub(super) fn remove_policy(leading: &mut Leading<'_>, namespace: &str) -> Result<Bundle, Refusal> {
    checked(namespace)?;
    if namespace == EVERY_NAMESPACE {
        return set_policy(leading, namespace, Policy::default());
    }
    if !leading.state.policies.has(namespace) {
        return Err(Refusal::PolicyUnknown);
    }
    leading.state.policies.remove(namespace);
    let message = format!("{} has no policy of its own any more", shown(namespace));
    let writes = vec![Write::Delete { key: keys::policy(namespace) }];
    Ok(Bundle { writes, effects: vec![events::engine(message, leading.now)], ..Bundle::default() })
}

fn checked(namespace: &str) -> Result<(), Refusal> {
    check_namespace(namespace).map_err(|error| Refusal::Malformed { reason: format!("namespace: {error}") })
}

fn shown(namespace: &str) -> String {
    if namespace == EVERY_NAMESPACE { "all other namespaces".to_owned() } else { format!("namespace {namespace}") }
}

/// The write that says that this store knows policies, unless it is stored.
pub(super) fn store_default(leading: &mut Leading<'_>) -> Option<Write> {
    if leading.state.policies.are_stored() {
        return None;
    }
    leading.state.policies.set(EVERY_NAMESPACE, Policy::default());
    Some(commit::put(keys::policy(EVERY_NAMESPACE), &Policy::default()))
}

/// Upgrades a store that has groups and no policies: every namespace in use becomes `trusted`, so what worked works. Runs at
/// the start of each leadership, also after the restore of an older backup.
pub(in crate::core) fn trust_existing(leading: &mut Leading<'_>) {
    if leading.state.policies.are_stored() || leading.lead.leadership.is_store_behind() {
        return;
    }
    let namespaces = namespaces_in_use(leading.state);
    if namespaces.is_empty() {
        return;
    }
    let trusted = Policy::of(Level::Trusted);
    let mut writes: Vec<Write> = store_default(leading).into_iter().collect();
    for namespace in namespaces.iter().filter(|namespace| !leading.state.policies.has(namespace)).collect::<Vec<_>>() {
        leading.state.policies.set(namespace, trusted.clone());
        writes.push(commit::put(keys::policy(namespace), &trusted));
    }
    let list = namespaces.into_iter().collect::<Vec<_>>().join(", ");
    let message = format!(
        "upgraded: namespaces that exist are trusted, new ones have the policy baseline; make them strict one by one with \
         `deployctl policy set NAMESPACE baseline`: {list}"
    );
    leading.decide(Bundle { writes, effects: vec![events::engine(message, leading.now)], ..Bundle::default() });
}

/// The namespaces of groups and dependency pods.
pub(super) fn namespaces_in_use(state: &State) -> BTreeSet<String> {
    let groups = state.groups.values().map(|group| &group.record.spec);
    let groups = groups.flat_map(|spec| [&spec.namespace, &spec.pod.namespace]);
    let dependencies = state.dependencies.names().filter_map(|name| state.dependencies.get(name));
    let dependencies = dependencies.map(|entry| &entry.record.spec.namespace);
    groups.chain(dependencies).filter(|namespace| check_namespace(namespace).is_ok()).cloned().collect()
}

impl State {
    /// What the agents of a node apply to new containers of a group, which may be a dependency pod there.
    pub(in crate::core) fn hardening(&self, node: &NodeName, name: &GroupName) -> Option<Hardening> {
        let of_group = || Some(self.groups.get(name)?.record.spec.namespace.as_str());
        let of_dependency = || {
            let dependency = self.dependencies.owner_of(node, name)?;
            Some(self.dependencies.get(dependency)?.record.spec.namespace.as_str())
        };
        self.policies.of(of_group().or_else(of_dependency)?).hardening()
    }
}

impl Admission<'_> {
    /// Refuses a spec that the policy of its namespace does not allow. `beside` are specs of the same group whose pods may still
    /// run.
    pub(super) fn permitted<'s>(
        &self,
        spec: &PodGroupSpec,
        beside: impl Iterator<Item = &'s PodSpec>,
    ) -> Result<(), Refusal> {
        let policy = self.state.policies.of(&spec.namespace);
        let mut violations = policy.check(spec);
        violations.extend(policy.check_binds_beside(&spec.pod, self.state.policies.besides(&spec.namespace)));
        beside.for_each(|other| violations.extend(policy.check_beside(&spec.pod, other)));
        violations.dedup();
        self.refused(&spec.namespace, &violations)
    }

    /// Refuses a dependency pod that the policy of its namespace does not allow.
    pub(super) fn permitted_dependency(&self, pod: &PodSpec) -> Result<(), Refusal> {
        let policy = self.state.policies.of(&pod.namespace);
        let mut violations = policy.check_pod(pod, &[]);
        violations.extend(policy.check_binds_beside(pod, self.state.policies.besides(&pod.namespace)));
        self.refused(&pod.namespace, &violations)
    }

    /// Refuses a group, or a larger number of its instances, beyond the quota of its namespace.
    pub(super) fn within_quota(&self, name: &GroupName, spec: &PodGroupSpec) -> Result<(), Refusal> {
        let policy = self.state.policies.of(&spec.namespace);
        if policy.quota.is_unlimited() {
            return Ok(());
        }
        let others = self.state.groups.iter().filter(|(other, _)| *other != name).map(|(_, group)| group);
        let others = others.filter(|other| other.record.spec.namespace == spec.namespace).filter_map(counted_instances);
        let own = Usage { groups: 1, instances: wanted_instances(spec) };
        let usage = others.fold(own, |usage, instances| Usage {
            groups: usage.groups + 1,
            instances: usage.instances.saturating_add(instances),
        });
        self.refused(&spec.namespace, &policy.check_usage(usage))
    }

    fn refused(&self, namespace: &str, violations: &[Violation]) -> Result<(), Refusal> {
        if violations.is_empty() {
            return Ok(());
        }
        let level = self.state.policies.of(namespace).level;
        Err(Refusal::Forbidden { namespace: namespace.to_owned(), level, reason: sentence(violations) })
    }
}

fn wanted_instances(spec: &PodGroupSpec) -> u64 {
    u64::try_from(spec.num_instances).unwrap_or(0)
}

/// The instances of a group that count for a quota. Those of an orphan or a removed group count until they are gone: otherwise a
/// client could exceed the quota with groups that it removes.
fn counted_instances(group: &Group) -> Option<u64> {
    if group.is_present() {
        return Some(wanted_instances(&group.record.spec));
    }
    let left =
        group.instances().iter().filter(|instance| instance.presence != Presence::Free || instance.leaves.is_some());
    Some(left.count() as u64).filter(|left| *left > 0)
}

/// The specs whose pods may run while a group changes.
pub(super) fn running_specs(record: &GroupRecord) -> impl Iterator<Item = &PodSpec> {
    record.former.values().chain([&record.spec.pod])
}
