//! Every row of the route table of docs/api.md, in order, against a running cluster: first through one apiserver, then through
//! two in turn. Both must give what the table says, and the same.
//!
//! The table leaves the cluster as it found it, so that it can be run again; what differs from run to run (ids, times,
//! addresses, places) is blanked before the answers of the two runs are compared.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::row::{Row, Seen};
use super::{dependencies, fleet, groups, locks, routes, switches};
use crate::cluster::Cluster;

/// How long an answer may take to become right where the contract gives it time.
const SOON: Duration = Duration::from_secs(60);
/// Members whose values differ from run to run.
const VOLATILE: [&str; 16] = [
    "operation",
    "CreatedAt",
    "UpdatedAt",
    "RestartAt",
    "Id",
    "Runtime",
    "NodeName",
    "NodeIp",
    "ContainerIp",
    "NodePort",
    "IPs",
    "Containers",
    "Instances",
    "UsedCPUs",
    "UsedMemory",
    "time",
];

/// The whole table.
fn rows() -> Vec<Row> {
    [routes::rows(), groups::rows(), locks::rows(), dependencies::rows(), fleet::rows(), switches::rows()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_the_contract_holds_through_one_apiserver_and_through_two_in_turn() {
    let cluster = Cluster::start(&[]).await;
    let rows = rows();
    let began = Instant::now();
    let (alone, mut wrong) = answers(&cluster, &rows, |_| 0).await;
    let between = began.elapsed();
    let (in_turn, wrong_in_turn) = answers(&cluster, &rows, |row| row % 2).await;
    wrong.extend(wrong_in_turn);
    for ((row, one), two) in rows.iter().zip(&alone).zip(&in_turn) {
        let (one, two) = (lasting(row, one), lasting(row, two));
        if one != two {
            wrong.push(format!("{}: one apiserver and two differ:\n{one:?}\n{two:?}", title(row)));
        }
    }
    println!("{} rows: alone in {between:?}, both runs in {:?}", rows.len(), began.elapsed());
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n\n"));
}

/// The answers of all rows, and what is wrong with them; row k is asked of the apiserver `chosen` for it.
async fn answers(cluster: &Cluster, rows: &[Row], chosen: impl Fn(usize) -> usize) -> (Vec<Seen>, Vec<String>) {
    let client = fabric::http::client(Duration::from_secs(10));
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for (number, row) in rows.iter().enumerate() {
        let api = chosen(number);
        let (seen, verdict) = answer(&client, cluster.api(api), row).await;
        if let Err(why) = verdict {
            wrong.push(format!("{} through apiserver {api}:\n{why}\n{} {}", title(row), seen.status, seen.text));
        }
        all.push(seen);
    }
    (all, wrong)
}

async fn answer(client: &reqwest::Client, base: &str, row: &Row) -> (Seen, Result<(), String>) {
    let deadline = Instant::now() + if row.soon { SOON } else { Duration::ZERO };
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    loop {
        pause.tick().await;
        let seen = Seen::of(row.request(client, base)).await;
        let verdict = row.judge(&seen);
        if verdict.is_ok() || Instant::now() >= deadline {
            return (seen, verdict);
        }
    }
}

/// What of an answer must be the same in both runs.
fn lasting(row: &Row, seen: &Seen) -> (u16, Value) {
    let body = seen.json().unwrap_or_else(|_| Value::from(seen.text.clone()));
    (seen.status, blanked(body, !row.compares_values()))
}

fn blanked(value: Value, blank: bool) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .map(|(key, value)| {
                    let blank = blank || VOLATILE.contains(&key.as_str());
                    // What a volatile member holds does not count, how it is built neither.
                    let value = if blank { Value::Null } else { blanked(value, false) };
                    (key, value)
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| blanked(item, blank)).collect()),
        other => other,
    }
}

fn title(row: &Row) -> String {
    format!("[{}] {} {}", row.paragraph, row.method, row.path)
}
