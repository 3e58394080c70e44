//! How much etcd grows by a change, and what the leader refuses when etcd is nearly full.

use contract::command::{Decision, Refusal, Verb};
use contract::keys;
use contract::layout;
use contract::name::GroupName;
use contract::rollout::{Strategy, StrategyType};
use contract::spec::{ContainerSpec, PodGroupSpec, PodSpec};
use tokio::time::Instant;

use crate::cluster::{Cluster, LIMIT, outcome};

const CHANGES: u32 = 300;

fn name() -> GroupName {
    "growth.web.web".parse().unwrap()
}

fn pod(change: u32) -> PodSpec {
    let container = ContainerSpec {
        image: "registry.example/growth:1.2.3".to_owned(),
        env: vec!["MODE=production".to_owned()],
        cpu_limit: 1,
        memory_limit: 64 << 20,
        ..ContainerSpec::default()
    };
    PodSpec {
        name: name().to_string(),
        namespace: "growth".to_owned(),
        labels: [("change".to_owned(), change.to_string())].into(),
        containers: vec![container],
        ..PodSpec::default()
    }
}

fn create() -> Verb {
    let spec = PodGroupSpec {
        name: name().to_string(),
        namespace: "growth".to_owned(),
        pod: pod(0),
        // A group without a strategy accepts no other spec while no node has capacity, and this cluster has no node.
        strategy: Some(Strategy { kind: StrategyType::RollingUpdate, ..Strategy::default() }),
        ..PodGroupSpec::default()
    };
    Verb::CreateGroup { spec: Box::new(spec) }
}

fn patch(change: u32) -> Verb {
    Verb::PatchSpec { name: name(), pod: Box::new(pod(change)), cause: String::new() }
}

async fn decision(cluster: &Cluster, id: &str, verb: Verb) -> Decision {
    outcome(&mut cluster.command(id, verb).await).await.decision
}

#[tokio::test]
async fn a_label_change_grows_etcd_by_less_than_4_kb() {
    let cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("only").await;
    assert_eq!(decision(&cluster, "create", create()).await, Decision::Accepted);
    // From here on the number of stored revisions does not grow.
    for change in 1..=20 {
        assert_eq!(decision(&cluster, &format!("w{change}"), patch(change)).await, Decision::Accepted);
    }
    let before = cluster.store.size().await.unwrap();
    for change in 0..CHANGES {
        assert_eq!(decision(&cluster, &format!("c{change}"), patch(1000 + change)).await, Decision::Accepted);
    }
    let after = cluster.store.size().await.unwrap();
    let stored = cluster.store.list(keys::STATE).await.unwrap().pairs.into_iter().collect();
    let record = layout::read_group(&name(), &stored).unwrap().unwrap();
    assert_eq!(record.spec.version, 20 + CHANGES, "every change took effect");
    let grown = after.in_use.saturating_sub(before.in_use) / u64::from(CHANGES);
    println!("{CHANGES} label changes: etcd grew by {grown} bytes a change, from {before:?} to {after:?}");
    assert!(grown > 0, "etcd did not grow: {before:?} {after:?}");
    assert!(grown < 4096, "{grown} bytes a change");
}

#[tokio::test]
async fn with_a_nearly_full_etcd_the_leader_refuses_growth_and_accepts_removals() {
    let cluster = Cluster::start().await;
    let first = cluster.scheduler("first").await;
    assert_eq!(decision(&cluster, "create", create()).await, Decision::Accepted);
    drop(first);
    // Any database is larger than this quota.
    let second = cluster.scheduler_with("second", &["--etcd-quota-bytes", "1000"]).await;
    cluster.leader().await;
    let (started, mut number) = (Instant::now(), 0);
    // The leader samples the size shortly after its start.
    let refused = loop {
        number += 1;
        let spec = PodGroupSpec { name: format!("other{number}"), pod: pod(0), ..PodGroupSpec::default() };
        let spec = PodGroupSpec { pod: PodSpec { name: spec.name.clone(), ..spec.pod }, ..spec };
        match decision(&cluster, &format!("more{number}"), Verb::CreateGroup { spec: Box::new(spec) }).await {
            Decision::Accepted => assert!(started.elapsed() < LIMIT, "every create was accepted"),
            refused @ Decision::Refused(_) => break refused,
        }
    };
    assert!(matches!(refused, Decision::Refused(Refusal::StoreFull { quota: 1000, .. })), "{refused:?}");
    let (_, metrics) = second.get("/metrics").await.unwrap();
    assert!(metrics.contains("deployd_scheduler_store_quota_bytes 1000"), "{metrics}");
    let remove = Verb::RemoveGroup { name: name(), removal: Default::default() };
    assert_eq!(decision(&cluster, "remove", remove).await, Decision::Accepted);
}
