//! One value of every message; together they contain every optional field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::api;
use contract::command::{Act, Command, Decision, Drift, Operation, Outcome, Refusal, Removal, Verb};
use contract::docker_inspect::ContainerDetail;
use contract::exit::ExitFacts;
use contract::fence::{Fence, Term};
use contract::history::{Condition, ContainerEvent, Happened, HistoryRecord, Ring};
use contract::notice::{DeadLetter, Incident, Notice, NoticeBody};
use contract::order::{Assignment, Order, OrderReply};
use contract::pod_id::PodId;
use contract::ports::StreamPort;
use contract::query::{
    Answer, ClusterView, DependencyView, GroupLine, GroupView, InspectReply, InspectRequest, Liveness, NodeView,
    Overdue, PodView, PortClaim, QuarantinedKind, QuarantinedView, Query,
};
use contract::record::{
    CallbacksRecord, Cursor, DependencyRecord, GroupRecord, Instance, NodeRecord, OperationRecord, Pair, PairsRecord,
    PlacementRecord,
};
use contract::report::{
    ContainerFacts, EngineState, Heartbeat, NodeFacts, PodFacts, Report, ReportHead, ReportMessage, Stamp,
};
use contract::spec::{ContainerSpec, Dependency, PodGroupSpec, PodSpec};
use contract::state::{DependencyPolicy, HealthState, RestartPolicy, RunState, TargetState};
use contract::switches::{Constraint, ConstraintsRecord, EngineRecord, Switches};
use contract::time::Timestamp;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_794_794_630_000 + seconds * 1000)
}
pub(crate) fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a name")
}
pub(crate) fn pod(text: &str) -> PodId {
    text.parse().expect("a pod id")
}
fn fence(generation: u64) -> Fence {
    Fence { term: Term(812), generation }
}

pub(crate) fn spec() -> PodGroupSpec {
    let container = ContainerSpec {
        image: "registry/hello:1".to_owned(),
        env: vec!["A=1".to_owned()],
        command: vec!["./run".to_owned()],
        entrypoint: Some(vec!["/init".to_owned()]),
        volumes: vec!["/lain/logs".to_owned()],
        cpu_limit: 1,
        memory_limit: 33_554_432,
        expose: 8080,
        ..Default::default()
    };
    let pod = PodSpec {
        name: "hello.web.web".to_owned(),
        namespace: "hello".to_owned(),
        created_at: at(0),
        containers: vec![container],
        filters: vec!["constraint:group==default".to_owned()],
        labels: BTreeMap::from([("team".to_owned(), "x".to_owned())]),
        dependencies: vec![Dependency {
            pod_name: "svc.portal.portal".to_owned(),
            policy: DependencyPolicy::Namespace,
        }],
        annotation: "{\"mountpoint\":[\"hello.local\"]}".to_owned(),
        setup_time: 5,
        kill_timeout: 15,
        ..Default::default()
    };
    PodGroupSpec {
        name: "hello.web.web".to_owned(),
        namespace: "hello".to_owned(),
        created_at: at(0),
        pod,
        num_instances: 2,
        restart_policy: RestartPolicy::Always,
        ..Default::default()
    }
}

pub(crate) fn verbs() -> Vec<(&'static str, Verb)> {
    vec![
        ("create-group", Verb::CreateGroup { spec: Box::new(spec()) }),
        ("remove-group", Verb::RemoveGroup { name: name("hello.web.web"), removal: Removal::Foreground }),
        (
            "replica",
            Verb::Replica {
                name: name("hello.web.web"),
                num_instances: 3,
                restart_policy: Some(RestartPolicy::OnFail),
            },
        ),
        (
            "patch-spec",
            Verb::PatchSpec { name: name("hello.web.web"), pod: Box::new(spec().pod), cause: String::new() },
        ),
        ("operate", Verb::Operate { name: name("hello.web.web"), act: Act::Restart, instance: 2 }),
        ("drift", Verb::Drift { drift: drift(), group: Some(name("hello.web.web")) }),
        ("evacuate", Verb::Evacuate { node: name("node1") }),
        ("create-dependency", Verb::CreateDependency { pod: Box::new(dependency()) }),
        ("update-dependency", Verb::UpdateDependency { pod: Box::new(dependency()) }),
        ("remove-dependency", Verb::RemoveDependency { name: name("svc.portal.portal"), force: true }),
        ("add-callback", Verb::AddCallback { url: "http://hagrid.example/callback".to_owned() }),
        ("remove-callback", Verb::RemoveCallback { url: "http://hagrid.example/callback".to_owned() }),
        ("configure", Verb::Configure { readonly: Some(true), maintenance: None }),
        ("run-engine", Verb::RunEngine { running: false }),
        ("guard", Verb::Guard { working: false }),
        ("set-constraint", Verb::SetConstraint { constraint: constraint() }),
        ("remove-constraint", Verb::RemoveConstraint { kind: "node".to_owned() }),
    ]
}

