//! The operation lock: 423 while it is held, 500 while a group is being removed, and the commands that pass it.
//!
//! While scheduling is stopped the leader accepts commands and does nothing else. So every operation holds its lock until
//! scheduling starts, and the rows have no races.

use super::rows::groups::{ADDED, DELETED, NO_GROUP, PATCHED, all_gone, at, pod};
use super::rows::row::{Row, ask};
use super::rows::{demo_group, switches};

const DEPLOYED: &str = "row.deployed.web";
const SCALED: &str = "row.scaled.web";
const UPGRADED: &str = "row.upgraded.web";
const STOPPED: &str = "row.stopped.web";
const REMOVED: &str = "row.removed.web";

pub(super) fn rows() -> Vec<Row> {
    [prepared(), switches::stopped(), held(), switches::started(), resumed(), tidied()].concat()
}

fn prepared() -> Vec<Row> {
    let mut rows = Vec::new();
    for name in [SCALED, UPGRADED, STOPPED, REMOVED] {
        rows.push(ask("podgroups POST", "POST /api/podgroups").body(demo_group(name, 0)).accepted(at(name), ADDED));
        // Its first operation is over when a change is accepted.
        let again = format!("PATCH {}&cmd=replica&num_instances=0", at(name));
        rows.push(ask("lock", again).soon().accepted(at(name), PATCHED));
    }
    rows
}

fn held() -> Vec<Row> {
    let operation = |name: &str, optype: &str| format!("PATCH {}&cmd=operation&optype={optype}", at(name));
    let replica = |name: &str, count: u32| format!("PATCH {}&cmd=replica&num_instances={count}", at(name));
    let mut rows =
        vec![ask("creation", "POST /api/podgroups").body(demo_group(DEPLOYED, 1)).accepted(at(DEPLOYED), ADDED)];
    rows.extend(locked(DEPLOYED, "Deploying", true));
    rows.push(ask("scaling", replica(SCALED, 1)).accepted(at(SCALED), PATCHED));
    rows.extend(locked(SCALED, "Scheduling", true));
    rows.push(ask("scaling: known at once", format!("GET {}", at(SCALED))).holds(200, "/Spec/NumInstances", 1));
    let spec = format!("PATCH {}&cmd=spec", at(UPGRADED));
    rows.push(ask("upgrade", &*spec).body(pod(UPGRADED)).accepted(at(UPGRADED), PATCHED));
    rows.extend(locked(UPGRADED, "Upgrading", false));
    rows.push(ask("lock: admitted", &*spec).body(pod(UPGRADED)).accepted(at(UPGRADED), PATCHED));
    rows.push(ask("operation", operation(STOPPED, "stop")).accepted(at(STOPPED), PATCHED));
    rows.push(ask("removal", format!("DELETE {}", at(REMOVED))).accepted(at(REMOVED), DELETED));
    rows.extend([
        ask("removal, S5", format!("GET {}", at(REMOVED))).refused(404, format!("No such pod group name={REMOVED}")),
        ask("removal, S5", format!("DELETE {}", at(REMOVED))).refused(404, NO_GROUP),
        ask("removal, S5", replica(REMOVED, 1)).refused(404, NO_GROUP),
        ask("removal, S5", "POST /api/podgroups")
            .body(demo_group(REMOVED, 0))
            .refused(500, "PodGroup is removing, need to wait for that"),
        ask("stopped scheduling", format!("GET {}", at(DEPLOYED))).holds(200, "/State", 0).holds(200, "/LastError", ""),
    ]);
    rows
}

/// Every other change is refused; the text names the operation that runs, where the original always says Scheduling.
fn locked(name: &str, operation: &str, specs_too: bool) -> Vec<Row> {
    let message = format!("Another operation \"{operation}\" is progressing");
    let mut rows = vec![
        ask("podgroups, Q-04", format!("PATCH {}&cmd=replica&num_instances=2", at(name))).refused(423, &*message),
        ask("podgroups, Q-04", format!("PATCH {}&cmd=operation&optype=restart", at(name))).refused(423, &*message),
        ask("podgroups, Q-04", format!("PATCH {}&cmd=operation&optype=dance", at(name))).refused(423, &*message),
    ];
    // The first deployment holds no lock against a removal.
    if name != DEPLOYED {
        rows.push(ask("podgroups", format!("DELETE {}", at(name))).refused(423, &*message));
    }
    if specs_too {
        let spec = format!("PATCH {}&cmd=spec", at(name));
        rows.push(ask("podgroups, Q-04", spec).body(pod(name)).refused(423, message));
    }
    rows
}

fn resumed() -> Vec<Row> {
    let running = |name: &str| {
        let row = ask("stopped scheduling, Q-21", format!("GET {}", at(name))).soon();
        row.holds(200, "/State", 2).holds(200, "/Pods/0/State", 2).holds(200, "/Pods/0/InstanceNo", 1)
    };
    vec![
        running(DEPLOYED),
        running(SCALED),
        ask("version: one more each", format!("GET {}", at(UPGRADED))).soon().holds(200, "/Spec/Version", 2),
    ]
}

fn tidied() -> Vec<Row> {
    let mut rows: Vec<Row> = [DEPLOYED, SCALED, UPGRADED, STOPPED]
        .into_iter()
        .map(|name| ask("podgroups DELETE", format!("DELETE {}", at(name))).soon().accepted(at(name), DELETED))
        .collect();
    rows.push(all_gone());
    rows
}
