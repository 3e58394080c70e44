//! A release of ten instances over two cells, and how it is shown.

use std::collections::BTreeMap;

use contract::record::RevisionOutcome;
use contract::rollout_view::{RevisionView, RolloutInstance, RolloutPhase};
use contract::spec::{ContainerSpec, PodSpec};
use contract::time::Timestamp;

use super::*;

fn unit(name: &str, updated_available: i64) -> RolloutUnit {
    RolloutUnit {
        name: name.to_owned(),
        target: 5,
        committed: 1,
        updated: 1,
        updated_available,
        available: 5,
        unplaced: 0,
    }
}

fn pod(revision: u32) -> RolloutPod {
    RolloutPod {
        revision,
        node: Some("node-1".parse().unwrap()),
        ready: true,
        available: true,
        draining: false,
        gates: BTreeMap::new(),
        ips: vec!["172.18.0.2".to_owned()],
        node_ports: Vec::new(),
        containers: Vec::new(),
        why: String::new(),
    }
}

/// Release 5 of demo.web.web, whose first group waits to be confirmed.
pub(crate) fn view() -> RolloutView {
    let group = |ordinal, kind: &str, state: &str, pods| RolloutGroup {
        ordinal,
        kind: kind.to_owned(),
        state: state.to_owned(),
        units: BTreeMap::from([("cell-a".to_owned(), pods), ("cell-b".to_owned(), pods)]),
    };
    let waiting = RolloutPod { available: false, ready: false, why: "starting".to_owned(), ..pod(5) };
    RolloutView {
        name: "demo.web.web".to_owned(),
        release: 5,
        strategy: StrategyType::Beta,
        is_rollback: false,
        phase: RolloutPhase::WaitingForConfirm,
        status: RolloutStatus::WaitingForConfirm,
        message: "group 1 is done".to_owned(),
        since: Timestamp::from_millis(0),
        replicas: 10,
        min_available: 8,
        max_total: 10,
        group: 1,
        groups: vec![group(1, "Beta", "Done", 1), group(2, "Batch", "ToCome", 2), group(3, "Batch", "ToCome", 2)],
        units: vec![unit("cell-a", 1), unit("cell-b", 0)],
        waits_for: Vec::new(),
        instances: vec![RolloutInstance { instance: 1, unit: "cell-a".to_owned(), pods: vec![pod(4), waiting] }],
        is_paused: false,
        is_frozen: false,
        warnings: vec!["cell-b: truncated".to_owned()],
    }
}

/// A revision that somebody asked for and that is under way.
pub(crate) fn revision(number: u32) -> RevisionView {
    let container = ContainerSpec { image: format!("deployd/demo:{number}"), ..ContainerSpec::default() };
    RevisionView {
        revision: number,
        at: Timestamp::from_millis(0),
        by: "somebody".to_owned(),
        cause: String::new(),
        outcome: RevisionOutcome::Open,
        ended_at: Timestamp::NEVER,
        copies: None,
        instances: 0,
        pod: PodSpec { containers: vec![container], ..PodSpec::default() },
    }
}

#[test]
fn a_terminal_shows_a_bar_per_unit_what_is_waited_for_and_the_command_that_helps() {
    let expected = [
        "demo.web.web: release 5 by Beta is waiting to be confirmed, group 1 of 3",
        "cell-a  [======........................]  1/5 updated, 5 available",
        "cell-b  [..............................]  0/5 updated, 5 available",
        "group 1 is done",
        "`deployctl rollout confirm demo.web.web --group 1` goes on",
        "`deployctl rollout undo demo.web.web` goes back",
    ];
    assert_eq!(live(&view()), expected);
    let long = live(&RolloutView { message: "word ".repeat(40), ..view() });
    assert!(long.len() > expected.len() && long.iter().all(|line| line.chars().count() <= WIDTH), "{long:?}");
}

#[test]
fn elsewhere_it_is_one_line() {
    let view = RolloutView {
        status: RolloutStatus::Progressing,
        strategy: StrategyType::RollingUpdate,
        message: "waits for\n  instance 3".to_owned(),
        group: 0,
        groups: Vec::new(),
        units: vec![RolloutUnit { unplaced: 2, ..unit("", 1) }],
        is_rollback: true,
        ..view()
    };
    assert_eq!(
        line(&view),
        "demo.web.web: release 5 back by RollingUpdate is under way; 1/5 updated, 5 available, 2 without a place; \
         waits for instance 3"
    );
    let two = line(&RolloutView { units: vec![unit("a", 1), unit("b", 0)], ..view });
    assert!(two.contains("; a 1/5 updated, 5 available; b 0/5 updated, 5 available; "), "{two}");
}

#[test]
fn a_bar_is_full_only_when_everything_is_done() {
    let filled = |done, total| bar(done, total).chars().filter(|c| *c == '=').count();
    assert_eq!((filled(0, 7), filled(999, 1000), filled(1000, 1000)), (0, 29, 30));
    assert_eq!((filled(0, 0), filled(9, 7), filled(-1, 7)), (30, 30, 0), "whatever the numbers are");
}

#[test]
fn the_whole_shows_both_pods_of_an_instance_and_every_group() {
    let text = whole(&view());
    let has = |words: &str| text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == words);
    for line in [
        "warning: cell-b: truncated",
        "10 instances wanted, at least 8 available and at most 10 pods while it goes on",
        "cell-a 5 1 1 1 5",
        "1 Beta Done cell-a 1, cell-b 1",
        "3 Batch ToCome cell-a 2, cell-b 2",
        "1 cell-a 4 node-1 available 172.18.0.2 -",
        "1 cell-a 5 node-1 not ready 172.18.0.2 - starting",
    ] {
        assert!(has(line), "{line}\nin\n{text}");
    }
}