fn drift() -> Drift {
    Drift { from: name("node1"), to: Some(name("node2")), force: true, instance: Some(2) }
}
fn dependency() -> PodSpec {
    PodSpec { name: "svc.portal.portal".to_owned(), namespace: "svc".to_owned(), ..spec().pod }
}

pub(crate) fn command(verb: Verb) -> Command {
    Command {
        id: name("01JCN5XR9Q0000000000000000"),
        at: at(1),
        by: "10.0.0.9".to_owned(),
        verb,
        digest: None,
        credentials: None,
    }
}

pub(crate) fn decisions() -> Vec<(&'static str, Decision)> {
    vec![
        ("accepted", Decision::Accepted),
        ("group-unknown", Decision::Refused(Refusal::GroupUnknown)),
        ("group-exists", Decision::Refused(Refusal::GroupExists)),
        ("group-removing", Decision::Refused(Refusal::GroupRemoving)),
        ("locked", Decision::Refused(Refusal::Locked { operation: Operation::Scheduling })),
        ("instance-unknown", Decision::Refused(Refusal::InstanceUnknown { instance: 9, instances: 2 })),
        ("dependency-unknown", Decision::Refused(Refusal::DependencyUnknown)),
        ("dependency-exists", Decision::Refused(Refusal::DependencyExists)),
        ("callback-unknown", Decision::Refused(Refusal::CallbackUnknown)),
        ("constraint-unknown", Decision::Refused(Refusal::ConstraintUnknown)),
        ("read-only", Decision::Refused(Refusal::ReadOnly)),
        ("limit", Decision::Refused(Refusal::Limit { what: "callbacks".to_owned(), limit: 64 })),
        ("store-full", Decision::Refused(Refusal::StoreFull { used: 3 << 30, quota: 4 << 30 })),
        ("malformed", Decision::Refused(Refusal::Malformed { reason: "EOF".to_owned() })),
    ]
}

pub(crate) fn outcome(decision: Decision) -> Outcome {
    Outcome { id: name("01JCN5XR9Q0000000000000000"), at: at(2), decision, digest: None, principal: None }
}

pub(crate) fn orders() -> (Order, Order) {
    let run = Assignment { target: TargetState::Run, restart_policy: RestartPolicy::Always, ..Assignment::default() };
    let stop = Assignment { target: TargetState::Stop, starts_requested: 1, restarts_requested: 2, ..run.clone() };
    let (first, second) = (pod("hello.web.web.v0-i1-d0"), pod("hello.web.web.v0-i2-d1"));
    let specs = BTreeMap::from([(first.spec_key(), Arc::new(spec().pod))]);
    let before =
        Order { fence: fence(3), pods: BTreeMap::from([(first, run)]), specs: specs.clone(), ..Order::default() };
    let spared = BTreeSet::from([name("odd.web.web")]);
    let after = Order { fence: fence(4), pods: BTreeMap::from([(second, stop)]), specs, spared, ..Order::default() };
    (before, after)
}

