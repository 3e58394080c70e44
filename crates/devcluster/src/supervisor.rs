//! Keeps the processes of a cluster running: starts them in order, restarts those that end, stops them in order.
//!
//! One loop owns the state and is the only writer of `state.json`. `restart` decides the back-off and the stop order. The
//! supervisor never touches containers.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use fabric::shutdown::Shutdown;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::child;
use crate::restart::{Restarts, STOPPING, grace};
use crate::state::{self, Child, Cluster, ProcessKind};

/// How long the servers get to open their ports before the others are started; those wait for them on their own.
const SERVERS_UP: Duration = Duration::from_secs(15);

/// How long the kernel gets to end a killed process.
const KILLED_IN: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    State(#[from] state::Error),
    #[error("{0} holds no cluster; `deployctl up` makes one")]
    Nothing(PathBuf),
}

/// Where the supervisor logs.
#[derive(Debug)]
pub enum Journal {
    /// Standard error, which is the log file in the background.
    Standard,
    /// A log file, and warnings also to the terminal.
    Foreground(std::fs::File),
}

impl Journal {
    fn log(&mut self, text: &str) {
        let line = format!("{} {text}\n", fabric::clock::Clock::start().now());
        // A journal that cannot be written has no other place for the error.
        let _ = match self {
            Self::Standard => io::stderr().write_all(line.as_bytes()),
            Self::Foreground(file) => file.write_all(line.as_bytes()),
        };
    }

    /// Logs the text, and prints it in the foreground.
    fn warn(&mut self, text: &str) {
        if let Self::Foreground(_) = self {
            eprintln!("{text}");
        }
        self.log(text);
    }
}

/// Restart state of one process.
#[derive(Debug, Default)]
struct Memory {
    restarts: Restarts,
    started: Option<Instant>,
    start_at: Option<Instant>,
}

/// The loop that owns the processes.
#[derive(Debug)]
pub struct Supervisor {
    dir: PathBuf,
    cluster: Cluster,
    memories: Vec<Memory>,
    // One entry per running process, so it is bounded by their number.
    running: JoinSet<(usize, io::Result<ExitStatus>)>,
    journal: Journal,
}

impl Supervisor {
    /// Takes over the planned cluster of `dir`.
    pub fn new(dir: &Path, journal: Journal) -> Result<Self, Error> {
        let cluster = Cluster::load(dir)?.ok_or_else(|| Error::Nothing(dir.to_owned()))?;
        let memories = cluster.children.iter().map(|_| Memory::default()).collect();
        Ok(Self { dir: dir.to_owned(), cluster, memories, running: JoinSet::new(), journal })
    }

    /// Runs the cluster until `shutdown`, then stops it.
    pub async fn run(mut self, shutdown: Shutdown) -> Result<(), Error> {
        self.cluster.supervisor = Some(child::myself());
        self.cluster.store(&self.dir)?;
        tokio::select! {
            () = self.start_all() => {}
            () = shutdown.wait() => return self.stop_all().await,
        }
        loop {
            let next_start = self.memories.iter().filter_map(|memory| memory.start_at).min();
            tokio::select! {
                Some(ended) = self.running.join_next() => self.on_end(ended),
                () = until(next_start) => self.start_due(Instant::now()),
                () = shutdown.wait() => break,
            }
            self.save();
        }
        self.stop_all().await
    }

    /// A full disk does not stop the supervisor; the next change writes the whole state again.
    fn save(&mut self) {
        if let Err(error) = self.cluster.store(&self.dir) {
            self.journal.warn(&error.to_string());
        }
    }

