//! The scheduler with many simulated nodes: another program measures it, and its figures are taken into the same report.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Command;

use super::chart::{Bar, Chart, Goal};
use super::growth::Fleet;

/// The largest size takes minutes.
const WITHIN: Duration = Duration::from_secs(900);
/// What nodes, servers and schedulers together need for one instance, and a little more.
const EACH_BYTES: u64 = 8 * 1024;
/// What the placement of the largest size may take.
const PLACEMENT_GOAL: f64 = 2.0;

/// Runs `sim agents` with so many nodes and instances; its figures, or why there are none.
pub(crate) async fn agents(fleet: Fleet, out: &Path) -> Result<Value, String> {
    let need = u64::from(fleet.instances) * EACH_BYTES;
    if super::machine::free_memory().is_some_and(|free| free < need) {
        return Err(format!("it takes about {} GiB of free memory", need >> 30));
    }
    sim("agents", fleet, out).await
}

/// Runs `sim placement`; how long it took.
pub(crate) async fn placement(fleet: Fleet, out: &Path) -> Result<Chart, String> {
    let figures = sim("placement", fleet, out).await?;
    let took = figures["placement_cpu_seconds"].as_f64().ok_or("sim placement tells no placement_cpu_seconds")?;
    let bar = Bar { label: "planner".to_owned(), value: took, least: took, most: took, count: 1 };
    Ok(Chart {
        name: "placement".to_owned(),
        title: format!("Placement alone, {}, one core", fleet.shown()),
        unit: "s",
        bars: vec![bar],
        goals: vec![Goal::new("at most 2 s", took <= PLACEMENT_GOAL)],
    })
}

async fn sim(what: &str, fleet: Fleet, out: &Path) -> Result<Value, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = here.with_file_name("sim");
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
        return Err(format!("sim {what}: {}: {last}", output.status));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// The program while it runs. It is asked to end when nobody waits for it any more: it has servers of its own to take down.
struct Running(Option<u32>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            // It may have ended by itself meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
