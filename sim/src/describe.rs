//! One line for every input and effect, for the trace.

use agent::core::io as agent_io;
use contract::command::{Command, Verb};
use contract::keys::{self, Key};
use contract::layout::InstancesPage;
use contract::order::OrderMessage;
use contract::record::{Instance, Presence};
use contract::report::ReportMessage;
use contract::spec::PodSpec;
use contract::state::TargetState;
use planner::rollout::controller::RolloutState;
use scheduler::core::io as scheduler_io;

use crate::workload::rollouts::rollout_fields;

pub fn scheduler_input(input: &scheduler_io::Input) -> String {
    use scheduler_io::{Input, Mirror};
    match input {
        Input::Mirror(Mirror::Reset(all)) => format!("mirror reset, {} keys", all.len()),
        Input::Mirror(Mirror::Put(key, value)) => format!("mirror put {key}, {} bytes", value.len()),
        Input::Mirror(Mirror::Delete(key)) => format!("mirror delete {key}"),
        Input::Elected { term, stored } => format!("elected for term {term}, {} keys", stored.len()),
        Input::Deposed => "deposed".to_owned(),
        Input::Command(delivery) => match &delivery.command {
            Ok(command) => format!("command {}#{}: {}", delivery.stream, delivery.sequence, self::command(command)),
            Err(letter) => format!("command {}#{}: unreadable, {}", delivery.stream, delivery.sequence, letter.payload),
        },
        Input::Report(message) => report(message),
        Input::Query { query, reply } => format!("query {reply}: {query:?}"),
        Input::Committed { id, result } => format!("committed {id}: {result:?}"),
        Input::OrderReplied { node, fence, reply } => format!("order {fence} answered by {node}: {reply:?}"),
        Input::Bus { connected } => format!("bus connected: {connected}"),
        Input::Clock { ahead_millis } => format!("clock {ahead_millis} ms ahead"),
        Input::StoredProgress(progress) => format!("stored progress: {progress:?}"),
        Input::DropAudit { chain, up_to, .. } => format!("the audit log {chain:?} may lose its records up to {up_to}"),
        Input::StoreSize { in_use, .. } => format!("store size: {in_use} bytes in use"),
        Input::Tick => "tick".to_owned(),
    }
}

pub fn scheduler_effect(effect: &scheduler_io::Effect) -> String {
    use scheduler_io::Effect;
    match effect {
        Effect::Commit(commit) => {
            let keys: Vec<String> = commit.writes.iter().map(write).collect();
            format!("commit {} term {}: {}", commit.id, commit.term, keys.join(" "))
        }
        Effect::SendOrder { node, message } => format!("order to {node}: {}", order(message)),
        Effect::AskWhole { node } => format!("asks {node} for the whole"),
        Effect::Resolve { outcome, .. } => format!("resolves {}: {:?}", outcome.id, outcome.decision),
        Effect::Answer { inbox, reply } => format!("answers {inbox}: stale {} {}", reply.stale, answer(&reply.answer)),
        Effect::Plan { inbox, stale, .. } => format!("plans for {inbox}: stale {stale}"),
        Effect::Notify { body, .. } => format!("notifies: {} {} {}", body.pod_name, body.instance_no, body.message),
        Effect::Record(event) => format!("records: {:?} {}", event.kind, event.message),
        Effect::Bury(letter) => format!("buries: {}", letter.payload),
        Effect::StepDown { reason } => format!("steps down: {reason}"),
    }
}

