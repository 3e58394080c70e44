//! The audit log of real schedulers over etcd: whole after a leader is killed, read page by page.

use contract::access::audit::{AuditPage, Verifier};
use contract::command::{Command, Decision, Refusal};
use contract::query::{Answer, Query, Reply};
use contract::time::Timestamp;

use crate::cluster::{Cluster, add_callback, outcome};

async fn page(cluster: &Cluster, after: u64, limit: u32) -> AuditPage {
    match cluster.ask_leader(&Query::Audit { after, limit, refused: false }).await.expect("an answer") {
        Reply { answer: Answer::Audit(page), .. } => *page.expect("a page"),
        other => panic!("not a page: {other:?}"),
    }
}

#[tokio::test]
async fn every_command_is_audited_once_also_when_the_leader_is_killed() {
    let cluster = Cluster::start().await;
    let first = cluster.scheduler("first").await;
    for number in 0..5 {
        outcome(&mut cluster.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    let (at, by) = (Timestamp::from_millis(1), "mallory".to_owned());
    let unproven =
        Command { id: "unproven".parse().unwrap(), at, by, verb: add_callback(50), digest: None, credentials: None };
    let refused = outcome(&mut cluster.send_raw("unproven", &unproven).await).await;
    assert!(matches!(refused.decision, Decision::Refused(Refusal::Unauthenticated { .. })), "{refused:?}");
    drop(first); // kill -9
    let _second = cluster.scheduler("second").await;
    for number in 5..10 {
        outcome(&mut cluster.command(&format!("c{number}"), add_callback(number)).await).await;
    }
    let head = page(&cluster, 0, 1).await.head;
    let (mut verifier, mut after, mut commands) = (Verifier::new(&head), 0, Vec::new());
    loop {
        let read = page(&cluster, after, 4).await;
        assert!(read.records.len() <= 4);
        read.records.iter().for_each(|record| verifier.take(record).expect("a whole log"));
        commands.extend(read.records.iter().map(|record| record.command.to_string()));
        let Some(next) = read.next else { break };
        after = next;
    }
    assert_eq!(verifier.end(&head), Ok(11));
    assert_eq!(commands, ["c0", "c1", "c2", "c3", "c4", "unproven", "c5", "c6", "c7", "c8", "c9"]);
}
