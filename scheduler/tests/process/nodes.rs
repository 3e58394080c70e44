//! Every scheduler receives the reports of a node; the leader sends it orders.

use std::time::Duration;

use contract::name::NodeName;
use contract::order::OrderMessage;
use contract::query::{Answer, Query, Reply};
use contract::report::ReportMessage;
use contract::subjects;
use testkit::node::FakeNode;
use tokio::time::Instant;

use crate::cluster::{Cluster, LIMIT};

async fn wait_for_node(cluster: &Cluster, subject: &str) {
    let started = Instant::now();
    loop {
        let reply: Option<Reply> = cluster.bus.request(subject, &Query::Nodes, Duration::from_secs(2)).await.ok();
        if let Some(Reply { answer: Answer::Nodes(nodes), .. }) = reply
            && nodes.len() == 1
        {
            return;
        }
        assert!(started.elapsed() < LIMIT, "the node is not known on {subject}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_node_that_reports_is_known_to_leader_and_standby_and_gets_an_order() {
    let cluster = Cluster::start().await;
    let _first = cluster.scheduler("first").await;
    let (_, term) = cluster.leader().await;
    let _second = cluster.scheduler("second").await;
    let node: NodeName = "node.one".parse().unwrap();
    let mut orders = cluster.bus.subscribe(&subjects::order(&node)).await.unwrap();
    let mut agent = FakeNode::default();
    cluster.bus.publish(&subjects::report(&node), &ReportMessage::Whole(agent.whole(&node))).await.unwrap();
    wait_for_node(&cluster, subjects::QUERY_LEADER).await;
    wait_for_node(&cluster, subjects::QUERY_STANDBY).await;
    let order = tokio::time::timeout(LIMIT, orders.next()).await.expect("an order in time").expect("open");
    let message: OrderMessage = order.decode().unwrap();
    assert_eq!(message.fence().term.0, term);
    cluster.bus.answer(&order.reply.unwrap(), &agent.apply(&message)).await.unwrap();
}