pub(crate) fn order_replies() -> Vec<(&'static str, OrderReply)> {
    let (_, order) = orders();
    vec![
        ("accepted", OrderReply::Accepted { fence: order.fence, digest: order.digest() }),
        ("need-whole", OrderReply::NeedWhole { have: fence(2) }),
        ("stale", OrderReply::Stale { have: fence(9) }),
        ("conflict", OrderReply::Conflict { have: fence(4) }),
        ("failed", OrderReply::Failed { reason: "no space left on device".to_owned() }),
    ]
}

pub(crate) fn node_facts() -> NodeFacts {
    NodeFacts {
        address: "10.0.0.1:2375".to_owned(),
        ip: "10.0.0.1".to_owned(),
        cpu_millis: 32_000,
        cores: 4,
        memory: 8_000_000_000,
        labels: BTreeMap::from([("group".to_owned(), "default".to_owned())]),
        engine_version: "20.10.24".to_owned(),
        agent_version: "0.1.0".to_owned(),
        wire: 1,
        fetches_ahead: false,
    }
}

pub(crate) fn running() -> PodFacts {
    let container = ContainerFacts {
        id: "c680afaba34e".to_owned(),
        running: true,
        ip: "172.20.0.2".to_owned(),
        node_port: 32_768,
        started_at: at(3),
        spec_digest: "00000000deadbeef".to_owned(),
        ..Default::default()
    };
    PodFacts {
        state: RunState::Success,
        health: HealthState::Healthy,
        containers: vec![container],
        updated_at: at(3),
        ..Default::default()
    }
}

pub(crate) fn is_crash_looping() -> PodFacts {
    let container = ContainerFacts {
        id: "0badcafe".to_owned(),
        exit_code: 137,
        oom_killed: true,
        error: "oom".to_owned(),
        finished_at: at(4),
        last_exit: Some(ExitFacts { code: 137, out_of_memory: true, at: at(4), last_line: "too much".to_owned() }),
        ..Default::default()
    };
    PodFacts {
        state: RunState::Fail,
        leaving: true,
        containers: vec![container],
        restarts: 3,
        restarted_at: at(4),
        is_crash_looping: true,
        next_attempt: at(6),
        last_error: "oom".to_owned(),
        updated_at: at(5),
        ..Default::default()
    }
}

pub(crate) fn reports() -> (Report, Report) {
    let (_, order) = orders();
    let head = |sequence| ReportHead {
        stamp: Stamp { node: name("node1"), incarnation: "01JCN5".to_owned(), sequence, identity: "".into() },
        applied: order.fence,
        order_digest: order.digest(),
        engine: EngineState::Up,
        facts: node_facts(),
        progress: Default::default(),
    };
    let (first, second) = (pod("hello.web.web.v0-i1-d0"), pod("hello.web.web.v0-i2-d1"));
    let before = Report { head: head(7), pods: BTreeMap::from([(first, running())]) };
    let after = Report { head: head(8), pods: BTreeMap::from([(second, is_crash_looping())]) };
    (before, after)
}

pub(crate) fn heartbeat(report: &Report) -> ReportMessage {
    ReportMessage::Heartbeat(Heartbeat { stamp: report.head.stamp.clone(), digest: report.digest() })
}

pub(crate) fn queries() -> Vec<(&'static str, Query)> {
    vec![
        ("group", Query::Group { name: name("hello.web.web"), refresh: false }),
        ("group-refresh", Query::Group { name: name("hello.web.web"), refresh: true }),
        ("dependency", Query::Dependency { name: name("svc.portal.portal") }),
        ("groups", Query::Groups { namespace: Some("hello".to_owned()), after: Some(name("a.web.web")), limit: 100 }),
        ("nodes", Query::Nodes),
        ("cluster", Query::Cluster),
        ("operation", Query::Operation { id: name("01JCN5XR9Q0000000000000000") }),
        ("callbacks", Query::Callbacks),
        ("ports", Query::Ports),
        ("history", Query::History { name: name("hello.web.web"), instance: 1 }),
        ("engine", Query::Engine),
        ("constraints", Query::Constraints),
    ]
}

