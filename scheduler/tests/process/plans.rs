//! Many requests for plans do not delay decisions and other answers.

use std::time::Duration;

use contract::command::Decision;
use contract::query::{Answer, Query, Reply};
use contract::rollout::{Amount, Strategy, StrategyType, Topology, UnitType};
use contract::spec::PodGroupSpec;
use contract::subjects;
use fabric::nats::RequestError;
use futures_util::future::join_all;
use testkit::samples::group_spec;
use tokio::time::Instant;

use crate::cluster::{Cluster, add_callback, outcome};

/// The most expensive plan that a small request can cause.
fn expensive_plan() -> Query {
    let strategy = Strategy { kind: StrategyType::Beta, batch_size: Some(Amount::Count(1)), ..Strategy::default() };
    let values = (0..64).map(|unit| format!("u{unit}")).collect();
    let spec = PodGroupSpec {
        strategy: Some(strategy),
        topology: Some(Topology { unit_type: UnitType::Zone, values, ..Topology::default() }),
        ..group_spec("web", 1_000)
    };
    Query::Plan { spec: Box::new(spec), within_millis: Some(10_000) }
}

#[tokio::test]
async fn commands_and_reads_are_answered_within_a_second_while_many_plans_are_requested() {
    let cluster = Cluster::start().await;
    let _scheduler = cluster.scheduler("one").await;
    cluster.leader().await;
    let query = expensive_plan();
    let requests = (0..40).map(|_| cluster.bus.request(subjects::QUERY_LEADER, &query, Duration::from_secs(10)));
    let flood = async { join_all(requests).await };
    let watch = async {
        let mut slowest = Duration::ZERO;
        for number in 0..10 {
            let started = Instant::now();
            let mut reply = cluster.command(&format!("c{number}"), add_callback(number)).await;
            assert!(matches!(outcome(&mut reply).await.decision, Decision::Accepted), "command {number}");
            assert!(cluster.ask_leader(&Query::Cluster).await.is_some(), "read {number}");
            slowest = slowest.max(started.elapsed());
        }
        slowest
    };
    let (answers, slowest): (Vec<Result<Reply, RequestError>>, Duration) = tokio::join!(flood, watch);
    // A plan of this build takes longer than a second, and there are forty.
    assert!(slowest < Duration::from_secs(1), "a command and a read took {slowest:?}");
    let planned = |reply: &&Reply| matches!(reply.answer, Answer::Plan(Ok(_)));
    let answered: Vec<&Reply> = answers.iter().flatten().collect();
    assert!(answered.iter().copied().any(|reply| planned(&reply)), "no plan was computed: {:?}", answered.first());
    let busy = answered.iter().filter(|reply| reply.retry_after.is_some()).count();
    assert!(busy >= 20, "one plan is computed and 16 wait, but only {busy} of 40 were refused");
}