    /// The servers first; the rest once they listen.
    async fn start_all(&mut self) {
        let is_server = |role: ProcessKind| matches!(role, ProcessKind::Etcd | ProcessKind::Nats);
        let (servers, others): (Vec<usize>, Vec<usize>) =
            (0..self.cluster.children.len()).partition(|index| is_server(self.cluster.children[*index].role));
        for index in &servers {
            self.start(*index);
        }
        self.save();
        let addresses: Vec<String> = servers.iter().map(|index| self.cluster.children[*index].listen.clone()).collect();
        let listening = async {
            for address in &addresses {
                while TcpStream::connect(address).await.is_err() {
                    sleep(Duration::from_millis(20)).await;
                }
            }
        };
        if timeout(SERVERS_UP, listening).await.is_err() {
            self.journal.warn("the servers do not listen yet; the other processes start and wait for them");
        }
        for index in others {
            self.start(index);
        }
        self.save();
    }

    fn start_due(&mut self, now: Instant) {
        for index in 0..self.memories.len() {
            if self.memories[index].start_at.is_some_and(|at| at <= now) {
                self.cluster.children[index].restarts += 1;
                self.start(index);
            }
        }
    }

    fn start(&mut self, index: usize) {
        let (child, memory) = (&mut self.cluster.children[index], &mut self.memories[index]);
        memory.start_at = None;
        match child::start(child, &self.dir) {
            Ok(mut running) => {
                child.pid = running.id();
                memory.started = Some(Instant::now());
                self.journal.log(&format!("{} started, pid {}", child.name, child.pid.unwrap_or(0)));
                self.running.spawn(async move { (index, running.wait().await) });
            }
            Err(error) => {
                child.last_exit = Some(format!("cannot be started: {error}"));
                let wait = memory.restarts.ended_after(Duration::ZERO);
                memory.start_at = Some(Instant::now() + wait);
                let seconds = wait.as_secs();
                self.journal.warn(&format!("{} cannot be started: {error}; next try in {seconds} s", child.name));
            }
        }
    }

    fn on_end(&mut self, ended: Result<(usize, io::Result<ExitStatus>), tokio::task::JoinError>) {
        let Ok((index, status)) = ended else { return };
        let (child, memory) = (&mut self.cluster.children[index], &mut self.memories[index]);
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let ran = memory.started.take().map(|at| at.elapsed()).unwrap_or_default();
        let wait = memory.restarts.ended_after(ran);
        memory.start_at = Some(Instant::now() + wait);
        self.journal.warn(&format!(
            "{} ended after {} s ({how}), starting again in {} s",
            child.name,
            ran.as_secs(),
            wait.as_secs()
        ));
        child.pid = None;
        child.last_exit = Some(how);
    }

    async fn stop_all(mut self) -> Result<(), Error> {
        for step in STOPPING {
            let grace = step.iter().map(|role| grace(*role)).max().unwrap_or_default();
            self.stop_step(step, Signal::TERM, grace).await;
            self.stop_step(step, Signal::KILL, KILLED_IN).await;
        }
        self.cluster.supervisor = None;
        Ok(self.cluster.store(&self.dir)?)
    }

    /// Signals the processes of these roles and waits until they have ended, at most `wait`. They are our own children: the
    /// kernel does not reuse the id of a child before we have waited for it.
    async fn stop_step(&mut self, roles: &[ProcessKind], signal: Signal, wait: Duration) {
        let concerned = |child: &&Child| roles.contains(&child.role) && child.pid.is_some();
        for child in self.cluster.children.iter().filter(concerned) {
            if signal == Signal::KILL {
                self.journal.warn(&format!("{} did not stop in time and is killed", child.name));
            }
            let pid = child.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
            // The process may have ended just now.
            let _ = pid.map(|pid| kill_process(pid, signal));
        }
        let deadline = Instant::now() + wait;
        while self.cluster.children.iter().any(|child| concerned(&child)) {
            tokio::select! {
                Some(ended) = self.running.join_next() => self.on_stop(ended),
                () = sleep_until(deadline) => return,
            }
        }
    }

    fn on_stop(&mut self, ended: Result<(usize, io::Result<ExitStatus>), tokio::task::JoinError>) {
        let Ok((index, status)) = ended else { return };
        let child = &mut self.cluster.children[index];
        child.pid = None;
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        self.journal.log(&format!("{} stopped ({how})", child.name));
    }
}