pub(crate) fn answers() -> Vec<(&'static str, Answer)> {
    let pod = PodView {
        id: pod("hello.web.web.v0-i1-d0"),
        node: Some(name("node1")),
        node_ip: "10.0.0.1".to_owned(),
        target: TargetState::Run,
        facts: running(),
        addresses: vec!["172.20.0.2".to_owned()],
    };
    let beside = PodView { id: self::pod("svc.portal.portal-node1-hello.v0-i0-d0"), ..pod.clone() };
    let dependency = DependencyView { spec: dependency(), pods: BTreeMap::from([("hello".to_owned(), vec![beside])]) };
    let group = GroupView {
        spec: spec(),
        state: RunState::Success,
        health: HealthState::Healthy,
        last_error: String::new(),
        updated_at: at(6),
        operation: Some(Operation::Deploying),
        pods: vec![pod],
    };
    let line = GroupLine {
        name: name("hello.web.web"),
        namespace: "hello".to_owned(),
        version: 0,
        wanted: 2,
        running: 1,
        state: RunState::Pending,
        operation: Some(Operation::Removing),
        last_error: "no node fits".to_owned(),
        ready: Some(1),
        overdue: vec![Overdue { instance: 2, why: "unhealthy for 46 s".to_owned() }],
        images: vec!["nginx:1.27".to_owned()],
        created_at: at(1),
    };
    let node = NodeView {
        name: name("node1"),
        liveness: Liveness::Alive,
        engine: EngineState::Up,
        facts: node_facts(),
        used_cpu_millis: 500,
        used_memory: 33_554_432,
        containers: 1,
        instances: 1,
        cordon: None,
        pending: false,
    };
    let cluster = ClusterView {
        scheduler: "s1".to_owned(),
        term: Some(Term(812)),
        groups: 1,
        instances: 2,
        running: 1,
        nodes_alive: 1,
        nodes: 1,
        foreign_store: 1,
        restored: Some(name("deployctl-1")),
        quarantined: vec![QuarantinedView {
            kind: QuarantinedKind::Group,
            name: "hello.web.web".to_owned(),
            reason: "reconciling it panicked: overflow".to_owned(),
            since: at(7),
        }],
        warnings: Vec::new(),
    };
    vec![
        ("group", Answer::Group(Some(Box::new(group)))),
        ("group-unknown", Answer::Group(None)),
        ("dependency", Answer::Dependency(Some(Box::new(dependency)))),
        ("groups", Answer::Groups(vec![line])),
        ("nodes", Answer::Nodes(vec![node])),
        ("cluster", Answer::Cluster(cluster)),
        ("operation", Answer::Operation(Some(outcome(Decision::Accepted)))),
        ("callbacks", Answer::Callbacks(vec!["http://hagrid.example/callback".to_owned()])),
        (
            "ports",
            Answer::Ports(vec![PortClaim {
                port: stream_port(),
                namespace: "hello".to_owned(),
                group: name("hello.web.web"),
            }]),
        ),
        ("history", Answer::History(vec![event(Happened::Start, 1), event(Happened::Stop, 2)])),
        ("engine", Answer::Engine(engine_record())),
        ("constraints", Answer::Constraints(vec![constraint()])),
    ]
}

pub(crate) fn inspect_request() -> InspectRequest {
    InspectRequest { pods: vec![pod("hello.web.web.v0-i1-d0")] }
}

pub(crate) fn inspect_reply() -> InspectReply {
    let detail = ContainerDetail {
        id: "c680afaba34e".to_owned(),
        name: "/hello.web.web.v0-i1-d0".to_owned(),
        ..Default::default()
    };
    InspectReply { pods: BTreeMap::from([(pod("hello.web.web.v0-i1-d0"), vec![detail])]) }
}

pub(crate) fn notice() -> Notice {
    let body = NoticeBody {
        level: "Error".to_owned(),
        namespace: "hello".to_owned(),
        pod_name: "hello.web.web".to_owned(),
        instance_no: 2,
        timestamp: at(7),
        message: Incident::Down.text().into_owned(),
    };
    Notice { callback: "http://hagrid.example/callback".to_owned(), is_former: false, body }
}

