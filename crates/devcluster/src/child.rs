//! Starts, identifies and ends one process.
//!
//! The kernel reuses process ids, so a process is ours only if its command line equals the one we started. Other processes are
//! never signalled.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child as Running, Command};
use tokio::time::{Instant, sleep};

use crate::state::{Child, Process};

/// A larger log is rotated when its process starts.
const LARGEST_LOG: u64 = 16 * 1024 * 1024;
/// Settings of a local cluster, unless the environment has others. It has no load balancer, so a stopping apiserver need not linger,
/// and all its clients are one user at one address, so a limit for each client would be one for all.
const DEFAULTS: [(&str, &str); 3] =
    [("DEPLOYD_LINGER", "0s"), ("DEPLOYD_REQUESTS_PER_SECOND", "0"), ("DEPLOYD_BYTES_PER_MINUTE", "0")];
/// Interval of the checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(25);

/// Starts a process in a group of its own, so that Ctrl-C in the terminal reaches only the supervisor, which then
/// stops the others in order. Its output goes to `logs/NAME.log`.
pub fn start(child: &Child, dir: &Path) -> io::Result<Running> {
    let (program, words) = child.command.split_first().ok_or_else(|| io::Error::other("the command line is empty"))?;
    let log = open_log(dir, &child.name)?;
    let mut command = Command::new(program);
    if cfg!(target_arch = "aarch64") {
        // etcd 3.4 refuses other architectures than amd64 without this variable.
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    }
    for (name, value) in DEFAULTS {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .kill_on_drop(false)
        .spawn()
}

/// Opens the log of a process for appending; rotates a large one first.
pub fn open_log(dir: &Path, name: &str) -> io::Result<File> {
    let path = dir.join("logs").join(format!("{name}.log"));
    if fs::metadata(&path).is_ok_and(|log| log.len() > LARGEST_LOG) {
        fs::rename(&path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// The last lines of a process's log.
pub fn last_lines(dir: &Path, name: &str, count: usize) -> String {
    let text = fs::read(dir.join("logs").join(format!("{name}.log"))).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The process that runs this code.
pub fn myself() -> Process {
    let pid = std::process::id();
    Process { pid, command: command_line(pid) }
}

/// Whether the process still runs; a zombie does not.
pub fn runs(process: &Process) -> bool {
    !process.command.is_empty() && command_line(process.pid) == process.command
}

/// Sends SIGTERM, and SIGKILL after `grace`.
pub async fn end(process: &Process, grace: Duration) -> Ended {
    for (signal, wait) in [(Signal::TERM, grace), (Signal::KILL, Duration::from_secs(5))] {
        signal_process(process, signal);
        let deadline = Instant::now() + wait;
        while runs(process) && Instant::now() < deadline {
            sleep(LOOK).await;
        }
        if !runs(process) {
            return if signal == Signal::TERM { Ended::Terminated } else { Ended::Killed };
        }
    }
    Ended::StillRunning
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// After SIGTERM, or it had ended before.
    Terminated,
    Killed,
    StillRunning,
}

/// Sends a signal if the process is still the one we know.
pub fn signal_process(process: &Process, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    if let (true, Some(pid)) = (runs(process), pid) {
        // The process may end between the check and the signal.
        let _ = kill_process(pid, signal);
    }
}

fn command_line(pid: u32) -> Vec<String> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&raw);
    text.strip_suffix('\0').map(|words| words.split('\0').map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::ProcessKind;

    fn child(command: &[&str]) -> Child {
        Child {
            name: "x".to_owned(),
            role: ProcessKind::Notifier,
            listen: String::new(),
            pid: None,
            restarts: 0,
            last_exit: None,
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    fn logs() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("logs")).unwrap();
        dir
    }

    /// The command line is the parent's until the new program runs.
    async fn until_it_runs(process: &Process) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while !runs(process) {
            assert!(Instant::now() < deadline, "it does not run");
            sleep(LOOK).await;
        }
    }

    #[tokio::test]
    async fn a_process_is_started_identified_and_terminated() {
        let dir = logs();
        let child = child(&["/bin/sleep", "1000"]);
        let mut running = start(&child, dir.path()).unwrap();
        let process = Process { pid: running.id().unwrap(), command: child.command.clone() };
        until_it_runs(&process).await;
        let reaper = fabric::tasks::spawn("reaper", async move { running.wait().await });
        assert_eq!(end(&process, Duration::from_secs(5)).await, Ended::Terminated);
        assert!(!reaper.await.unwrap().unwrap().success());
        assert!(!runs(&process));
    }

    #[tokio::test]
    async fn a_process_with_another_command_line_is_never_signalled() {
        let dir = logs();
        let child = child(&["/bin/sleep", "1000"]);
        let mut running = start(&child, dir.path()).unwrap();
        let pid = running.id().unwrap();
        until_it_runs(&Process { pid, command: child.command.clone() }).await;
        let stranger = Process { pid, command: vec!["/bin/sleep".to_owned(), "999".to_owned()] };
        assert_eq!(end(&stranger, Duration::ZERO).await, Ended::Terminated);
        assert_eq!(running.try_wait().unwrap(), None, "it still runs");
        running.kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_killed() {
        let dir = logs();
        let child = child(&["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"]);
        let mut running = start(&child, dir.path()).unwrap();
        let process = Process { pid: running.id().unwrap(), command: child.command.clone() };
        let deadline = Instant::now() + Duration::from_secs(5);
        while last_lines(dir.path(), "x", 1) != "deaf" {
            assert!(Instant::now() < deadline, "it does not start");
            sleep(LOOK).await;
        }
        let reaper = fabric::tasks::spawn("reaper", async move { running.wait().await });
        assert_eq!(end(&process, Duration::from_millis(100)).await, Ended::Killed);
        reaper.await.unwrap().unwrap();
    }

    #[test]
    fn this_process_runs() {
        assert!(runs(&myself()));
    }

    #[test]
    fn the_end_of_a_log_is_shown() {
        let dir = logs();
        fs::write(dir.path().join("logs/x.log"), "a\nb\nc\n").unwrap();
        assert_eq!(last_lines(dir.path(), "x", 2), "b\nc");
        assert_eq!(last_lines(dir.path(), "unknown", 2), "");
    }
}
