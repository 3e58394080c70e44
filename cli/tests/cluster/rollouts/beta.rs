//! Ten instances in two units: a beta of one each, then batches of four (2, 4, 4). All batches but the last are confirmed.

use std::collections::{BTreeMap, BTreeSet};

use contract::rollout_view::{RolloutPhase, RolloutStatus, RolloutView};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::diary::{Action, Diary};
use super::images::SECOND;
use super::rollout::{Rollout, group, revision, with_image};
use crate::cluster::Cluster;
use crate::docker::Workload;

/// Three nodes in two units.
const ZONES: [&str; 4] = ["--label", "group=default", "--label", "zone=a,b,b"];
/// The units, and the nodes of each.
const UNITS: [(&str, &[&str]); 2] = [("a", &["node-1"]), ("b", &["node-2", "node-3"])];

fn ten(name: &str, needs_confirm: bool) -> Value {
    let fields = json!({
        "Strategy": {"Type": "Beta", "BatchSize": 4, "NeedWaitingForConfirm": needs_confirm,
            "ConfirmFirstDeployment": needs_confirm},
        "Topology": {"UnitType": "Zone", "Values": ["a", "b"]},
    });
    group(name, 10, &fields)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_beta_rollout_updates_two_four_and_four_and_waits_for_confirmation_between_batches() {
    let cluster = Cluster::start(&ZONES).await;
    let wanted = ten("beta.web.web", true);
    let release = Rollout::open(&cluster, &wanted).await;
    refused(&release, 1, "group 1 is still being made").await;
    walk(&release, 0, async |_| {}).await;
    is_spread_over_units(&release.exactly(10).await);

    release.change(&with_image(&wanted, SECOND)).await;
    refused(&release, 1, "group 1 is still being made").await;
    walk(&release, 1, async |_| {}).await;
    is_spread_over_units(&release.exactly(10).await);
    refused(&release, 3, "it is over").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_leaders_between_steps_does_not_change_a_rollout() {
    let cluster = Cluster::start(&ZONES).await;
    let wanted = ten("kill.web.web", false);
    let release = Rollout::deployed(&cluster, &wanted).await;
    let before = release.exactly(10).await;
    release.patched("strategy", Some(&json!({"Strategy": ten("kill.web.web", true)["Strategy"]}))).await;
    let diary = Diary::open(&cluster, release.name()).await;
    release.change(&with_image(&wanted, SECOND)).await;
    let killed = async |updated: usize| {
        cluster.lose_leader().await;
        let now = release.containers().await;
        let untouched = now.iter().filter(|container| before.contains(container)).count();
        assert!(untouched >= 10 - updated, "more than {updated} were touched: {now:#?}");
    };
    walk(&release, 1, killed).await;
    let made = diary.up_to(&release.exactly(10).await).await;
    let made = made.iter().filter(|entry| entry.action == Action::Created && entry.pod.version == 1);
    let made: Vec<String> = made.map(|entry| entry.pod.to_string()).collect();
    let each_once: BTreeSet<String> = (1..=10).map(|instance| format!("kill.web.web.v1-i{instance}-d0")).collect();
    assert_eq!((made.len(), made.into_iter().collect()), (10, each_once), "every container was made once");
}

/// Walks through the batches of a rollout. Calls `meanwhile` during each batch and before each approval, with the number of
/// instances that may have been touched by then.
async fn walk(release: &Rollout<'_>, number: u32, meanwhile: impl AsyncFn(usize)) {
    let mut steady: Vec<Workload> = Vec::new();
    for (ordinal, updated) in [(1, 2), (2, 6)] {
        meanwhile(updated).await;
        let view = release
            .until(&format!("group {ordinal} of release {number} waits to be confirmed"), |view| {
                (view.release, view.group, view.phase) == (number, ordinal, RolloutPhase::WaitingForConfirm)
            })
            .await;
        assert_eq!((view.status, counts(&view)), (RolloutStatus::WaitingForConfirm, per_unit(updated / 2)));
        assert!(view.message.contains("confirm"), "it says what it waits for: {:?}", view.message);
        assert_eq!(groups(&view), by_two_four_four(ordinal), "{view:#?}");
        steady = made_for(release, number, updated, &steady).await;
        refused(release, ordinal + 1, "another group waits").await;
        meanwhile(updated).await;
        assert_eq!(made_for(release, number, updated, &steady).await, steady, "nothing moves before it is confirmed");
        let path = format!("rollout&action=confirm&release={number}&group={ordinal}");
        release.patched(&path, None).await;
    }
    meanwhile(10).await;
    let view = release.completed(number).await;
    assert_eq!((counts(&view), groups(&view)), (per_unit(5), by_two_four_four(4)), "no confirmation after the last");
    made_for(release, number, 10, &steady).await;
}

/// The containers of the revision: exactly `updated`, including those of earlier batches, and no others beside the old ones.
async fn made_for(release: &Rollout<'_>, number: u32, updated: usize, earlier: &[Workload]) -> Vec<Workload> {
    let all = release.containers().await;
    let others = if number == 0 { 0 } else { 10 - updated };
    let (new, old): (Vec<Workload>, Vec<Workload>) =
        all.into_iter().partition(|container| revision(container) == number);
    assert_eq!((new.len(), old.len()), (updated, others), "{new:#?}\n{old:#?}");
    assert!(earlier.iter().all(|container| new.contains(container)), "{earlier:#?}\n{new:#?}");
    assert!(new.iter().chain(&old).all(|container| container.running), "{new:#?}\n{old:#?}");
    new
}

async fn refused(release: &Rollout<'_>, ordinal: u64, why: &str) {
    let (status, text) = release.patch(&format!("rollout&action=confirm&group={ordinal}"), None).await;
    assert_eq!(status, StatusCode::CONFLICT, "{why}: {text}");
}

/// Instances ordered at the new revision, and those of them that are available, by unit.
fn counts(view: &RolloutView) -> Vec<(&str, i64, i64)> {
    view.units.iter().map(|unit| (unit.name.as_str(), unit.updated, unit.updated_available)).collect()
}

fn per_unit(each: usize) -> Vec<(&'static str, i64, i64)> {
    let each = i64::try_from(each).expect("few");
    UNITS.iter().map(|(name, _)| (*name, each, each)).collect()
}

/// Ordinal, kind, state, and instances of either unit.
type Shape = (u64, String, String, BTreeMap<String, i64>);

fn groups(view: &RolloutView) -> Vec<Shape> {
    let shape = |group: &contract::rollout_view::RolloutGroup| {
        (group.ordinal, group.kind.clone(), group.state.clone(), group.units.clone())
    };
    view.groups.iter().map(shape).collect()
}

/// The three groups when `done` of them are done.
fn by_two_four_four(done: u64) -> Vec<Shape> {
    let shape = |(ordinal, kind, each): (u64, &str, i64)| {
        let state = if ordinal <= done { "Done" } else { "ToCome" };
        let units = UNITS.iter().map(|(name, _)| ((*name).to_owned(), each)).collect();
        (ordinal, kind.to_owned(), state.to_owned(), units)
    };
    [(1, "Beta", 1), (2, "Batch", 2), (3, "Batch", 2)].into_iter().map(shape).collect()
}

fn is_spread_over_units(containers: &[Workload]) {
    for (unit, nodes) in UNITS {
        let inside = containers.iter().filter(|container| nodes.contains(&container.node.as_str())).count();
        assert_eq!(inside, 5, "{unit}: {containers:#?}");
    }
}