pub(crate) fn dead_letter() -> DeadLetter {
    DeadLetter::new("deployd.example", "EOF".to_owned(), b"{", at(8))
}

pub(crate) fn group_record() -> GroupRecord {
    let operation = Some(OperationRecord::new(Operation::Deploying, at(9)));
    GroupRecord { spec: spec(), operation, updated_at: at(9), ..Default::default() }
}

/// A group during an upgrade, with everything that an operation may store.
pub(crate) fn busy_group_record() -> GroupRecord {
    let operation = Some(OperationRecord { kind: Operation::Restarting, since: at(9), next: 2, last: 3 });
    GroupRecord {
        operation,
        former: BTreeMap::from([(0, spec().pod)]),
        proven: Some(0),
        equals: BTreeSet::from([0]),
        drifts: vec![drift()],
        last_error: "No resources available to scheduler container".to_owned(),
        ..group_record()
    }
}

pub(crate) fn dependency_record() -> DependencyRecord {
    DependencyRecord {
        spec: dependency(),
        former: BTreeMap::from([(0, dependency())]),
        delete_when_unused: true,
        removing_since: Some(at(9)),
    }
}
pub(crate) fn pairs_record() -> PairsRecord {
    let pair = Pair { node: name("node1"), namespace: "hello".to_owned(), version: 1, since: at(8), idle_since: at(9) };
    PairsRecord { pairs: vec![pair] }
}
pub(crate) fn cluster_event() -> contract::event::Event {
    contract::event::Event {
        at: at(9),
        kind: contract::event::Kind::Unplaceable,
        group: Some(name("hello.web.web")),
        instance: 2,
        node: Some(name("node1")),
        message: "no node fits: node1: memory 1 MiB short".to_owned(),
        namespace: None,
        reasons: BTreeMap::from([(name("node1"), vec!["memory 1 MiB short".to_owned()])]),
    }
}

pub(crate) fn placement_record() -> PlacementRecord {
    let placed = Instance {
        node: Some(name("node1")),
        leaves: Some(name("node2")),
        since: at(9),
        starts_requested: 1,
        restarts_requested: 2,
        addresses: vec!["172.20.0.2".to_owned()],
        ..Default::default()
    };
    let waiting = Instance {
        drift: 2,
        failures: 2,
        retry_at: at(10),
        target: TargetState::Stop,
        why: "no node fits: node1: memory 1 MiB short".to_owned(),
        ..Default::default()
    };
    PlacementRecord { instances: vec![placed, waiting] }
}

pub(crate) fn braked_order() -> Order {
    let (_, order) = orders();
    Order {
        spared: BTreeSet::new(),
        switches: Switches { hold_restarts: true, hold_missing: true, paused: true },
        ..order
    }
}
pub(crate) fn engine_record() -> EngineRecord {
    EngineRecord { running: false, guarding: false, readonly: true, maintenance: true }
}
pub(crate) fn constraint() -> Constraint {
    Constraint { kind: "node".to_owned(), equal: false, value: "node1".to_owned(), soft: true }
}
pub(crate) fn constraints_record() -> ConstraintsRecord {
    ConstraintsRecord { constraints: BTreeMap::from([("node".to_owned(), constraint())]) }
}
pub(crate) fn node_record() -> NodeRecord {
    NodeRecord { facts: node_facts(), lost: true, identity: String::new(), engine_reported_at: Timestamp::NEVER }
}
pub(crate) fn cursor() -> Cursor {
    Cursor { stream: "2026-11-16T02:03:50.61Z".to_owned(), sequence: 42, stored_at: None }
}
pub(crate) fn callbacks() -> CallbacksRecord {
    CallbacksRecord { urls: BTreeSet::from(["http://hagrid.example/callback".to_owned()]) }
}