pub fn agent_input(input: &agent_io::Input) -> String {
    use agent_io::Input;
    match input {
        Input::Order { message, .. } => format!("order {}", order(message)),
        Input::Persisted { id, result } => format!("persisted {id}: {result:?}"),
        Input::Inventory(all) => {
            let seen: Vec<String> = all.iter().map(|c| format!("{}={}:{:?}", c.id, c.identity.pod, c.phase)).collect();
            format!("inventory {}", seen.join(" "))
        }
        Input::Inspected { id, seen } => format!("looked at {id}: {:?}", seen.as_ref().map(|seen| seen.phase)),
        Input::ActionDone { action, result, .. } => {
            format!("action done: {} {}", self::action(action), action_result(result))
        }
        Input::Checked { id, kind, result, .. } => format!("checked {} of {id}: {result:?}", kind.word()),
        Input::Fetched { image, result } => format!("fetched {image}: {result:?}"),
        Input::Engine(state) => format!("engine {state:?}"),
        Input::Bus { connected } => format!("bus connected {connected}"),
        Input::FullReportRequested => "asked for the whole".to_owned(),
        Input::Tick => "tick".to_owned(),
    }
}

pub fn agent_effect(effect: &agent_io::Effect) -> String {
    use agent_io::Effect;
    match effect {
        Effect::Persist { id, ledger } => {
            format!("persists {id}: order {} {:?}", ledger.order.fence, ledger.order.pods.keys())
        }
        Effect::Reply { inbox, reply } => format!("replies {inbox}: {reply:?}"),
        Effect::Perform { action, .. } => format!("performs: {}", self::action(action)),
        Effect::Fetch { image } => format!("fetches {image}"),
        Effect::Check { id, kind, .. } => format!("checks {} of {id}", kind.word()),
        Effect::TakeInventory => "takes inventory".to_owned(),
        Effect::Publish(message) => format!("publishes {}", report(message)),
    }
}

pub fn action(action: &agent_io::Action) -> String {
    use agent_io::Action;
    match action {
        Action::Create { pod, index, .. } => format!("create {pod} [{index}]"),
        Action::Replace { old, pod, index, .. } => format!("replace {old} by {pod} [{index}]"),
        Action::Update { id, pod, spec, .. } => format!("update {id} of {pod} to version {}", spec.version),
        Action::ReadEnd { id } => format!("read the end of {id}"),
        Action::Start { id } => format!("start {id}"),
        Action::Stop { id, .. } => format!("stop {id}"),
        Action::Remove { id, .. } => format!("remove {id}"),
    }
}

pub fn action_result(result: &Result<Option<agent_io::ContainerSeen>, agent_io::ActionFailure>) -> String {
    match result {
        Ok(Some(seen)) => format!("-> {} {:?}", seen.id, seen.phase),
        Ok(None) => "-> gone".to_owned(),
        Err(failure) => format!("-> {failure:?}"),
    }
}

