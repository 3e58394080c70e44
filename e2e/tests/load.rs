//! `proof agents` and `proof placement` with few nodes, real servers and a real scheduler. No timing is checked.

use std::path::Path;
use std::process::Command;

fn figures(arguments: &[&str], file: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let mut command = Command::new(env!("CARGO_BIN_EXE_proof"));
    let output = command.args(arguments).arg("--json").arg(&path).output().expect("proof starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("no figures: {error}: {stderr}"));
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn simulated_agents_run_what_a_real_scheduler_orders() {
    let size = ["--nodes", "20", "--instances", "400", "--group-size", "60", "--schedulers", "1"];
    let bounds = ["--steady", "1s", "--changes", "2", "--start-after", "20ms", "--limit", "60s"];
    let figures = figures(&[&["agents"], &size[..], &bounds[..]].concat(), "agents.json");
    let count = |key: &str| figures[key].as_f64().unwrap_or_else(|| panic!("no {key} in {figures}"));
    assert!(count("running_seconds") >= count("placed_seconds").min(count("ordered_seconds")), "{figures}");
    assert!(count("orders") >= 20.0 && count("reports") >= 40.0, "{figures}");
    assert_eq!(count("failures"), 0.0, "{figures}");
    assert!(count("leader_bytes_per_instance") > 0.0 && count("stored_bytes_per_instance") > 0.0, "{figures}");
    assert!(count("change_ordered_milliseconds") > 0.0, "{figures}");
    assert!(figures.get("reached_running").is_none(), "the run stopped early: {figures}");
}

#[test]
fn placement_alone_places_everything() {
    let figures =
        figures(&["placement", "--nodes", "50", "--instances", "5000", "--group-size", "700"], "placement.json");
    assert_eq!((figures["placed"].as_f64(), figures["unplaced"].as_f64()), (Some(5000.0), Some(0.0)));
}
