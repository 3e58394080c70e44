//! The scheduler with many simulated nodes: another program measures it, and its figures are taken into the same report.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

/// The largest size takes minutes.
const WITHIN: Duration = Duration::from_secs(900);

/// Runs `sim agents` with so many nodes and instances; its figures, or why there are none.
pub(crate) async fn run(nodes: u32, instances: u32, out: &Path) -> Result<Value, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = here.with_file_name("sim");
    let file = out.join(format!("scale-{nodes}-{instances}.json"));
    let (count, all) = (nodes.to_string(), instances.to_string());
    let mut command = Command::new(&program);
    command.args(["agents", "--nodes", &count, "--instances", &all, "--json"]).arg(&file);
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
        return Err(format!("sim agents: {}: {last}", output.status));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let figures: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(json!({"nodes": nodes, "instances": instances, "figures": figures}))
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

/// The figures of such a report as rows: name and value.
pub(crate) fn rows(report: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let size = format!("{} nodes, {} instances", report["nodes"], report["instances"]);
    walk(&size, &report["figures"], String::new(), &mut rows);
    rows
}

fn walk(size: &str, value: &Value, name: String, rows: &mut Vec<Vec<String>>) {
    let below =
        |key: &str| if name.is_empty() { key.replace('_', " ") } else { format!("{name}, {}", key.replace('_', " ")) };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| walk(size, value, below(key), rows)),
        Value::Number(number) => {
            let text = number.as_f64().map_or_else(|| number.to_string(), super::table::number);
            let text = if number.is_f64() { text } else { number.to_string() };
            rows.push(vec![size.to_owned(), name, text]);
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_rows_however_deep_they_are() {
        let report =
            json!({"nodes": 2, "instances": 10, "figures": {"seconds": 1.2345, "order": {"p99_ms": 7}, "build": "x"}});
        let rows: Vec<String> = rows(&report).into_iter().map(|row| row.join(" | ")).collect();
        assert_eq!(rows, ["2 nodes, 10 instances | order, p99 ms | 7", "2 nodes, 10 instances | seconds | 1.23"]);
    }
}
