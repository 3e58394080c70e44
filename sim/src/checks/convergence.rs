//! What must be true at the end of a history, when there have been no faults for eight minutes.

use std::collections::BTreeSet;

use agent::core::io::Phase;
use contract::command::Removal;
use contract::digest::Digest;
use contract::history::{Happened, HistoryRecord, page_of};
use contract::keys::{self, Key};
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::record::{GroupRecord, Instance};
use contract::spec::PodSpec;
use contract::state::{RestartPolicy, TargetState};
use planner::rollout::controller::RolloutState;
use testkit::container::ContainerBehaviour;

use crate::checks::checker::index_of;
use crate::checks::dependencies;
use crate::checks::instances::is_instance;
use crate::checks::model;
use crate::workload::specs;
use crate::world::World;
use crate::world::scheduler_process::settings;

/// A pod with more memory than this may fit on no node.
pub(crate) const LARGE: u64 = 1 << 30;

impl World {
    /// Everything that differs from what users requested.
    pub fn flaws(&mut self) -> Vec<String> {
        let now = self.queue.now();
        let mut flaws = Vec::new();
        match self.store.leader(now) {
            None => flaws.push("there is no leader".to_owned()),
            Some(key) if !self.schedulers[key.holder.scheduler].leads(now) => {
                flaws.push("the leader does not know it".to_owned())
            }
            Some(_) => {}
        }
        flaws.extend(self.unsettled_groups());
        flaws.extend(self.checker.model.stream_ports.forgotten(&self.checker.model.stored));
        let placed = self.placed(&mut flaws);
        flaws.extend(placed.iter().filter_map(|(node, pod)| self.flaw_of(node, pod)));
        flaws.extend(self.dependency_flaws());
        flaws.extend(self.surplus_containers(&placed));
        flaws.extend(placed.iter().filter_map(|(node, pod)| self.forgotten_start(node, pod)));
        flaws.extend(self.unacknowledged_orders(&placed));
        flaws.extend(self.unanswered_commands());
        flaws
    }

    fn unsettled_groups(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        for (key, value) in self.store.iter() {
            let Key::Group(name) = keys::parse(key) else { continue };
            let Ok(record) = serde_json::from_slice::<GroupRecord>(value) else { continue };
            if let Some(operation) = &record.operation {
                flaws.push(format!("{name} is still {:?} since {}", operation.kind, operation.since));
            }
            if !record.drifts.is_empty() {
                flaws.push(format!("{name} still has drifts {:?}", record.drifts));
            }
        }
        flaws
    }

    /// Every pod that must be on a node, dependency pods included.
    fn placed(&self, flaws: &mut Vec<String>) -> BTreeSet<(NodeName, PodId)> {
        let mut placed: BTreeSet<_> =
            dependencies::pods(&self.store).into_iter().map(|(node, pod, _)| (node, pod)).collect();
        for (name, expected) in &self.checker.model.groups {
            let record = self.store.placement(name);
            let pods = model::pods(name, &record);
            let group = self.store.group(name).unwrap_or_default();
            if !group.taken_ports.is_empty() {
                continue;
            }
            let fits =
                |instance: &Instance| instance.node.is_some() || spec_of(&group, instance.version).memory() > LARGE;
            let numbered = (1..).zip(&record.instances).filter(|(_, instance)| is_instance(instance));
            let instances: Vec<(u32, &Instance)> = numbered.collect();
            let count = instances.len() as u64 == expected.instances.unsigned_abs();
            let is_settled = if group.spec.has_strategy() {
                let flaw = self.rollout_flaw(name, &group, &instances);
                flaws.extend(flaw);
                instances.iter().all(|(_, instance)| instance.leaves.is_none() || !specs::is_sound(&group.spec.pod))
            } else {
                // An upgrade waits for an instance that does not run.
                if !pods.iter().any(|(node, pod)| self.is_left_to_a_person(node, pod, &group)) {
                    flaws.extend(instances.iter().filter_map(|(_, instance)| outdated(name, &group, instance)));
                }
                instances.iter().all(|(_, instance)| fits(instance) && instance.leaves.is_none())
            };
            // A paused rollout creates nothing; `rollout_flaw` checks whether it may be paused.
            let release = self.store.read::<RolloutState>(&keys::release(name));
            let is_held = group.spec.has_strategy() && release.is_some_and(|release| release.is_open());
            if !(count || is_held) || !is_settled {
                flaws
                    .push(format!("{name} shall have {} instances and has {:?}", expected.instances, record.instances));
            }
            placed.extend(pods);
        }
        for key in self.store.keys() {
            let name = match keys::parse(key) {
                Key::Placement(name, _) | Key::History(name, _) | Key::Release(name) => name,
                Key::Revision(name, _) | Key::GroupSpec(name, _) => name,
                _ => continue,
            };
            if !self.checker.model.groups.contains_key(&name) && !self.is_orphan(name.as_str()) {
                flaws.push(format!("{name} is gone and still has {key}"));
            }
        }
        placed
    }