/// Sleeps until `at`; forever without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::state::Process;

    fn cluster(commands: &[(&str, ProcessKind, &str)]) -> Cluster {
        let child = |(name, role, script): &(&str, ProcessKind, &str)| Child {
            name: (*name).to_owned(),
            role: *role,
            listen: String::new(),
            pid: None,
            restarts: 0,
            last_exit: None,
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        };
        Cluster {
            cluster: "c".to_owned(),
            api: Vec::new(),
            sockets: Vec::new(),
            nats: String::new(),
            etcd: String::new(),
            nodes: Vec::new(),
            supervisor: None,
            children: commands.iter().map(child).collect(),
            ports: BTreeMap::new(),
        }
    }

    async fn until_state(dir: &Path, holds: impl Fn(&Cluster) -> bool) -> Cluster {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let cluster = Cluster::load(dir).unwrap().unwrap();
            if holds(&cluster) {
                return cluster;
            }
            assert!(Instant::now() < deadline, "never came to hold: {cluster:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn a_killed_process_is_restarted_and_all_stop_in_order() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        let note = dir.path().join("order");
        let script =
            |name: &str| format!("trap 'echo {name} >> {}; exit 0' TERM; while :; do sleep 0.05; done", note.display());
        let (agent, scheduler, api) = (script("agent"), script("scheduler"), script("apiserver"));
        let planned = cluster(&[
            ("scheduler-1", ProcessKind::Scheduler, &scheduler),
            ("agent-1", ProcessKind::Agent, &agent),
            ("apiserver-1", ProcessKind::Apiserver, &api),
        ]);
        planned.store(dir.path()).unwrap();
        let journal = Journal::Foreground(child::open_log(dir.path(), "supervisor").unwrap());
        let shutdown = Shutdown::new();
        let supervisor = Supervisor::new(dir.path(), journal).unwrap();
        let run = fabric::tasks::spawn("supervisor", supervisor.run(shutdown.clone()));

        let up = until_state(dir.path(), |c| c.children.iter().all(|child| child.pid.is_some())).await;
        let first = Process { pid: up.children[1].pid.unwrap(), command: up.children[1].command.clone() };
        child::signal_process(&first, Signal::KILL);
        let again = until_state(dir.path(), |c| c.children[1].restarts == 1 && c.children[1].pid.is_some()).await;
        assert_ne!(again.children[1].pid, Some(first.pid));
        assert!(again.children[1].last_exit.as_deref().unwrap().contains('9'), "{again:#?}");

        shutdown.trigger();
        run.await.unwrap().unwrap();
        let down = Cluster::load(dir.path()).unwrap().unwrap();
        let has_none = down.supervisor.is_none() && down.children.iter().all(|child| child.pid.is_none());
        assert!(has_none, "{down:#?}");
        let journal = child::last_lines(dir.path(), "supervisor", 3);
        let said: Vec<&str> = journal.lines().filter_map(|line| line.split_once(' ')).map(|(_, text)| text).collect();
        let ends = ["apiserver-1", "scheduler-1", "agent-1"].map(|name| format!("{name} stopped (exit status: 0)"));
        assert_eq!(said, ends);
    }

    #[tokio::test]
    async fn a_missing_program_is_reported_and_retried() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        let mut planned = cluster(&[("agent-1", ProcessKind::Agent, "")]);
        planned.children[0].command = vec!["/no/such/program".to_owned()];
        planned.store(dir.path()).unwrap();
        let journal = Journal::Foreground(child::open_log(dir.path(), "supervisor").unwrap());
        let shutdown = Shutdown::new();
        let run = Supervisor::new(dir.path(), journal).unwrap().run(shutdown.clone());
        let run = fabric::tasks::spawn("supervisor", run);
        let state = until_state(dir.path(), |c| c.children[0].last_exit.is_some()).await;
        assert!(state.children[0].last_exit.as_deref().unwrap().starts_with("cannot be started"));
        shutdown.trigger();
        run.await.unwrap().unwrap();
    }
}
