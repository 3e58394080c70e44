//! The leader's side of the wire: reads commands, replies outcomes, answers questions. Knows just enough to decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::command::{Command, Operation, Outcome, Refusal, Verb, Verdict};
use contract::fence::Term;
use contract::history::{ContainerEvent, Happened};
use contract::policy::{NamespacePolicy, Policy};
use contract::ports;
use contract::query::{
    Answer, ClusterView, DependencyView, GroupLine, GroupView, Liveness, NodeView, PodView, PortClaim, Query, Reply,
};
use contract::report::{ContainerFacts, EngineState, NodeFacts, PodFacts};
use contract::spec::{PodGroupSpec, PodSpec};
use contract::state::{HealthState, RunState, TargetState};
use contract::subjects;
use contract::switches::{Constraint, EngineRecord};
use contract::time::Timestamp;
use contract::validate::{Flaw, sentence};
use fabric::nats::Bus;
use tokio::sync::oneshot;

use crate::{backups, leader_rollouts, node_changes};

/// How the stand-in behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Decides and replies.
    Leads,
    /// Decides, but its replies are lost: outcomes are learned only by asking.
    LosesReplies,
    /// Answers as a standby does and reads no commands.
    StandsBy,
}

/// Ends with [`Leader::stop`], which gives back the commands it saw.
pub(crate) struct Leader {
    /// How often nodes were to look anew at a group.
    pub(crate) refreshed: Arc<AtomicUsize>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Vec<Command>>,
}

impl Leader {
    pub(crate) async fn start(bus: &Bus, manner: Manner) -> Self {
        let subject = match manner {
            Manner::Leads | Manner::LosesReplies => subjects::QUERY_LEADER,
            Manner::StandsBy => subjects::QUERY_STANDBY,
        };
        let mut questions = bus.subscribe(subject).await.unwrap();
        let mut commands = bus.read_stream(subjects::COMMANDS_STREAM, 0).await.unwrap();
        let (stop, mut stopped) = oneshot::channel();
        let bus = bus.clone();
        let refreshed = Arc::new(AtomicUsize::new(0));
        let mut state = State { refreshed: refreshed.clone(), ..State::default() };
        let task = fabric::tasks::spawn("leader", async move {
            loop {
                tokio::select! {
                    question = questions.next() => {
                        let question = question.unwrap();
                        let answer = state.answer(&question.decode().unwrap());
                        let reply = Reply::new(manner == Manner::StandsBy, answer);
                        bus.answer(&question.reply.unwrap(), &reply).await.unwrap();
                    }
                    stored = commands.next(), if manner != Manner::StandsBy => {
                        let stored = stored.unwrap();
                        let command: Command = serde_json::from_slice(&stored.payload).unwrap();
                        let outcome = state.decide(command);
                        if manner == Manner::Leads {
                            let inbox = stored.header(subjects::REPLY_HEADER).expect("commands carry an inbox");
                            bus.answer(inbox, &outcome).await.unwrap();
                        }
                    }
                    _ = &mut stopped => return state.seen,
                }
            }
        });
        Self { refreshed, stop, task }
    }

    pub(crate) async fn stop(self) -> Vec<Command> {
        self.stop.send(()).unwrap();
        self.task.await.unwrap()
    }
}

#[derive(Default)]
struct State {
    seen: Vec<Command>,
    refreshed: Arc<AtomicUsize>,
    dependencies: BTreeMap<String, PodSpec>,
    groups: BTreeMap<String, PodGroupSpec>,
    outcomes: BTreeMap<String, Outcome>,
    callbacks: BTreeSet<String>,
    engine: EngineRecord,
    constraints: BTreeMap<String, Constraint>,
    policies: BTreeMap<String, Policy>,
}

impl State {
    fn decide(&mut self, command: Command) -> Outcome {
        if let Some(known) = self.outcomes.get(command.id.as_str()) {
            return known.clone();
        }
        let verdict = self.verdict(&command.verb).map_or_else(Verdict::Refused, |()| Verdict::Accepted);
        let outcome = Outcome { id: command.id.clone(), at: command.at, verdict, digest: command.digest };
        self.outcomes.insert(command.id.to_string(), outcome.clone());
        self.seen.push(command);
        outcome
    }

