//! One name, one agent: whoever comes second says who has the name, and ends.

use std::path::Path;
use std::time::Duration;

use agent::name_claim::EXIT_CODE;
use contract::order::{OrderMessage, OrderReply};
use contract::report::{ReportMessage, Stamp};
use contract::subjects;
use fabric::local::{NatsServer, free_port};
use fabric::nats::Subscription;

use super::docker::{Cluster, in_cluster};
use super::node::{Node, PATIENCE, Process, order, words};

/// Polls until there is an answer; the limit only ends a test that fails.
async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(tokio::time::Instant::now() < until, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn stamp(reports: &mut Subscription) -> Stamp {
    let message = tokio::time::timeout(PATIENCE, reports.next()).await.expect("in time").expect("a report");
    message.decode::<ReportMessage>().expect("readable").stamp().clone()
}

async fn nats(home: &Path, port: u16) -> NatsServer {
    NatsServer::start(&home.join("nats"), port).await.expect("a nats-server")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_under_a_living_name_names_the_first_and_ends() {
    in_cluster(async |cluster: &Cluster| {
        let (home, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let nats = nats(home.path(), 0).await;
        let mut node = Node::of_process(&nats).await;
        let first = Process::spawn(&words(cluster, &nats, home.path()));
        let identity = node.until(|_| true).await.head.stamp.identity.clone();
        assert!(!identity.is_empty());

        let mut second = Process::spawn_heard(&words(cluster, &nats, other.path()));
        let (code, said) = eventually("the second agent ends", || second.ended()).await;
        assert_eq!(code, Some(i32::from(EXIT_CODE)), "{said}");
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        for part in ["node n1 is taken", host.trim(), "127.0.0.1", "since 2", "--name"] {
            assert!(said.contains(part), "{part:?} is missing in {said}");
        }
        // The first one was not disturbed, and obeys orders that are meant for it.
        let meant = |agent: &str| OrderMessage::Whole(order(cluster, 1, 0)).meant_for(agent.to_owned());
        let ask = async |message: OrderMessage, patience: Duration| {
            node.bus.request::<_, OrderReply>(&subjects::order(&node.name), &message, patience).await
        };
        assert!(ask(meant("somebody-else"), Duration::from_millis(500)).await.is_err(), "it is not for this one");
        assert!(matches!(ask(meant(&identity), PATIENCE).await, Ok(OrderReply::Accepted { .. })));

        // The same directory is the same agent, at once; another one may have the name when it is free.
        drop(first);
        let again = Process::spawn(&words(cluster, &nats, home.path()));
        let mut reports = node.bus.subscribe(&subjects::report(&node.name)).await.expect("subscribes");
        assert_eq!(stamp(&mut reports).await.identity, identity);
        drop(again);
        let _heir = Process::spawn(&words(cluster, &nats, other.path()));
        let mut reports = node.bus.subscribe(&subjects::report(&node.name)).await.expect("subscribes");
        assert_ne!(stamp(&mut reports).await.identity, identity);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_start_at_once_one_stays() {
    in_cluster(async |cluster: &Cluster| {
        let (home, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let nats = nats(home.path(), 0).await;
        let all = [home.path(), other.path()].map(|home| words(cluster, &nats, home));
        let mut agents = all.map(|words| Process::spawn_heard(&words));
        let (code, said) = eventually("one of them ends", || agents.iter_mut().find_map(Process::ended)).await;
        assert_eq!(code, Some(i32::from(EXIT_CODE)), "{said}");
        let mut node = Node::of_process(&nats).await;
        node.until(|_| true).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_to_the_bus_asks_again() {
    in_cluster(async |cluster: &Cluster| {
        let (home, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let port = free_port();
        let server = nats(home.path(), port).await;
        let mut node = Node::of_process(&server).await;
        let (first, second) = (words(cluster, &server, home.path()), words(cluster, &server, other.path()));
        let mut agents = vec![Process::spawn_heard(&first)];
        node.until(|_| true).await;
        drop(server);
        agents.push(Process::spawn_heard(&second));
        let _back = nats(home.path(), port).await;
        let (code, said) = eventually("one of them ends", || agents.iter_mut().find_map(Process::ended)).await;
        assert_eq!(code, Some(i32::from(EXIT_CODE)), "{said}");
        let mut reports = node.bus.subscribe(&subjects::report(&node.name)).await.expect("subscribes");
        let one = stamp(&mut reports).await.identity;
        for _ in 0..5 {
            assert_eq!(stamp(&mut reports).await.identity, one, "one agent speaks");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_on_one_directory_are_told_so() {
    in_cluster(async |cluster: &Cluster| {
        let home = tempfile::tempdir().expect("a directory");
        let nats = nats(home.path(), 0).await;
        let mut node = Node::of_process(&nats).await;
        let _first = Process::spawn(&words(cluster, &nats, home.path()));
        node.until(|_| true).await;
        let mut second = Process::spawn_heard(&words(cluster, &nats, home.path()));
        let (code, said) = eventually("the second agent ends", || second.ended()).await;
        assert!(code == Some(1) && said.contains("another agent uses the state directory"), "{code:?} {said}");
    })
    .await;
}
