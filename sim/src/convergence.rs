//! What must be true at the end of a history, after everything has been calm for a while.

use std::collections::BTreeSet;

use agent::core::io::Phase;
use contract::digest::Digest;
use contract::history::{Happened, HistoryRecord, page_of};
use contract::keys::{self, Key};
use contract::labels;
use contract::name::{GroupName, NodeName};
use contract::pod_id::PodId;
use contract::record::{GroupRecord, PlacementRecord};
use contract::state::RestartPolicy;

use crate::invariants::{Invariant, index_of};
use crate::machine::CLUSTER;
use crate::model;
use crate::world::World;

impl World {
    /// Everything that is not as users asked.
    pub fn check_convergence(&mut self) {
        let now = self.queue.now();
        let mut flaws = Vec::new();
        match self.store.leader(now) {
            None => flaws.push("nobody leads".to_owned()),
            Some(key) if !self.seats[key.holder.seat].leads(now) => {
                flaws.push("the leader does not know it".to_owned())
            }
            Some(_) => {}
        }
        flaws.extend(self.unsettled_groups());
        flaws.extend(self.watch.model.claims.forgotten(&self.store));
        let placed = self.placed(&mut flaws);
        flaws.extend(self.missing_instances(&placed));
        flaws.extend(self.surplus_containers(&placed));
        flaws.extend(placed.iter().filter_map(|(node, pod)| self.forgotten_start(node, pod)));
        flaws.extend(self.unacknowledged_orders(&placed));
        flaws.extend(self.unanswered_commands());
        if !flaws.is_empty() {
            self.watch.broken(Invariant::Converges, flaws.join("; "));
        }
    }

    fn unsettled_groups(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        for (key, value) in self.store.keys() {
            if let Key::Group(name) = keys::parse(key)
                && let Ok(record) = serde_json::from_slice::<GroupRecord>(value)
                && let Some(operation) = record.operation
            {
                flaws.push(format!("{name} is still {:?} since {}", operation.kind, operation.since));
            }
        }
        flaws
    }

    fn placed(&self, flaws: &mut Vec<String>) -> BTreeSet<(NodeName, PodId)> {
        let mut placed = BTreeSet::new();
        for (name, wanted) in &self.watch.model.groups {
            let record: PlacementRecord = self.store.read(&keys::placement(name)).unwrap_or_default();
            let pods = model::pods(name, &record);
            let group: Option<GroupRecord> = self.store.read(&keys::group(name));
            if group.is_some_and(|group| !group.taken_ports.is_empty()) {
                continue;
            }
            if record.slots.len() as u64 != wanted.instances.unsigned_abs() || pods.len() != record.slots.len() {
                flaws.push(format!("{name} wants {} instances and has {:?}", wanted.instances, record.slots));
            }
            placed.extend(pods);
        }
        for key in self.store.keys().keys() {
            if let Key::Placement(name) = keys::parse(key)
                && !self.watch.model.groups.contains_key(&name)
            {
                flaws.push(format!("{name} is gone and still has a placement"));
            }
            if let Key::History(name, _) = keys::parse(key)
                && !self.watch.model.groups.contains_key(&name)
            {
                flaws.push(format!("{name} is gone and still has a history"));
            }
        }
        placed
    }

    fn missing_instances(&self, placed: &BTreeSet<(NodeName, PodId)>) -> Vec<String> {
        placed.iter().filter_map(|(node, pod)| self.flaw_of(node, pod)).collect()
    }

