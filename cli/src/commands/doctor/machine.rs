//! Checks of this machine: what a local cluster or an agent needs, and what deployctl stores here.
//!
//! They end in warnings: a machine that only controls a cluster needs none of it.

use std::net::TcpListener;
use std::path::Path;

use devcluster::docker::Engine;
use devcluster::state::Cluster;
use rustix::process::{Resource, getrlimit};

use super::Check;
use crate::args::Endpoint;
use crate::contexts::Contexts;
use crate::endpoint;
use crate::output::table::bytes;

/// Free memory that a local cluster and a few containers need.
const MEMORY: u64 = 512 << 20;
/// Free space that state, logs and data need.
const DISK: u64 = 1 << 30;
/// Open files of a process with thousands of connections.
const FILES: u64 = 1024;

pub(super) async fn checks(endpoint: &Endpoint) -> Vec<Check> {
    let dir = endpoint::directory(endpoint);
    vec![
        Check::warn("operating system", operating_system()),
        Check::warn("cores", cores()),
        Check::warn("load", load()),
        Check::warn("free memory", free_memory()),
        Check::warn("free disk space", space(&dir, |stat| stat.f_bavail.saturating_mul(stat.f_frsize), DISK, bytes)),
        Check::warn("free inodes", space(&dir, |stat| stat.f_favail, 10_000, |count| count.to_string())),
        Check::warn("open files", open_files()),
        Check::warn("control groups", control_groups()),
        Check::warn("IP forwarding", forwarding()),
        Check::warn("loopback ports", loopback()),
        Check::warn("Docker engine", docker().await),
        Check::warn("nats-server", program("nats-server")),
        Check::warn("etcd", program("etcd")),
        Check::warn("local cluster", local_cluster(&dir)),
        Check::fail("contexts", contexts()),
    ]
}

fn operating_system() -> Result<String, String> {
    let text = format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH);
    if std::env::consts::OS == "linux" { Ok(text) } else { Err(format!("{text}: agents need Linux")) }
}

fn cores() -> Result<String, String> {
    std::thread::available_parallelism().map(|count| format!("{count} usable")).map_err(|error| error.to_string())
}

fn load() -> Result<String, String> {
    let text = read("/proc/loadavg")?;
    let load: f64 = text.split(' ').next().and_then(|first| first.parse().ok()).ok_or("/proc/loadavg is unreadable")?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let text = format!("{load} over a minute, {cores} cores");
    // Four waiting tasks a core: heartbeats begin to be late.
    if load <= 4.0 * f64::from(u32::try_from(cores).unwrap_or(u32::MAX)) {
        Ok(text)
    } else {
        Err(format!("{text}: too busy"))
    }
}

fn free_memory() -> Result<String, String> {
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).ok_or("/proc/meminfo is unreadable")?;
    let kibibytes: u64 =
        line.trim().trim_end_matches("kB").trim().parse().map_err(|_| "/proc/meminfo is unreadable")?;
    at_least(kibibytes.saturating_mul(1024), MEMORY, bytes)
}

fn space(
    dir: &Path,
    of: impl Fn(&rustix::fs::StatVfs) -> u64,
    least: u64,
    shown: impl Fn(u64) -> String,
) -> Result<String, String> {
    // The directory may not exist yet; its file system is that of the nearest parent.
    let present = dir.ancestors().find(|path| path.exists()).unwrap_or_else(|| Path::new("/"));
    let stat = rustix::fs::statvfs(present).map_err(|error| format!("{}: {error}", present.display()))?;
    at_least(of(&stat), least, shown).map(|text| format!("{text} at {}", present.display()))
}

fn open_files() -> Result<String, String> {
    at_least(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), FILES, |count| count.to_string())
        .map_err(|text| format!("{text}; `ulimit -n 65536` raises it"))
}

fn control_groups() -> Result<String, String> {
    let is_unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if is_unified { Ok("version 2".to_owned()) } else { Err("not version 2: limits may not be reported".to_owned()) }
}

fn forwarding() -> Result<String, String> {
    match read("/proc/sys/net/ipv4/ip_forward")?.trim() {
        "1" => Ok("on".to_owned()),
        _ => Err("off: containers reach no other machine; `sysctl net.ipv4.ip_forward=1`".to_owned()),
    }
}

fn loopback() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("no port on 127.0.0.1: {error}"))?;
    listener.local_addr().map(|_| "a port on 127.0.0.1 is free".to_owned()).map_err(|error| error.to_string())
}

async fn docker() -> Result<String, String> {
    let refused = |error| format!("{error}; `deployctl up` and agents need it");
    Engine::connect().await.map(|_| format!("answers at {}", devcluster::docker::socket().display())).map_err(refused)
}

fn program(name: &str) -> Result<String, String> {
    let found = fabric::local::find(name).map(|path| path.display().to_string());
    found.map_err(|error| format!("{error}; `deployctl up` needs it"))
}

fn local_cluster(dir: &Path) -> Result<String, String> {
    let running = Cluster::load(dir).map_err(|error| error.to_string())?.filter(|it| it.supervisor.is_some());
    match running {
        Some(cluster) => Ok(format!("{} runs from {}", cluster.cluster, dir.display())),
        None => Ok(format!("none runs from {}", dir.display())),
    }
}

fn contexts() -> Result<String, String> {
    let contexts = Contexts::load().map_err(|error| error.to_string())?;
    let current = contexts.current().map_err(|error| error.to_string())?;
    let current = current.map_or_else(|| "none in use".to_owned(), |context| format!("{} in use", context.name));
    Ok(format!("{} stored, {current}", contexts.contexts.len()))
}

fn at_least(found: u64, least: u64, shown: impl Fn(u64) -> String) -> Result<String, String> {
    if found >= least {
        Ok(shown(found))
    } else {
        Err(format!("{}, should be {} at least", shown(found), shown(least)))
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}
