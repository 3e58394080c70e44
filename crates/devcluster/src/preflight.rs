//! Checks that the machine has the programs that a cluster needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plan::{Machine, Programs};

/// Our own processes.
const OURS: [&str; 4] = ["deployd-apiserver", "deployd-scheduler", "deployd-agent", "deployd-notifier"];
/// Oldest NATS server that keeps what it acknowledged, and that we test with.
const NATS_AT_LEAST: Version = Version(2, 12, 0);
/// Oldest etcd we test with.
const ETCD_AT_LEAST: Version = Version(3, 4, 22);
/// These releases of etcd can corrupt their data when killed.
const ETCD_CORRUPTING: [Version; 2] = [Version(3, 5, 0), Version(3, 5, 5)];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Missing(#[from] fabric::local::Missing),
    #[error("{program} is version {found}, {wanted}; `./deploy/need` gets a good one into .deployd/bin")]
    Version { program: String, found: String, wanted: String },
    #[error("{0} is not there; build it with `cargo build --release`, or start with ./deploy/up, which does")]
    NotBuilt(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

/// Finds every program.
pub fn programs() -> Result<Programs, Error> {
    let nats = fabric::local::find("nats-server")?;
    let etcd = fabric::local::find("etcd")?;
    check("nats-server", &version_text(&nats), nats_flaw)?;
    check("etcd", &version_text(&etcd), etcd_flaw)?;
    let here = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)).unwrap_or_default();
    match OURS.iter().map(|name| here.join(name)).find(|path| !path.is_file()) {
        Some(path) => Err(Error::NotBuilt(path)),
        None => Ok(Programs { etcd, nats, ours: here }),
    }
}

/// What this machine has.
pub fn machine() -> Machine {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Without /proc/meminfo: enough for the demo.
    let memory = total_memory(&text).unwrap_or(1 << 30);
    Machine { memory, cpus: u32::try_from(cores).unwrap_or(1) }
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// The version text of a server.
fn version_text(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn check(program: &str, said: &str, flaw: fn(Version) -> Option<String>) -> Result<(), Error> {
    // An unknown version format is more likely new than old.
    let Some(version) = version(said) else { return Ok(()) };
    match flaw(version) {
        None => Ok(()),
        Some(wanted) => {
            let found = format!("{}.{}.{}", version.0, version.1, version.2);
            Err(Error::Version { program: program.to_owned(), found, wanted })
        }
    }
}

fn nats_flaw(version: Version) -> Option<String> {
    let least = NATS_AT_LEAST;
    (version < least).then(|| format!("at least {}.{} is needed", least.0, least.1))
}

fn etcd_flaw(version: Version) -> Option<String> {
    let [first, last] = ETCD_CORRUPTING;
    if (first..=last).contains(&version) {
        return Some("which can corrupt its data when it is killed".to_owned());
    }
    let least = ETCD_AT_LEAST;
    (version < least).then(|| format!("at least {}.{}.{} is needed", least.0, least.1, least.2))
}

/// The first `a.b.c` of a text.
fn version(text: &str) -> Option<Version> {
    text.split(|c: char| c.is_whitespace() || c == 'v').find_map(|word| {
        let mut numbers = word.split(['.', '-', '+', '~']).map(str::parse::<u32>);
        Some(Version(numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_the_servers_texts() {
        assert_eq!(version("nats-server: v2.15.1\n"), Some(Version(2, 15, 1)));
        assert_eq!(version("etcd Version: 3.4.23\nGit SHA: Not provided\n"), Some(Version(3, 4, 23)));
        assert_eq!(version("nats-server: v2.12.0-RC.3"), Some(Version(2, 12, 0)));
        assert_eq!(version("no version"), None);
    }

    #[test]
    fn old_and_dangerous_servers_are_refused_with_the_remedy() {
        let refused = |said: &str, flaw| check("x", said, flaw).unwrap_err().to_string();
        assert!(refused("v2.9.10", nats_flaw).contains("at least 2.12"));
        assert!(refused("Version: 3.5.1", etcd_flaw).contains("corrupt"));
        assert!(refused("Version: 3.3.10", etcd_flaw).contains("./deploy/need"));
        assert!(check("x", "v2.12.0", nats_flaw).is_ok());
        assert!(check("x", "Version: 3.4.23", etcd_flaw).is_ok());
        assert!(check("x", "Version: 3.5.6", etcd_flaw).is_ok());
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:       8 kB\n"), Some(8192));
        assert_eq!(total_memory(""), None);
        assert!(machine().cpus >= 1);
    }
}
