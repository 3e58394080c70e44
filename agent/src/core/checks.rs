//! The health checks that the agent performs: which containers have them, and when the next one is due.
//!
//! The memory of a check begins with the start of its container and ends when the container does not run any more.

use std::collections::{BTreeMap, BTreeSet};

use contract::check::{Check, CheckKind};
use contract::pod_id::InstanceKey;
use contract::spec::PodSpec;
use contract::state::HealthState;
use contract::time::Timestamp;
use planner::check::{CheckResult, ContainerChecks};

use super::Core;
use super::facts::severity;
use super::io::{ContainerSeen, Effect, Phase};

/// Address of containers that share the network of the node.
const LOOPBACK: &str = "127.0.0.1";

#[derive(Debug, Default)]
pub(super) struct Checks {
    containers: BTreeMap<String, Checked>,
    due: BTreeSet<(Timestamp, String)>,
    /// Why containers are being restarted, until their exit is read.
    restarting: BTreeMap<String, String>,
}

/// One container with checks.
#[derive(Debug)]
struct Checked {
    instance: InstanceKey,
    /// By Docker's clock.
    started_at: Timestamp,
    ip: String,
    checks: ContainerChecks,
}

impl Checks {
    /// The container's health by Docker and by the checks of the agent: the worse one.
    pub(super) fn health(&self, seen: &ContainerSeen) -> HealthState {
        let own = self.containers.get(&seen.id).map_or(HealthState::None, |checked| checked.checks.health());
        if severity(own) > severity(seen.health) { own } else { seen.health }
    }

    /// Whether the container must be restarted because of a check.
    pub(super) fn demand_restart(&self, id: &str) -> bool {
        self.containers.get(id).is_some_and(|checked| checked.checks.restart_reason().is_some())
    }

    /// The check of a container that fails, and why.
    pub(super) fn problem(&self, id: &str) -> Option<String> {
        self.containers.get(id)?.checks.problem()
    }

    /// Takes the reason for which a container was restarted.
    pub(super) fn take_restart_reason(&mut self, id: &str) -> Option<String> {
        self.restarting.remove(id)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(time, _)| *time)
    }

    fn begin(&mut self, id: &str, checked: Checked) {
        self.forget(id);
        self.due.extend(checked.checks.next_due().map(|due| (due, id.to_owned())));
        self.containers.insert(id.to_owned(), checked);
    }

    /// The container stopped, or has no checks.
    fn end(&mut self, id: &str) {
        self.restarting.extend(self.restart_of(id));
        self.forget(id);
    }

    fn restart_of(&self, id: &str) -> Option<(String, String)> {
        Some((id.to_owned(), self.containers.get(id)?.checks.restart_reason()?))
    }

    fn forget(&mut self, id: &str) {
        if let Some(checked) = self.containers.remove(id) {
            checked.checks.next_due().map(|due| self.due.remove(&(due, id.to_owned())));
        }
    }

    /// Changes the checks of a container, and with them when the next one is due.
    fn change<T>(&mut self, id: &str, change: impl FnOnce(&mut Checked) -> T) -> Option<T> {
        let checked = self.containers.get_mut(id)?;
        let before = checked.checks.next_due();
        let changed = change(checked);
        let after = checked.checks.next_due();
        if before != after {
            before.map(|due| self.due.remove(&(due, id.to_owned())));
            self.due.extend(after.map(|due| (due, id.to_owned())));
        }
        Some(changed)
    }
}

impl Core {
    /// Begins and ends the checks of an instance's containers.
    pub(super) fn update_checks(&mut self, key: &InstanceKey, now: Timestamp) {
        let Self { cache, ledger, checks, .. } = self;
        for seen in cache.containers(key) {
            let pod = &seen.identity.pod;
            let assignment = ledger.order.pods.get(pod);
            let spec = assignment.and_then(|assignment| ledger.order.spec_for(pod, assignment));
            let wanted = spec.map_or_else(Vec::new, |spec| checks_of(spec, seen.identity.index));
            if seen.phase != Phase::Running || wanted.is_empty() {
                checks.end(&seen.id);
                continue;
            }
            // Without an address of its own a container must not be checked at the node's, unless it shares the node's network.
            let shares_network = spec.is_some_and(|spec| spec.network_name() == "host");
            let ip = if shares_network { LOOPBACK.to_owned() } else { seen.ip.clone() };
            let known = checks.containers.get(&seen.id);
            let is_same = |known: &Checked| known.started_at == seen.started_at && known.ip == ip;
            if known.is_some_and(|known| is_same(known) && known.checks.has(&wanted)) {
                continue;
            }
            let was_healthy = ledger.memory.get(pod).is_some_and(|memory| memory.well.covers(seen.started_at));
            let setup = spec.map(|spec| spec.setup()).unwrap_or_default();
            let instance = key.clone();
            let container = ContainerChecks::new(wanted, setup, (now, was_healthy), phase_of(&seen.id));
            checks.begin(&seen.id, Checked { instance, started_at: seen.started_at, ip, checks: container });
        }
        let is_there = |id: &String| cache.container(id).is_some();
        let gone: Vec<String> = checks
            .containers
            .iter()
            .filter(|(id, checked)| checked.instance == *key && !is_there(id))
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().for_each(|id| checks.forget(id));
        checks.restarting.retain(|id, _| is_there(id));
    }

    /// Starts the checks that are due.
    pub(super) fn start_checks(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        while let Some((_, id)) = self.checks.due.first().filter(|(time, _)| *time <= now).cloned() {
            let started = self.checks.change(&id, |checked| {
                let taken = checked.checks.take_due(now);
                taken
                    .into_iter()
                    .filter_map(|(kind, check)| {
                        let (started_at, ip) = (checked.started_at, checked.ip.clone());
                        let within = check.answers_within();
                        Some(Effect::Check { id: id.clone(), started_at, kind, probe: check.probe()?, ip, within })
                    })
                    .collect::<Vec<_>>()
            });
            out.extend(started.into_iter().flatten());
        }
    }

    /// A check ended.
    pub(super) fn check_finished(
        &mut self,
        (id, started_at): (&str, Timestamp),
        kind: CheckKind,
        result: CheckResult,
        now: Timestamp,
    ) {
        let changed = self.checks.change(id, |checked| {
            if checked.started_at != started_at {
                // The container was restarted meanwhile.
                return None;
            }
            let view = |checks: &ContainerChecks| (checks.health(), checks.problem());
            let before = view(&checked.checks);
            checked.checks.finished(kind, result, now);
            (view(&checked.checks) != before).then(|| checked.instance.clone())
        });
        if let Some(Some(instance)) = changed {
            self.cache.mark(&instance);
        }
    }
}

/// The checks of one container of a pod.
fn checks_of(spec: &PodSpec, index: usize) -> Vec<(CheckKind, Check)> {
    let found = CheckKind::ALL.into_iter().filter_map(|kind| Some((kind, spec.check(kind)?)));
    found.filter(|(_, check)| usize::try_from(check.container) == Ok(index) && check.probe().is_some()).collect()
}

/// A number that differs between containers and stays the same for one: ids are random.
fn phase_of(id: &str) -> u32 {
    id.bytes().map(u32::from).sum()
}