    /// Dependency pods without users, and those that do not run as planned.
    fn dependency_flaws(&self) -> Vec<String> {
        let idle = self.checker.model.dependencies.idle(settings(0, None).dependency_grace, self.queue.now());
        let idle = idle.into_iter().map(|pair| format!("{pair:?} is still there and idle"));
        let pods = dependencies::pods(&self.store).into_iter().filter(|(_, _, spec)| specs::is_sound(spec));
        let flawed = pods.filter_map(|(node, pod, spec)| self.flaw_of_pod(&node, &pod, &spec, RestartPolicy::Always));
        idle.chain(flawed).collect()
    }

    fn flaw_of(&self, node: &NodeName, pod: &PodId) -> Option<String> {
        let record = self.store.group(&pod.group)?;
        let placed = self.store.placement(&pod.group);
        let instance = placed.instances.get(usize::try_from(pod.instance).ok()?.checked_sub(1)?)?;
        let own =
            instance.pods().find(|instance| (instance.named_version(), instance.drift) == (pod.version, pod.drift))?;
        let spec = spec_of(&record, own.version);
        if instance.target == TargetState::Stop {
            return self.runs(node, pod).then(|| format!("{pod} on {node} is stopped and runs"));
        }
        if !specs::is_sound(spec) {
            return None;
        }
        self.flaw_of_pod(node, pod, spec, record.spec.restart_policy)
    }

    fn runs(&self, node: &NodeName, pod: &PodId) -> bool {
        let Some(process) = index_of(node).map(|node| &self.nodes[node]) else { return false };
        let inventory = self.engines[process.engine].inventory(&process.owner);
        inventory.iter().any(|c| c.identity.pod == *pod && c.phase == Phase::Running)
    }

    fn flaw_of_pod(&self, node: &NodeName, pod: &PodId, spec: &PodSpec, policy: RestartPolicy) -> Option<String> {
        let process = &self.nodes[index_of(node)?];
        let inventory = self.engines[process.engine].inventory(&process.owner);
        let digest = Digest::of(spec).to_string();
        for index in 0..spec.containers.len() {
            let own: Vec<_> =
                inventory.iter().filter(|c| c.identity.pod == *pod && c.identity.index == index).collect();
            if own.is_empty() && self.is_held(node, spec) {
                return None;
            }
            let [container] = own[..] else {
                return Some(format!("{pod} [{index}] exists {} times on {node}", own.len()));
            };
            let made = self.engines[process.engine].containers.get(&container.id);
            if made.is_none_or(|made| *made.limits_of != *digest) {
                return Some(format!("{pod} [{index}] on {node} was made from another spec"));
            }
            if container.phase != Phase::Running && !self.may_be_down(node, pod, policy) {
                return Some(format!("{pod} [{index}] on {node} is {:?}", container.phase));
            }
        }
        None
    }

    /// A stateful instance whose container was removed waits for a person.
    fn is_held(&self, node: &NodeName, spec: &PodSpec) -> bool {
        spec.stateful && self.checker.model.faulty_nodes.contains(node)
    }

    fn is_left_to_a_person(&self, node: &NodeName, pod: &PodId, group: &GroupRecord) -> bool {
        let spec = spec_of(group, pod.version);
        let Some(process) = index_of(node).map(|node| &self.nodes[node]) else { return false };
        let inventory = self.engines[process.engine].inventory(&process.owner);
        let exists = |index| inventory.iter().any(|c| c.identity.pod == *pod && c.identity.index == index);
        self.is_held(node, spec) && !(0..spec.containers.len()).all(exists)
    }

    /// The history must contain the last start of every running container.
    fn forgotten_start(&self, node: &NodeName, pod: &PodId) -> Option<String> {
        // Dependency pods have no history, and that of a crash-looping pod is cut.
        let record = self.store.group(&pod.group)?;
        if !specs::is_sound(spec_of(&record, pod.version)) {
            return None;
        }
        let process = &self.nodes[index_of(node)?];
        let key = keys::history(&pod.group, page_of(pod.instance));
        let stored: HistoryRecord = self.store.read(&key).unwrap_or_default();
        let events = stored.instances.get(&pod.instance).map_or(&[][..], |ring| ring.events());
        let inventory = self.engines[process.engine].inventory(&process.owner);
        let mut running = inventory.iter().filter(|c| c.identity.pod == *pod && c.phase == Phase::Running);
        let is_recorded = |at| events.iter().any(|event| event.happened == Happened::Start && event.at == at);
        let unrecorded = running.find(|container| !is_recorded(container.started_at))?;
        Some(format!("{pod} on {node} started at {} and its history has no such start", unrecorded.started_at))
    }

