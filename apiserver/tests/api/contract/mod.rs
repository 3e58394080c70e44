//! The route table of docs/api.md against the fake leader, through two apiservers in turn.
//!
//! What a row cannot say in a line (whole bodies, huge bodies, outages, the commands that arrive) has its own test in the
//! other files.

mod rows;

use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::command::Verb;

use crate::leader::{Leader, Manner};
use crate::world::World;

/// An apiserver may believe for a second that changes are allowed.
const PATIENCE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_of_the_route_table_has_the_expected_answer_through_two_apiservers_in_turn() {
    let world = World::start_with(&["--inspect-deadline", "100ms"]).await;
    let second = world.another_apiserver(&["--inspect-deadline", "100ms"]).await;
    let leader = Leader::start(&world.bus, Manner::Leads).await;
    let rows = rows::all();
    let wrong = rows::row::send(&rows, &[&world.base, &second], PATIENCE).await;
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n\n"));
    assert_eq!(leader.refreshed.load(Ordering::Relaxed), 4, "force_update: one group that exists, three that do not");
    let names: Vec<String> = leader.stop().await.into_iter().filter_map(|command| created(command.verb)).collect();
    assert!(!names.iter().any(|name| name == "row.shut.web"), "a read-only apiserver sends nothing: {names:?}");
}

fn created(verb: Verb) -> Option<String> {
    match verb {
        Verb::CreateGroup { spec } => Some(spec.name),
        _ => None,
    }
}