pub fn command(command: &Command) -> String {
    let what = match &command.verb {
        Verb::CreateGroup { spec } => {
            let fields = serde_json::Value::Object(rollout_fields(spec));
            format!("create {} x{} {} {fields}", spec.name, spec.num_instances, pod(&spec.pod))
        }
        Verb::RemoveGroup { name, removal } => format!("remove {name} {removal:?}"),
        Verb::Replica { name, num_instances, restart_policy } => {
            format!("replica {name} x{num_instances} {restart_policy:?}")
        }
        Verb::PatchStrategy { name, fields } => format!("strategy of {name} {fields:?}"),
        Verb::Rollout { name, release, action } => format!("{action:?} release {release:?} of {name}"),
        Verb::SetGate { name, instance, gate, is_true, version: _ } => {
            format!("gate {gate} of {name} instance {instance} is {is_true}")
        }
        Verb::Drained { name, instance } => format!("{name} instance {instance} is drained"),
        Verb::PatchSpec { name, pod, cause: _ } => format!("patch {name} {}", self::pod(pod)),
        Verb::Operate { name, act, instance } => format!("{act:?} {name} instance {instance}"),
        Verb::Drift { drift, group } => format!("{drift:?} of {group:?}"),
        Verb::Evacuate { node } => format!("evacuate {node}"),
        Verb::Node { node, change } => format!("{change:?} of {node}"),
        Verb::CreateDependency { pod } => format!("create dependency {} {}", pod.name, self::pod(pod)),
        Verb::UpdateDependency { pod } => format!("update dependency {} {}", pod.name, self::pod(pod)),
        Verb::RemoveDependency { name, force } => format!("remove dependency {name} force {force}"),
        Verb::AddCallback { url } => format!("add callback {url}"),
        Verb::RemoveCallback { url } => format!("remove callback {url}"),
        Verb::Configure { readonly, maintenance } => format!("configure {readonly:?} {maintenance:?}"),
        Verb::RunEngine { running } => format!("run engine {running}"),
        Verb::Guard { working } => format!("guard {working}"),
        Verb::SetConstraint { constraint } => format!("set {}", constraint.expression()),
        Verb::RemoveConstraint { kind } => format!("remove constraint {kind}"),
        Verb::SetPolicy { namespace, policy } => format!("policy of {namespace}: {}", policy.level),
        Verb::CreateToken { token } => format!("create token {}", token.id),
        Verb::RevokeToken { id } => format!("revoke token {id}"),
        Verb::CreateJoinToken { token } => format!("create join token {}", token.id),
        Verb::RevokeJoinToken { id } => format!("revoke join token {id}"),
        Verb::Join { join } => format!("join {}", join.node),
        Verb::ReportRefused { requests } => format!("report {} refused requests", requests.len()),
        Verb::EnforceAccess { enforced } => format!("enforce access: {enforced}"),
        Verb::RemovePolicy { namespace } => format!("remove the policy of {namespace}"),
        Verb::Restore { step } => format!("restore {step:?}"),
    };
    format!("{} {what}", command.id)
}

fn pod(pod: &PodSpec) -> String {
    let images: Vec<&str> = pod.containers.iter().map(|container| container.image.as_str()).collect();
    let needs: Vec<&str> = pod.dependencies.iter().map(|dependency| dependency.pod_name.as_str()).collect();
    let (mebibytes, stateful, checked) = (pod.memory() >> 20, pod.is_stateful(), !pod.health_config.cmd.is_empty());
    format!("{images:?} {mebibytes} MiB stateful {stateful} checked {checked} needs {needs:?} {}", pod.annotation)
}

fn write(write: &scheduler_io::Write) -> String {
    use scheduler_io::Write;
    match write {
        Write::Put { key, value, .. } => match keys::parse(key) {
            Key::Placement(..) => format!("{}({})", short(key), placement(value)),
            Key::Release(_) => format!("{}({})", short(key), release(value)),
            _ => format!("{}({})", short(key), value.len()),
        },
        Write::Delete { key } => format!("-{}", short(key)),
    }
}

fn placement(value: &[u8]) -> String {
    let instances = serde_json::from_slice::<InstancesPage>(value).unwrap_or_default().instances();
    let pod = |instance: &Instance| {
        let node = instance.node.as_ref().map_or("nowhere", |node| node.as_str());
        let leaves = instance.leaves.as_ref().map(|node| format!(" from {node}")).unwrap_or_default();
        let drains = if instance.draining.is_some() { " drains" } else { "" };
        let stops = if instance.target == TargetState::Stop { " stops" } else { "" };
        let made = instance.created_from.map(|version| format!(" made as v{version}")).unwrap_or_default();
        format!("v{}d{}@{node}{leaves}{drains}{stops}{made}", instance.version, instance.drift)
    };
    let instance = |(number, instance): (usize, &Instance)| match instance.presence {
        Presence::Pod => {
            let next = instance.next.as_deref().map(|next| format!(" + {}", pod(next))).unwrap_or_default();
            format!("{}:{}{next}", number + 1, pod(instance))
        }
        Presence::Vacant => format!("{}:retired {}", number + 1, pod(instance)),
        Presence::Free => format!("{}:nothing", number + 1),
    };
    instances.iter().enumerate().map(instance).collect::<Vec<_>>().join(", ")
}