    /// The pod is crash-looping, or its policy does not restart it.
    pub(crate) fn may_be_down(&self, node: &NodeName, pod: &PodId, policy: RestartPolicy) -> bool {
        let process = index_of(node).map(|node| &self.nodes[node]);
        let is_crash_looping =
            process.and_then(|m| m.disk.memory.get(pod)).is_some_and(|memory| memory.is_crash_looping);
        is_crash_looping || policy == RestartPolicy::Never
    }

    fn surplus_containers(&self, placed: &BTreeSet<(NodeName, PodId)>) -> Vec<String> {
        let mut flaws = Vec::new();
        for (number, engine) in self.engines.iter().enumerate() {
            for (id, container) in &engine.containers {
                // Every agent creates containers of its own cluster.
                let Some(own) = container.owner().and_then(|owner| container.identity(owner)) else { continue };
                let is_orphan = self.is_orphan(own.pod.group.as_str());
                let wanted = self.nodes.iter().any(|process| {
                    let node = &process.owner.node;
                    container.identity(&process.owner).is_some_and(|identity| {
                        let is_placed = placed.contains(&(node.clone(), identity.pod.clone()));
                        is_placed || self.serves_on(node, &identity.pod, placed)
                    })
                });
                if !is_orphan && !wanted {
                    flaws.push(format!("{} ({id}) is left over on e{number}", container.name()));
                }
            }
        }
        flaws
    }

    /// The image of its successor on that node cannot be pulled, so the old pod keeps running.
    fn serves_on(&self, node: &NodeName, pod: &PodId, placed: &BTreeSet<(NodeName, PodId)>) -> bool {
        let process = index_of(node).map(|node| &self.nodes[node]);
        let is_broken = |pod: &PodId| {
            let spec = process.and_then(|process| process.disk.order.spec_of(pod));
            spec.is_some_and(|spec| {
                spec.containers.iter().any(|one| ContainerBehaviour::of(&one.image) == ContainerBehaviour::Broken)
            })
        };
        placed.iter().any(|(at, other)| at == node && other.key() == pod.key() && is_broken(other))
    }

    fn is_orphan(&self, group: &str) -> bool {
        let stored = group.parse::<GroupName>().ok().and_then(|group| self.checker.model.stored.get(&group));
        stored.is_some_and(|stored| stored.record.removal == Removal::Orphan)
    }

    fn unacknowledged_orders(&self, placed: &BTreeSet<(NodeName, PodId)>) -> Vec<String> {
        let mut flaws = Vec::new();
        for process in &self.nodes {
            let node = &process.owner.node;
            let held: BTreeSet<&PodId> = process.disk.order.pods.keys().collect();
            let wanted: BTreeSet<&PodId> = placed.iter().filter(|(n, _)| n == node).map(|(_, pod)| pod).collect();
            if held != wanted {
                flaws.push(format!("{node} holds order {} {held:?}, placed are {wanted:?}", process.disk.order.fence));
            }
        }
        flaws
    }

    fn unanswered_commands(&self) -> Vec<String> {
        let cursor: contract::record::Cursor = self.store.read(keys::CURSOR).unwrap_or_default();
        let next = if cursor.stream == self.bus.identity() { cursor.sequence + 1 } else { 1 };
        self.bus.message(next).map(|message| format!("{:?} is not decided", message.command)).into_iter().collect()
    }

    pub fn group_name(&self, index: usize) -> Option<GroupName> {
        self.workload.groups.get(index).cloned()
    }
}

fn spec_of(record: &GroupRecord, version: u32) -> &PodSpec {
    record.former.get(&version).unwrap_or(&record.spec.pod)
}

/// An instance that never got the current version, although that is sound and fits.
fn outdated(name: &GroupName, record: &GroupRecord, instance: &Instance) -> Option<String> {
    let present = instance.version == record.spec.version || record.equals.contains(&instance.version);
    let held = !specs::is_sound(&record.spec.pod) || record.spec.pod.memory() > LARGE;
    (!present && !held)
        .then(|| format!("{name} has an instance of version {}, not {}", instance.version, record.spec.version))
}
