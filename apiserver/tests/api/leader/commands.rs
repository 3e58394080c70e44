//! Decisions of the fake leader.

use contract::command::{Operation, Refusal, Verb};
use contract::spec::PodSpec;
use contract::switches::Constraint;
use contract::time::Timestamp;
use contract::validate::{Flaw, sentence};

use super::{State, access, backups, nodes, rollouts};

impl State {
    /// Names that start with `locked`, `removing`, `limit` are refused as the real leader would in that state.
    pub(super) fn decision(&mut self, verb: &Verb) -> Result<(), Refusal> {
        // No node of the fake has a key that its removal would take away.
        let passes = verb.passes_read_only() && !matches!(verb, Verb::Node { .. });
        if self.engine.refuses_changes() && !passes {
            return Err(Refusal::ReadOnly);
        }
        match verb {
            Verb::Configure { readonly, maintenance } => {
                self.engine.readonly = readonly.unwrap_or(self.engine.readonly);
                self.engine.maintenance = maintenance.unwrap_or(self.engine.maintenance);
                Ok(())
            }
            Verb::RunEngine { running } => {
                self.engine.running = *running;
                Ok(())
            }
            Verb::Guard { working } => {
                self.engine.guarding = *working;
                Ok(())
            }
            Verb::SetConstraint { constraint } => {
                self.constraints.insert(constraint.kind.clone(), constraint.clone());
                Ok(())
            }
            Verb::RemoveConstraint { kind } => {
                self.constraints.remove(kind).map(drop).ok_or(Refusal::ConstraintUnknown)
            }
            Verb::SetPolicy { namespace, policy } => {
                self.policies.insert(namespace.clone(), (**policy).clone());
                Ok(())
            }
            Verb::RemovePolicy { namespace } => self.policies.remove(namespace).map(drop).ok_or(Refusal::PolicyUnknown),
            Verb::CreateGroup { spec } if spec.name.starts_with("removing") => Err(Refusal::GroupRemoving),
            Verb::CreateGroup { spec } if spec.name.starts_with("limit") => {
                Err(Refusal::Limit { what: "the number of groups".to_owned(), limit: 1 })
            }
            Verb::CreateGroup { spec } if self.groups.contains_key(&spec.name) => Err(Refusal::GroupExists),
            Verb::CreateGroup { spec } => {
                self.groups.insert(spec.name.clone(), spec.as_ref().clone().for_creation(Timestamp::NEVER));
                Ok(())
            }
            Verb::RemoveGroup { name, .. }
            | Verb::Replica { name, .. }
            | Verb::PatchSpec { name, .. }
            | Verb::Operate { name, .. }
                if name.as_str().starts_with("locked") =>
            {
                Err(Refusal::Locked { operation: Operation::Scheduling })
            }
            Verb::RemoveGroup { name, .. } => self.groups.remove(name.as_str()).map(drop).ok_or(Refusal::GroupUnknown),
            Verb::Replica { name, num_instances, restart_policy } => {
                let group = self.groups.get_mut(name.as_str()).ok_or(Refusal::GroupUnknown)?;
                group.num_instances = i64::from(*num_instances);
                group.restart_policy = restart_policy.unwrap_or(group.restart_policy);
                Ok(())
            }
            Verb::PatchSpec { name, pod, cause: _ } => {
                let group = self.groups.get_mut(name.as_str()).ok_or(Refusal::GroupUnknown)?;
                group.pod = group.pod.patched((**pod).clone(), Timestamp::NEVER);
                group.version += 1;
                group.pod.version = group.version;
                Ok(())
            }
            Verb::PatchStrategy { name, fields } => {
                let group = self.groups.get_mut(name.as_str()).ok_or(Refusal::GroupUnknown)?;
                let malformed = |flaws: Vec<Flaw>| Refusal::Malformed { reason: sentence(&flaws) };
                let next = group.with_rollout_fields(fields).map_err(malformed)?;
                next.validate().map_err(malformed)?;
                *group = next;
                Ok(())
            }
            Verb::Rollout { name, release, action } => {
                rollouts::say(self.groups.get(name.as_str()).ok_or(Refusal::GroupUnknown)?, *release, action)
            }
            Verb::SetGate { name, instance, gate, .. } => {
                self.has_instance(name.as_str(), *instance)?;
                rollouts::has_gate(&self.groups[name.as_str()], gate)
            }
            Verb::Drained { name, instance } => self.has_instance(name.as_str(), *instance),
            Verb::Operate { name, .. } => self.instances(name.as_str()).map(drop).ok_or(Refusal::GroupUnknown),
            Verb::Drift { drift, group } => match group.as_ref().and_then(|name| self.instances(name.as_str())) {
                Some(instances) => match drift.instance.filter(|instance| *instance > instances) {
                    Some(instance) => Err(Refusal::InstanceUnknown { instance, instances }),
                    None => Ok(()),
                },
                None => Ok(()),
            },
            Verb::Evacuate { node } => {
                let constraint =
                    Constraint { kind: "node".to_owned(), equal: false, value: node.to_string(), soft: true };
                self.constraints.insert(constraint.kind.clone(), constraint);
                Ok(())
            }
            Verb::Node { node, change } => nodes::decision(node, change),
            Verb::CreateToken { .. } | Verb::RevokeToken { .. } | Verb::EnforceAccess { .. } => {
                access::change(&mut self.access.0, verb)
            }
            Verb::CreateJoinToken { .. } | Verb::RevokeJoinToken { .. } | Verb::Join { .. } => self.joins.change(verb),
            Verb::ReportRefused { .. } => Ok(()),
            Verb::Restore { step } => backups::decision(step),
            Verb::CreateDependency { pod } if self.dependencies.contains_key(&pod.name) => {
                Err(Refusal::DependencyExists)
            }
            Verb::CreateDependency { pod } => {
                self.dependencies.insert(pod.name.clone(), PodSpec { version: 0, ..(**pod).clone() });
                Ok(())
            }
            Verb::UpdateDependency { pod } => {
                let known = self.dependencies.get_mut(&pod.name).ok_or(Refusal::DependencyUnknown)?;
                let next = known.patched((**pod).clone(), Timestamp::NEVER);
                if !next.asks_the_same(known) {
                    *known = next;
                }
                Ok(())
            }
            Verb::RemoveDependency { name, .. } => {
                self.dependencies.remove(name.as_str()).map(drop).ok_or(Refusal::DependencyUnknown)
            }
            Verb::AddCallback { url } => {
                self.callbacks.insert(url.clone());
                Ok(())
            }
            Verb::RemoveCallback { url } => {
                if self.callbacks.remove(url) {
                    Ok(())
                } else {
                    Err(Refusal::CallbackUnknown)
                }
            }
        }
    }

    fn has_instance(&self, name: &str, instance: u32) -> Result<(), Refusal> {
        let instances = self.instances(name).ok_or(Refusal::GroupUnknown)?;
        if instance <= instances { Ok(()) } else { Err(Refusal::InstanceUnknown { instance, instances }) }
    }

    fn instances(&self, name: &str) -> Option<u32> {
        self.groups.get(name).map(|spec| u32::try_from(spec.num_instances).unwrap())
    }
}