fn release(value: &[u8]) -> String {
    let Ok(release) = serde_json::from_slice::<RolloutState>(value) else { return "unreadable".to_owned() };
    let failure = release.failure.as_ref().map(|failure| format!(" failed {:?}", failure.cause)).unwrap_or_default();
    let is_held = [(release.is_paused, " paused"), (release.is_frozen, " frozen"), (release.is_aborted, " aborted")];
    let held: String = is_held.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
    let (target, phase, group, committed) = (release.target, release.phase, release.batch, &release.committed);
    format!("to v{target} {phase:?} group {group} committed {committed:?}{failure}{held}")
}

fn short(key: &str) -> &str {
    key.strip_prefix(contract::keys::STATE).or_else(|| key.strip_prefix(contract::keys::ROOT)).unwrap_or(key)
}

fn order(message: &OrderMessage) -> String {
    match message {
        OrderMessage::Whole(order) => format!("{} whole {:?} {}", order.fence, order.pods.keys(), order.digest()),
        OrderMessage::Delta(delta) => {
            format!(
                "{} since {}: +{:?} -{:?} {}",
                delta.fence,
                delta.base,
                delta.pods.put.keys(),
                delta.pods.gone,
                delta.digest
            )
        }
    }
}

fn report(message: &ReportMessage) -> String {
    let stamp = message.stamp();
    let name = format!("report {}#{}", stamp.incarnation, stamp.sequence);
    match message {
        ReportMessage::Whole(whole) => {
            let pods: Vec<String> = whole.pods.iter().map(|(pod, facts)| format!("{pod}:{:?}", facts.state)).collect();
            format!("{name} whole at {} {:?}: {}", whole.head.applied, whole.head.engine, pods.join(" "))
        }
        ReportMessage::Delta(delta) => {
            let pods: Vec<String> =
                delta.pods.put.iter().map(|(pod, facts)| format!("{pod}:{:?}", facts.state)).collect();
            format!("{name} since {} at {}: {} -{:?}", delta.base, delta.head.applied, pods.join(" "), delta.pods.gone)
        }
        ReportMessage::Heartbeat(heartbeat) => format!("{name} heartbeat {}", heartbeat.digest),
    }
}

fn answer(answer: &contract::query::Answer) -> String {
    use contract::query::Answer;
    match answer {
        Answer::Group(None) => "no group".to_owned(),
        Answer::Group(Some(view)) => {
            let pods: Vec<String> =
                view.pods.iter().map(|pod| format!("{}@{:?}:{:?}", pod.id, pod.node, pod.facts.state)).collect();
            format!("group {} x{} {:?}: {}", view.spec.name, view.spec.num_instances, view.operation, pods.join(" "))
        }
        Answer::Rollout(view) => format!("{view:?}"),
        Answer::Revisions(view) => format!("{view:?}"),
        Answer::Plan(view) => format!("{view:?}"),
        Answer::Dependency(view) => format!("{view:?}"),
        Answer::Groups(lines) => format!("{} groups", lines.len()),
        Answer::Nodes(nodes) => format!("{} nodes", nodes.len()),
        Answer::Node(page) => format!("{page:?}"),
        Answer::Cluster(view) => format!("{view:?}"),
        Answer::Operation(outcome) => format!("{outcome:?}"),
        Answer::Callbacks(urls) => format!("{urls:?}"),
        Answer::Ports(claims) => format!("{claims:?}"),
        Answer::History(events) => format!("{events:?}"),
        Answer::Backup(page) => format!("{page:?}"),
        Answer::Engine(engine) => format!("{engine:?}"),
        Answer::Constraints(constraints) => format!("{constraints:?}"),
        Answer::Policies(rows) => format!("{rows:?}"),
        Answer::Access(_) => "access".to_owned(),
        Answer::JoinTokens(_) | Answer::Joined(_) => "joins".to_owned(),
        Answer::Audit(_) => "audit log".to_owned(),
    }
}
