//! The machine that a run was measured on.

use std::time::SystemTime;

use contract::time::Timestamp;
use serde::Serialize;

use super::docker::EngineFacts;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) engine: EngineFacts,
    pub(crate) build: &'static str,
    pub(crate) cores: usize,
    /// Load averages when the run began.
    pub(crate) load: String,
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn look(engine: EngineFacts) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(0));
        Self {
            engine,
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load: load_average(),
            date: now.to_string(),
        }
    }

    pub(crate) fn shown(&self) -> String {
        let Self { engine, build, cores, load, date } = self;
        format!(
            "{date}, {build} build, {cores} cores, {memory} GiB, Docker {version} ({storage}), Linux {kernel}, load at the start {load}",
            memory = engine.memory >> 30,
            version = engine.version,
            storage = engine.storage,
            kernel = engine.kernel,
        )
    }
}

/// The load of the last 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Bytes of available memory; none if the kernel does not report them.
pub(crate) fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}
