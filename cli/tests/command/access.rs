//! `deployctl auth` and `deployctl audit`.

use contract::access::audit::{AuditHead, AuditPage, AuditRecord, Chain};
use contract::access::{Right, Role};
use fabric::signing::OrderSigner;
use serde_json::{Value, json};

use crate::login::ACCESS;
use crate::server::Server;

const ENFORCE: &str = "PATCH /api/access";
const AUDIT: &str = "GET /api/audit";

fn open(anonymous: &[&str]) -> Value {
    json!({"Enforced": false, "Principal": "anonymous", "Bindings": ["admin@*"], "Anonymous": anonymous})
}

fn token(binding: &str, expires: &str) -> Value {
    json!({"Id": "0101010101010101", "Principal": "alice", "Bindings": [binding], "By": "root",
        "Created": "2026-01-01T00:00:00Z", "Expires": expires})
}

#[tokio::test]
async fn the_matrix_is_that_of_the_contract_and_needs_no_cluster() {
    let server = Server::start(&[]).await;
    let shown = server.run(&["auth", "matrix"]).await.out;
    for right in Right::ALL {
        let row = shown.lines().find(|line| line.split_whitespace().next() == Some(right.word())).expect("a row");
        let marks: Vec<bool> = row.split_whitespace().skip(1).take(Role::ALL.len()).map(|mark| mark == "x").collect();
        assert_eq!(marks, Role::ALL.map(|role| role.has(right)), "{row}");
    }
    let routes: Value =
        serde_json::from_str(&server.run(&["auth", "matrix", "--routes", "-o", "json"]).await.out).expect("JSON");
    assert_eq!(routes.as_array().map(Vec::len), Some(contract::access::routes::ROUTES.len()));
    let row = |path: &str| routes.as_array().and_then(|rows| rows.iter().find(|row| row["Path"] == path)).cloned();
    assert_eq!(row("/api/tokens").expect("a route")["Roles"], json!(["admin"]));
    let table = server.run(&["auth", "matrix", "--routes"]).await.out;
    assert!(table.contains("/metrics") && table.contains("MONITOR"), "{table}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn whoami_and_status_show_principal_bindings_and_clients_without_a_token() {
    let server = Server::start(&[(ACCESS, 200, open(&["deployer@* from 10.1.0.0/16"]))]).await;
    let ended = server.run(&["auth", "whoami"]).await;
    assert!(ended.out.starts_with("anonymous (admin@*) at http://127.0.0.1:"), "{ended:?}");
    let ended = server.run(&["auth", "status"]).await;
    assert!(ended.out.contains("the cluster is open") && ended.out.contains("deployctl auth enforce"), "{ended:?}");
    assert!(ended.out.contains("deployer@* from 10.1.0.0/16"), "{ended:?}");
    let older = Server::start(&[]).await.run(&["auth", "status"]).await;
    assert!(older.code == Some(1) && older.err.contains("has no access control"), "{older:?}");
}

#[tokio::test]
async fn enforcing_says_which_clients_remain_and_asks() {
    let answers = [
        (ACCESS, 200, open(&["operator@* from 10.1.0.0/16"])),
        ("GET /api/tokens", 200, json!([token("admin@*", "2126-01-01T00:00:00Z")])),
        (ENFORCE, 202, json!({"message": "ok"})),
    ];
    let server = Server::start(&answers).await;
    let ended = server.run(&["auth", "enforce"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("pass --yes"), "{ended:?}");
    assert!(
        ended.err.contains("1 valid, 1 of them admin@*") && ended.err.contains("operator@* from 10.1.0.0/16"),
        "{ended:?}"
    );
    assert_eq!(server.changes(), []);
    let ended = server.run(&["auth", "enforce", "--yes"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "access control is enforced\n"), "{ended:?}");
    assert_eq!(server.changes(), [(ENFORCE.to_owned(), r#"{"Enforced":true}"#.to_owned())]);
}

#[tokio::test]
async fn access_control_without_an_admin_is_not_enforced() {
    for tokens in [
        json!([]),
        json!([token("deployer@*", "2126-01-01T00:00:00Z")]),
        json!([token("admin@*", "2026-01-01T00:00:00Z")]),
    ] {
        let server = Server::start(&[
            (ACCESS, 200, open(&["operator@* from any"])),
            ("GET /api/tokens", 200, tokens),
            (ENFORCE, 202, json!({"message": "ok"})),
        ])
        .await;
        let ended = server.run(&["auth", "enforce", "--yes"]).await;
        assert!(ended.code == Some(1) && ended.err.contains("deployctl token create"), "{ended:?}");
        assert_eq!(server.changes(), []);
    }
    let server = Server::start(&[
        (ACCESS, 200, open(&["admin@* from uid:0"])),
        ("GET /api/tokens", 200, json!([])),
        (ENFORCE, 202, json!({"message": "ok"})),
    ])
    .await;
    assert_eq!(server.run(&["auth", "enforce", "--yes"]).await.code, Some(0));
}

#[tokio::test]
async fn a_cluster_is_opened_again_with_a_warning() {
    let enforced = json!({"Enforced": true, "Principal": "root", "Bindings": ["admin@*"]});
    let server = Server::start(&[(ACCESS, 200, enforced), (ENFORCE, 202, json!({"message": "ok"}))]).await;
    let ended = server.run(&["auth", "enforce", "--yes"]).await;
    assert!(ended.out.contains("enforced already") && server.changes().is_empty(), "{ended:?}");
    let ended = server.run(&["auth", "enforce", "--off", "--yes"]).await;
    assert!(ended.code == Some(0) && ended.out.contains("may do everything"), "{ended:?}");
    assert_eq!(server.changes()[0].1, r#"{"Enforced":false}"#);
}

#[tokio::test]
async fn the_status_of_an_open_cluster_says_so_and_is_no_failure() {
    let node = json!([{"Name": "n1", "State": "alive", "Engine": "up"}]);
    for (view, says) in [(open(&[]), true), (json!({"Enforced": true, "Principal": "a", "Bindings": []}), false)] {
        let server = Server::start(&[
            ("GET /api/cluster", 200, json!({"leader": "scheduler-1", "term": 3})),
            ("GET /api/nodes", 200, node.clone()),
            ("GET /api/podgroups", 200, json!({"PodGroups": []})),
            (ACCESS, 200, view),
        ])
        .await;
        let ended = server.run(&["status"]).await;
        assert_eq!((ended.code, ended.out.contains("note: the cluster is open")), (Some(0), says), "{ended:?}");
    }
}

/// The end of a log and its records, as an apiserver gives them in pages.
fn log(count: u64) -> (AuditHead, Vec<AuditRecord>) {
    let (mut head, mut records) = (AuditHead::default(), Vec::new());
    for number in 1..=count {
        let mut written = json!({
            "Number": number, "At": "2026-01-01T00:00:00Z", "Principal": "alice", "Peer": "10.1.2.3", "Apiserver": "apiserver-1",
            "Verb": "CreateGroup", "Object": format!("shop.web.{number}"), "Namespace": "shop", "Command": "id",
        });
        if number == 2 {
            written["Refused"] = json!("PodGroup has already existed");
        }
        if number == 5 {
            let refused = |peer: &str, count: u64| json!({"Peer": peer, "Route": "GET /api/nodes", "Status": 401, "Count": count});
            written["Verb"] = json!("ReportRefused");
            written["Requests"] = json!([refused("10.8.8.8", 1), refused("10.9.9.9", 12)]);
        }
        let mut record: AuditRecord = serde_json::from_value(written).expect("a record");
        record.hash = record.hash_after(&head.hash);
        (head.last, head.hash) = (number, record.hash.clone());
        records.push(record);
    }
    (head, records)
}

fn page(head: &AuditHead, records: &[AuditRecord], next: Option<u64>) -> (&'static str, u16, Value) {
    let page = AuditPage { head: head.clone(), records: records.to_vec(), next };
    (AUDIT, 200, serde_json::to_value(page).expect("a page"))
}

#[tokio::test]
async fn both_logs_are_verified_over_all_their_pages() {
    let (head, records) = log(5);
    let commands = [page(&head, &records[..3], Some(3)), page(&head, &records[3..], None)];
    let (head, refused) = log(2);
    let [first, second] = commands.clone();
    let server = Server::start(&[first, second, page(&head, &refused, None)]).await;
    let ended = server.run(&["audit", "verify"]).await;
    let expected = "commands: 5 records verified: 1 to 5\nrefused requests: 2 records verified: 1 to 2\n";
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), expected), "{ended:?}");
    assert_eq!(server.count("GET /api/audit?after=3&limit=1000"), 1);
    assert_eq!(server.count("GET /api/audit?after=0&limit=1000&refused=true"), 1);
    let mut changed = refused.clone();
    changed[1].peer = "10.0.0.1".to_owned();
    let [first, second] = commands;
    let server = Server::start(&[first, second, page(&head, &changed, None)]).await;
    let ended = server.run(&["audit", "verify"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("refused requests is broken"), "{ended:?}");
}

/// A log without its first records, with the signature of this key.
fn dropped(signer: &OrderSigner, up_to: u64) -> (AuditHead, Vec<AuditRecord>) {
    let (head, records) = log(5);
    let hash = records[usize::try_from(up_to).expect("small") - 1].hash.clone();
    let signature = Some(signer.sign_text(&Chain::Commands.checkpoint(up_to, &hash)));
    let rest = records.into_iter().filter(|record| record.number > up_to).collect();
    (AuditHead { dropped: up_to, dropped_hash: hash, signature, ..head }, rest)
}

#[tokio::test]
async fn a_log_without_its_oldest_records_verifies_only_when_a_scheduler_signed_that() {
    let folder = tempfile::tempdir().expect("a folder");
    let signer = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, OrderSigner::generate("scheduler-1").expect("a key")).expect("written");
        OrderSigner::load(&path).expect("a key")
    };
    let (own, foreign) = (signer("own"), signer("foreign"));
    let public = folder.path().join("orders.pub");
    std::fs::write(&public, own.public_line()).expect("written");
    let verify = ["audit", "verify", "--order-keys-file", public.to_str().expect("a path")];
    let (good, rest) = dropped(&own, 2);
    let empty = || page(&AuditHead::default(), &[], None);
    let server = Server::start(&[page(&good, &rest, None), empty()]).await;
    let ended = server.run(&verify).await;
    assert!(ended.code == Some(0) && ended.out.contains("3 records verified: 3 to 5; a scheduler signed"), "{ended:?}");
    let server = Server::start(&[page(&good, &rest, None), empty()]).await;
    let ended = server.run(&["audit", "verify"]).await;
    assert!(ended.code == Some(0) && ended.out.contains("was not checked (--order-keys-file)"), "{ended:?}");
    // One record more was removed; the signature of another key; of another log; none.
    let (third, shorter) = dropped(&own, 3);
    let of_refused = Some(own.sign_text(&Chain::Refused.checkpoint(2, &good.dropped_hash)));
    for (head, rest) in [
        (AuditHead { signature: good.signature.clone(), ..third }, shorter),
        dropped(&foreign, 2),
        (AuditHead { signature: of_refused, ..good.clone() }, rest.clone()),
        (AuditHead { signature: None, ..good.clone() }, rest.clone()),
    ] {
        let server = Server::start(&[page(&head, &rest, None), empty()]).await;
        let ended = server.run(&verify).await;
        assert!(ended.code == Some(1) && ended.err.contains("signed that"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_log_that_was_changed_or_cut_off_is_broken_with_the_place() {
    let (head, records) = log(5);
    let mut changed = records.clone();
    changed[3].principal = "mallory".to_owned();
    let without: Vec<AuditRecord> = records.iter().filter(|record| record.number != 4).cloned().collect();
    for (second, text) in [
        (&changed[3..], "record 4 was changed"),
        (&without[3..], "record 4 is missing"),
        (&records[3..4], "the log ends at record 4"),
    ] {
        let server = Server::start(&[page(&head, &records[..3], Some(3)), page(&head, second, None)]).await;
        let ended = server.run(&["audit", "verify"]).await;
        assert!(ended.code == Some(1) && ended.err.contains(text) && ended.err.contains("after"), "{text}: {ended:?}");
    }
    let server = Server::start(&[page(&head, &records[..3], Some(3)), page(&head, &records[3..], Some(3))]).await;
    let ended = server.run(&["audit", "verify"]).await;
    assert!(ended.code == Some(1) && ended.err.contains("do not advance"), "{ended:?}");
}

#[tokio::test]
async fn the_last_commands_are_listed_with_principal_and_outcome() {
    let (head, records) = log(5);
    let server = Server::start(&[page(&head, &records[..1], Some(1)), page(&head, &records[1..], None)]).await;
    let ended = server.run(&["audit", "list", "--limit", "4"]).await;
    assert_eq!(server.count("GET /api/audit?after=1&limit=1000"), 1, "{ended:?}");
    let rows: Vec<&str> = ended.out.lines().collect();
    assert_eq!(rows.len(), 6, "{ended:?}");
    let refused: Vec<&str> = rows[5].split_whitespace().collect();
    assert_eq!(refused[2..], ["-", "10.9.9.9", "GET", "/api/nodes", "-", "-", "12", "answered", "401"], "{ended:?}");
    assert!(rows[1].contains("refused: PodGroup has already existed") && rows[3].contains("alice"), "{ended:?}");
    let server = Server::start(&[page(&head, &records[..1], Some(1)), page(&head, &records[1..], None)]).await;
    let json: Value = serde_json::from_str(&server.run(&["audit", "list", "-o", "json"]).await.out).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(4));
}
