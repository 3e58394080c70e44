//! Health checks of real containers.

use std::sync::Arc;
use std::time::Duration;

use agent::core::io::Input;
use agent::shell::prober::{CheckTarget, Prober};
use contract::check::{CheckKind, Probe};
use contract::time::Timestamp;
use planner::check::CheckResult;
use tokio::sync::mpsc;

use super::docker::{Cluster, in_cluster};

const WITHIN: Duration = Duration::from_secs(5);

fn http(port: u16) -> Probe {
    Probe::Http { port, path: "/healthz".to_owned() }
}

fn command(words: &[&str]) -> Probe {
    Probe::Command(words.iter().map(|word| (*word).to_owned()).collect())
}

#[tokio::test]
async fn http_tcp_and_command_checks_pass_and_fail_as_the_container_answers() {
    in_cluster(async |cluster: &Cluster| {
        let engine = Arc::new(cluster.engine("n1"));
        let made = engine.create(&cluster.plan(&cluster.spec(1), 0)).await.expect("creates").expect("is there");
        let (inputs, mut results) = mpsc::channel(1);
        let prober = Prober::new(Arc::clone(&engine), inputs);
        let mut check = async |ip: &str, probe: Probe| {
            let (kind, started_at) = (CheckKind::Readiness, Timestamp::from_millis(1));
            let target = CheckTarget { id: made.id.clone(), started_at, kind, ip: ip.to_owned() };
            prober.check(target, probe, WITHIN);
            match results.recv().await.expect("a result") {
                Input::Checked { id, result, .. } if id == made.id => result,
                other => panic!("no result of this container: {other:?}"),
            }
        };
        // The server of the container listens soon after its start.
        let deadline = std::time::Instant::now() + WITHIN;
        while check(&made.ip, Probe::Tcp(8080)).await != CheckResult::Passed {
            assert!(std::time::Instant::now() < deadline, "the container does not listen");
        }
        assert_eq!(check(&made.ip, http(8080)).await, CheckResult::Passed);
        assert_eq!(check(&made.ip, command(&["/demo", "check"])).await, CheckResult::Passed);

        let failed = async |result: CheckResult, expected: &str| match result {
            CheckResult::Failed(reason) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{other:?}"),
        };
        failed(check(&made.ip, http(81)).await, "GET :81/healthz: Connection refused").await;
        failed(check(&made.ip, Probe::Tcp(81)).await, "connect to port 81: Connection refused").await;
        // A second server cannot listen on the port.
        failed(check(&made.ip, command(&["/demo"])).await, "exit code 1: ").await;
        failed(check("", http(8080)).await, "the container has no address").await;
    })
    .await;
}

#[tokio::test]
async fn a_check_without_an_answer_fails_at_its_deadline_and_a_command_is_not_started_twice() {
    in_cluster(async |cluster: &Cluster| {
        let engine = Arc::new(cluster.engine("n1"));
        let made = engine.create(&cluster.plan(&cluster.spec(1), 0)).await.expect("creates").expect("is there");
        let (inputs, mut results) = mpsc::channel(1);
        let prober = Prober::new(engine, inputs);
        // A server on another port runs until the container ends.
        let endless = command(&["/demo", "serve", "8081"]);
        let mut reasons = Vec::new();
        for _ in 0..2 {
            let (id, ip) = (made.id.clone(), made.ip.clone());
            let target = CheckTarget { id, started_at: made.started_at, kind: CheckKind::Liveness, ip };
            prober.check(target, endless.clone(), Duration::from_secs(1));
            match results.recv().await.expect("a result") {
                Input::Checked { result: CheckResult::Failed(reason), .. } => reasons.push(reason),
                other => panic!("{other:?}"),
            }
        }
        let expected = ["the command has not ended within 1 s", "the command of the last check still runs"];
        assert_eq!(reasons, expected);
    })
    .await;
}
