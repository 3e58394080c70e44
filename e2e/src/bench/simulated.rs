//! Runs the load generator (`proof agents`, `proof placement`) in its own process and reads its figures.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;

use super::figure::{Figure, Goal, Row};
use super::fleet::Fleet;

/// The largest size takes minutes.
const WITHIN: Duration = Duration::from_secs(900);
/// Memory of nodes, servers and schedulers together for one instance, rounded up.
const EACH_BYTES: u64 = 8 * 1024;
/// Goal for the placement of the largest size, in seconds.
const PLACEMENT_GOAL: f64 = 2.0;

/// Runs simulated agents; returns the figures, or the reason why there are none.
pub(crate) async fn agents(fleet: Fleet, out: &Path) -> Result<Value, String> {
    let need = u64::from(fleet.instances) * EACH_BYTES;
    if super::machine::free_memory().is_some_and(|free| free < need) {
        return Err(format!("it takes about {} GiB of free memory", need >> 30));
    }
    run("agents", fleet, out).await
}

/// Measures placement alone.
pub(crate) async fn placement(fleet: Fleet, out: &Path) -> Result<Figure, String> {
    let figures = run("placement", fleet, out).await?;
    let took = figures["placement_cpu_seconds"].as_f64().ok_or("proof placement wrote no placement_cpu_seconds")?;
    let title = format!("Placement alone, {}, one core", fleet.shown());
    let mut figure = Figure::new("placement", title, "s", vec![Row::of("planner", [took])]);
    figure.goals.push(Goal::new("at most 2 s", took <= PLACEMENT_GOAL));
    Ok(figure)
}

async fn run(what: &str, fleet: Fleet, out: &Path) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let file = out.join(format!("{what}-{}-{}.json", fleet.nodes, fleet.instances));
    let (nodes, instances) = (fleet.nodes.to_string(), fleet.instances.to_string());
    let mut command = Command::new(&program);
    command.args([what, "--nodes", &nodes, "--instances", &instances, "--json"]).arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let cannot_run = |error| format!("cannot run {}: {error}", program.display());
    let child = command.spawn().map_err(cannot_run)?;
    let mut running = Running(child.id());
    let output = tokio::time::timeout(WITHIN, child.wait_with_output()).await;
    let output = output.map_err(|_| format!("not done within {} s", WITHIN.as_secs()))?.map_err(cannot_run)?;
    running.0 = None;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        return Err(format!("proof {what}: {}: {last}", output.status));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Sends SIGTERM to the load generator when the bench stops early, so that it takes its servers down.
struct Running(Option<u32>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            // The process may have exited already.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