    /// Names that start with `locked`, `removing`, `limit` are refused as the real leader would in that state.
    fn verdict(&mut self, verb: &Verb) -> Result<(), Refusal> {
        if self.engine.refuses_changes() && !verb.passes_read_only() {
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
            Verb::CreateGroup { spec } if spec.name.starts_with("removing") => Err(Refusal::GroupRemoving),
            Verb::CreateGroup { spec } if spec.name.starts_with("limit") => {
                Err(Refusal::Limit { what: "the number of groups".to_owned(), limit: 1 })
            }
            Verb::CreateGroup { spec } if self.groups.contains_key(&spec.name) => Err(Refusal::GroupExists),
            Verb::CreateGroup { spec } => {
                self.groups.insert(spec.name.clone(), (**spec).clone());
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
                Ok(())
            }
            Verb::PatchStrategy { name, fields } => {
                let group = self.groups.get_mut(name.as_str()).ok_or(Refusal::GroupUnknown)?;
                let malformed = |flaws: Vec<Flaw>| Refusal::Malformed { reason: sentence(&flaws) };
                let next = group.with_release_fields(fields).map_err(malformed)?;
                next.validate().map_err(malformed)?;
                *group = next;
                Ok(())
            }
            Verb::Rollout { name, release, action } => {
                leader_rollouts::say(self.groups.get(name.as_str()).ok_or(Refusal::GroupUnknown)?, *release, action)
            }
            Verb::SetGate { name, instance, gate, .. } => {
                self.has_instance(name.as_str(), *instance)?;
                leader_rollouts::has_gate(&self.groups[name.as_str()], gate)
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
            Verb::Evacuate { .. } => Ok(()),
            Verb::SetPolicy { namespace, policy } => {
                self.policies.insert(namespace.clone(), (**policy).clone());
                Ok(())
            }
            Verb::RemovePolicy { namespace } => self.policies.remove(namespace).map(drop).ok_or(Refusal::PolicyUnknown),
            Verb::Node { node, change } => node_changes::verdict(node, change),
            Verb::Restore { step } => backups::verdict(step),
            Verb::CreateDependency { pod } if self.dependencies.contains_key(&pod.name) => {
                Err(Refusal::DependencyExists)
            }
            Verb::CreateDependency { pod } => {
                self.dependencies.insert(pod.name.clone(), (**pod).clone());
                Ok(())
            }
            Verb::UpdateDependency { pod } => {
                let known = self.dependencies.get_mut(&pod.name).ok_or(Refusal::DependencyUnknown)?;
                *known = known.patched((**pod).clone(), Timestamp::NEVER);
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

    fn answer(&self, query: &Query) -> Answer {
        match query {
            Query::Group { name, refresh } => {
                self.refreshed.fetch_add(usize::from(*refresh), Ordering::Relaxed);
                Answer::Group(self.groups.get(name.as_str()).map(|spec| Box::new(group(spec))))
            }
            Query::Rollout { name } => Answer::Rollout(self.groups.get(name.as_str()).map(leader_rollouts::rollout)),
            Query::Revisions { name } => {
                Answer::Revisions(self.groups.get(name.as_str()).map(leader_rollouts::revisions))
            }
            Query::Plan { spec, .. } => Answer::Plan(leader_rollouts::plan(spec, self.groups.get(&spec.name))),
            Query::Dependency { name } => Answer::Dependency(self.dependencies.get(name.as_str()).map(dependency)),
            Query::Groups { namespace, after, limit } => {
                let lines = self.groups.values().filter(|spec| namespace.as_ref().is_none_or(|n| *n == spec.namespace));
                let lines = lines.filter(|spec| after.as_ref().is_none_or(|after| spec.name.as_str() > after.as_str()));
                Answer::Groups(lines.take(usize::try_from(*limit).unwrap()).map(line).collect())
            }
            Query::Nodes => Answer::Nodes(vec![node("n2"), node("n1")]),
            Query::Node { name } => Answer::Node(node_changes::page(node(name.as_str()))),
            Query::Cluster => Answer::Cluster(ClusterView {
                scheduler: "scheduler-1".to_owned(),
                term: Some(Term(7)),
                groups: 1,
                instances: 2,
                running: 2,
                nodes_alive: 2,
                nodes: 2,
                foreign_store: 0,
                restored: None,
                quarantined: Vec::new(),
                warnings: Vec::new(),
            }),
            Query::Operation { id } => Answer::Operation(self.outcomes.get(id.as_str()).cloned()),
            Query::Engine => Answer::Engine(self.engine),
            Query::Constraints => Answer::Constraints(self.constraints.values().cloned().collect()),
            Query::Policies => Answer::Policies(self.policies.iter().map(policy_row).collect()),
            Query::Callbacks => Answer::Callbacks(self.callbacks.iter().cloned().collect()),
            Query::Ports => Answer::Ports(self.groups.values().flat_map(claims).collect()),
            Query::History { name, instance } => Answer::History(history(name.as_str(), *instance)),
            Query::Backup { revision, after } => Answer::Backup(backups::page(*revision, after.as_deref())),
        }
    }
}

fn policy_row((namespace, policy): (&String, &Policy)) -> NamespacePolicy {
    NamespacePolicy { namespace: namespace.clone(), policy: policy.clone() }
}

/// Instance k runs on node n<k>; the last instance of a group of three or more was not created yet.
fn group(spec: &PodGroupSpec) -> GroupView {
    let count = u32::try_from(spec.num_instances).unwrap();
    GroupView {
        spec: spec.clone(),
        state: RunState::Success,
        health: HealthState::None,
        last_error: String::new(),
        updated_at: Timestamp::from_millis(1_700_000_000_000),
        operation: None,
        // In another order than clients want.
        pods: (1..=count).rev().map(|instance| pod(spec, instance, instance > 2 && instance == count)).collect(),
    }
}

fn pod(spec: &PodGroupSpec, instance: u32, pending: bool) -> PodView {
    let running = ContainerFacts {
        id: format!("{instance:064}"),
        running: true,
        ip: format!("172.20.0.{instance}"),
        node_port: 30_000,
        started_at: Timestamp::from_millis(1_700_000_001_000),
        ..Default::default()
    };
    PodView {
        id: format!("{}.v0-i{instance}-d0", spec.name).parse().unwrap(),
        node: (!pending).then(|| format!("n{instance}").parse().unwrap()),
        node_ip: if pending { String::new() } else { format!("10.0.0.{instance}") },
        target: TargetState::Run,
        facts: PodFacts {
            state: if pending { RunState::Pending } else { RunState::Success },
            containers: if pending { Vec::new() } else { vec![running] },
            updated_at: Timestamp::from_millis(1_700_000_001_000),
            ..Default::default()
        },
        addresses: if pending { Vec::new() } else { vec![format!("172.20.0.{instance}")] },
    }
}

/// Beside the instances of namespace `hello` on node n1.
fn dependency(spec: &PodSpec) -> Box<DependencyView> {
    let group = PodGroupSpec { name: format!("{}-n1-hello", spec.name), pod: spec.clone(), ..Default::default() };
    let id = format!("{}.v{}-i0-d0", group.name, spec.version).parse().unwrap();
    let beside = PodView { id, ..pod(&group, 1, false) };
    Box::new(DependencyView { spec: spec.clone(), pods: BTreeMap::from([("hello".to_owned(), vec![beside])]) })
}

fn claims(spec: &PodGroupSpec) -> Vec<PortClaim> {
    let claim = |port| PortClaim { port, namespace: spec.namespace.clone(), group: spec.name.parse().unwrap() };
    ports::declared(&spec.pod.annotation).into_iter().map(claim).collect()
}

/// Instance 1 of any group named `hello...` started and stopped.
fn history(name: &str, instance: u32) -> Vec<ContainerEvent> {
    let event = |second: i64, happened| ContainerEvent {
        at: Timestamp::from_millis(second * 1000 + 630),
        happened,
        container: 0,
        from: "registry/hello:1 node:n1".to_owned(),
    };
    match (name.starts_with("hello"), instance) {
        (true, 1) => vec![event(1_794_794_630, Happened::Start), event(1_794_794_640, Happened::Stop)],
        _ => Vec::new(),
    }
}

fn line(spec: &PodGroupSpec) -> GroupLine {
    GroupLine {
        name: spec.name.parse().unwrap(),
        namespace: spec.namespace.clone(),
        version: 0,
        wanted: u32::try_from(spec.num_instances).unwrap(),
        running: 0,
        state: RunState::Pending,
        operation: None,
        last_error: String::new(),
        ready: None,
        overdue: Vec::new(),
    }
}

fn node(name: &str) -> NodeView {
    NodeView {
        name: name.parse().unwrap(),
        liveness: Liveness::Alive,
        engine: EngineState::Up,
        facts: NodeFacts { address: "10.0.0.1:2375".to_owned(), cores: 4, memory: 8 << 30, ..Default::default() },
        used_cpu_millis: 1500,
        used_memory: 1 << 30,
        containers: 3,
        instances: 2,
        cordon: None,
    }
}
