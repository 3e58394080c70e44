//! A store that came back with an older state stops nothing, says so, and waits for a restore.

use super::estranged::{cluster, named};
use super::restores::{backup_of, elect_above, finish, send};
use super::*;

/// Another scheduler process leads over what was stored when `snapshot` was taken.
fn rewind(rig: &mut Rig, snapshot: BTreeMap<String, Vec<u8>>) {
    rig.store = snapshot;
    rig.core = Core::new(Settings::default());
    rig.clear();
    rig.elect();
}

fn everything(rig: &Rig) -> Vec<Vec<String>> {
    ["a", "b"].map(|name| rig.pods(name)).to_vec()
}

/// A cluster whose store lost the creation of `db`.
fn rewound() -> (Rig, Vec<Vec<String>>) {
    let mut rig = named("store", &["a", "b"]);
    rig.command("c1", create("web", 2));
    let snapshot = rig.store.clone();
    rig.command("c2", create("db", 2));
    rig.report_all();
    let before = everything(&rig);
    assert_eq!(before.concat().len(), 4);
    rewind(&mut rig, snapshot);
    (rig, before)
}

#[test]
fn a_store_that_went_back_removes_no_container_and_the_leader_says_so() {
    let (mut rig, before) = rewound();
    rig.report_all();
    rig.pass(120);
    assert_eq!(everything(&rig), before);
    assert_eq!(cluster(&mut rig).estranged, 2);
    let told = rig.events.iter().filter(|event| event.message.contains("older state")).count();
    assert_eq!(told, 1, "{:?}", rig.events);
}
