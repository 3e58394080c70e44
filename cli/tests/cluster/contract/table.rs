//! Sends the rows of the HTTP contract that the leader decides to a real cluster, through two apiservers in turn.
//!
//! `apiserver/tests/api/contract` sends every row to an apiserver with a fake leader. The rows here show that the real leader
//! decides as the fake one does, and what only a real lock shows.

use super::scenarios::SOON;
use super::{locks, rows};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_that_the_leader_decides_hold_on_a_real_cluster_through_two_apiservers_in_turn() {
    let cluster = Cluster::start(&[]).await;
    let rows = [rows::decided_by_the_leader(), locks::rows()].concat();
    let wrong = rows::row::send(&rows, &[cluster.api(0), cluster.api(1)], SOON).await;
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n\n"));
}
