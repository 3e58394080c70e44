//! The audit log of real schedulers over etcd: whole after a leader is killed, read page by page.

use contract::access::audit::{AuditHead, AuditPage, AuditRecord, Broken, Chain, DROPPED_AT_ONCE, Verifier};
use contract::command::{Command, Decision, Refusal};
use contract::keys;
use contract::query::{Answer, Query, Reply};
use contract::time::Timestamp;
use fabric::etcd::Op;
use tokio::time::Instant;

use crate::cluster::{Cluster, LIMIT, add_callback, outcome};

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

fn record() -> AuditRecord {
    serde_json::from_str(r#"{"Number":0,"At":"2026-01-01T00:00:00Z","Verb":"Guard","Command":"c"}"#).unwrap()
}

#[tokio::test]
async fn a_record_that_is_missing_or_unreadable_does_not_stop_the_dropping_of_old_ones() {
    let cluster = Cluster::start().await;
    let mut head = AuditHead::default();
    let put = |key: String, value: Vec<u8>| Op::Put { key, value, lease: None };
    let records: Vec<AuditRecord> = (0..DROPPED_AT_ONCE).map(|_| head.append(record())).collect();
    let kept = &records[..records.len() - 2];
    let mut stored: Vec<Op> =
        kept.iter().map(|it| put(Chain::Commands.key(it.number), serde_json::to_vec(it).unwrap())).collect();
    // The record before the last of the portion is missing, the last one cannot be read.
    stored.push(put(Chain::Commands.key(DROPPED_AT_ONCE), b"?".to_vec()));
    head.last = Chain::Commands.most_records() + DROPPED_AT_ONCE;
    stored.push(put(keys::AUDIT_HEAD.to_owned(), serde_json::to_vec(&head).unwrap()));
    cluster.store.commit(None, &stored).await.unwrap();
    let _scheduler = cluster.scheduler("only").await;
    cluster.leader().await;
    let started = Instant::now();
    let read = loop {
        let read = page(&cluster, 0, 10).await;
        if read.head.dropped > 0 {
            break read;
        }
        assert!(started.elapsed() < 2 * LIMIT, "nothing is dropped: {}", cluster.log("only"));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let last = kept.last().unwrap();
    assert_eq!((read.head.dropped, &read.head.dropped_hash), (last.number, &last.hash));
    assert!(cluster.log("only").contains("missing or cannot be read"), "{}", cluster.log("only"));
    outcome(&mut cluster.command("c1", add_callback(0)).await).await;
    let read = page(&cluster, 0, 10).await;
    let missing = Broken::Missing { expected: last.number + 1, found: read.records[0].number };
    assert_eq!(Verifier::new(&read.head).take(&read.records[0]), Err(missing), "verify tells it");
}