pub(crate) fn api_depends() -> api::NamespacePodsWithSpec {
    let pod = api::Pod { instance_no: 0, ..api_group().pods.remove(0) };
    api::NamespacePodsWithSpec { spec: dependency(), pods: BTreeMap::from([("hello".to_owned(), vec![pod])]) }
}
pub(crate) fn api_group() -> api::PodGroupWithSpec {
    let container = api::Container { id: "c680afaba34e".to_owned(), protocol: "tcp".to_owned(), ..Default::default() };
    let pod = api::Pod { instance_no: 1, containers: vec![container], state: RunState::Success, ..Default::default() };
    api::PodGroupWithSpec {
        spec: spec(),
        pods: vec![pod],
        state: RunState::Success,
        updated_at: at(6),
        ..Default::default()
    }
}
pub(crate) fn api_node() -> api::Node {
    api::Node {
        name: "node1".to_owned(),
        cpus: 4,
        memory: 8_000_000_000,
        state: "alive".to_owned(),
        ..Default::default()
    }
}
pub(crate) fn api_accepted() -> api::Accepted {
    api::Accepted {
        check_url: "/api/podgroups?name=hello.web.web".to_owned(),
        message: "PodGroupSpec added into the orc engine.".to_owned(),
        operation: "01JCN5XR9Q0000000000000000".to_owned(),
        queued: true,
    }
}
pub(crate) fn api_failure() -> api::Failure {
    api::Failure { message: "PodGroup not existed".to_owned(), data: "PodGroup not existed".to_owned() }
}
pub(crate) fn api_list() -> api::PodGroupList {
    let line = api::PodGroupLine {
        name: "hello.web.web".to_owned(),
        namespace: "hello".to_owned(),
        num_instances: 2,
        running: 1,
        operation: Operation::Removing.word().to_owned(),
        ready: Some(1),
        overdue: vec![Overdue { instance: 2, why: "unhealthy for 46 s".to_owned() }],
        images: vec!["nginx:1.27".to_owned()],
        created_at: at(1),
        ..Default::default()
    };
    api::PodGroupList { pod_groups: vec![line], next: "hello.web.web".to_owned() }
}
pub(crate) fn api_operation() -> api::OperationStatus {
    api::OperationStatus {
        operation: "01JCN5XR9Q0000000000000000".to_owned(),
        state: "refused".to_owned(),
        message: Refusal::GroupExists.to_string(),
        decided_at: at(2),
    }
}
pub(crate) fn api_cluster() -> api::ClusterStatus {
    api::ClusterStatus {
        apiserver: "a1".to_owned(),
        leader: "s1".to_owned(),
        term: 812,
        groups: 1,
        nodes: 3,
        ..Default::default()
    }
}

fn stream_port() -> StreamPort {
    StreamPort { srcport: 9001, dstport: 8080, proto: "tcp".to_owned() }
}
fn event(happened: Happened, second: i64) -> ContainerEvent {
    ContainerEvent { at: at(second), happened, container: 0, from: "registry/hello:1 node:node1".to_owned() }
}

pub(crate) fn blocked_group_record() -> GroupRecord {
    GroupRecord { operation: None, taken_ports: vec![9001, 9002], ..group_record() }
}
pub(crate) fn history_record() -> HistoryRecord {
    let mut ring = Ring::default();
    ring.insert(event(Happened::Start, 1));
    ring.insert(event(Happened::Stop, 2));
    HistoryRecord { instances: BTreeMap::from([(1, ring)]), ..HistoryRecord::default() }
}
/// A page with an instance whose condition was reported.
pub(crate) fn reported_history_record() -> HistoryRecord {
    let reported = BTreeMap::from([(Condition::CrashLooping, at(3)), (Condition::Unhealthy, at(4))]);
    HistoryRecord { reported: BTreeMap::from([(1, reported)]), ..history_record() }
}
pub(crate) fn api_ports() -> Vec<api::StreamProc> {
    vec![api::StreamProc {
        srcport: 9001,
        dstport: 8080,
        proto: "tcp".to_owned(),
        namespace: "hello".to_owned(),
        proc_name: "hello.web.web".to_owned(),
    }]
}
pub(crate) fn api_history() -> Vec<api::StatusMessage> {
    vec![api::StatusMessage {
        status: "start".to_owned(),
        from: "registry/hello:1 node:node1".to_owned(),
        time: 1_794_794_630,
        action: "start".to_owned(),
    }]
}