    fn flaw_of(&self, node: &NodeName, pod: &PodId) -> Option<String> {
        let record: GroupRecord = self.store.read(&keys::group(&pod.group))?;
        let machine = &self.machines[index_of(node)?];
        let inventory = self.engines[machine.engine].inventory(&machine.owner);
        let digest = Digest::of(&record.spec.pod).to_string();
        for index in 0..record.spec.pod.containers.len() {
            let own: Vec<_> =
                inventory.iter().filter(|c| c.identity.pod == *pod && c.identity.index == index).collect();
            // A stateful instance whose container somebody removed is held for a person to decide.
            if own.is_empty() && record.spec.pod.stateful && self.watch.model.shaken.contains(node) {
                return None;
            }
            let [container] = own[..] else {
                return Some(format!("{pod} [{index}] stands {} times on {node}", own.len()));
            };
            if container.spec_digest != digest {
                return Some(format!("{pod} [{index}] on {node} was made from another spec"));
            }
            if container.phase != Phase::Running && !self.may_be_down(node, pod, record.spec.restart_policy) {
                return Some(format!("{pod} [{index}] on {node} is {:?}", container.phase));
            }
        }
        None
    }

    /// The last start of every container that runs is in the stored history.
    fn forgotten_start(&self, node: &NodeName, pod: &PodId) -> Option<String> {
        let machine = &self.machines[index_of(node)?];
        let key = keys::history(&pod.group, page_of(pod.instance));
        let stored: HistoryRecord = self.store.read(&key).unwrap_or_default();
        let events = stored.instances.get(&pod.instance).map_or(&[][..], |ring| ring.events());
        let inventory = self.engines[machine.engine].inventory(&machine.owner);
        let mut running = inventory.iter().filter(|c| c.identity.pod == *pod && c.phase == Phase::Running);
        let told = |at| events.iter().any(|event| event.happened == Happened::Start && event.at == at);
        let silent = running.find(|container| !told(container.started_at))?;
        Some(format!("{pod} on {node} started at {} and nobody remembers", silent.started_at))
    }

    /// Down for good: its budget is spent, or its policy does not start it again.
    fn may_be_down(&self, node: &NodeName, pod: &PodId, policy: RestartPolicy) -> bool {
        let machine = index_of(node).map(|node| &self.machines[node]);
        let let_go = machine.and_then(|m| m.disk.memory.get(pod)).is_some_and(|memory| memory.let_go);
        let_go || policy == RestartPolicy::Never
    }

    fn surplus_containers(&self, placed: &BTreeSet<(NodeName, PodId)>) -> Vec<String> {
        let mut flaws = Vec::new();
        for (number, engine) in self.engines.iter().enumerate() {
            for (id, container) in &engine.containers {
                let label = |key: &str| container.labels.get(key).map(String::as_str);
                let ours = label(labels::CLUSTER) == Some(CLUSTER) && label(labels::NODE).is_some();
                let wanted = self.machines.iter().any(|machine| {
                    labels::identify(&machine.owner, label)
                        .is_some_and(|identity| placed.contains(&(machine.owner.node.clone(), identity.pod)))
                });
                if ours && !wanted {
                    flaws.push(format!("{} ({id}) is left over on e{number}", container.name));
                }
            }
        }
        flaws
    }

    fn unacknowledged_orders(&self, placed: &BTreeSet<(NodeName, PodId)>) -> Vec<String> {
        let mut flaws = Vec::new();
        for machine in &self.machines {
            let node = &machine.owner.node;
            let held: BTreeSet<&PodId> = machine.disk.order.pods.keys().collect();
            let wanted: BTreeSet<&PodId> = placed.iter().filter(|(n, _)| n == node).map(|(_, pod)| pod).collect();
            if held != wanted {
                flaws.push(format!("{node} holds order {} {held:?}, placed are {wanted:?}", machine.disk.order.fence));
            }
        }
        flaws
    }

    /// Every message the present stream has is decided.
    fn unanswered_commands(&self) -> Vec<String> {
        let cursor: contract::record::Cursor = self.store.read(keys::CURSOR).unwrap_or_default();
        let next = if cursor.stream == self.bus.identity() { cursor.sequence + 1 } else { 1 };
        self.bus.message(next).map(|message| format!("{:?} is not decided", message.command)).into_iter().collect()
    }

    /// Names of all groups users asked for, by index.
    pub fn group_called(&self, index: usize) -> Option<GroupName> {
        self.workload.groups.get(index).cloned()
    }
}
