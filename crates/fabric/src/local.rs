//! Real servers on this machine, for `deployctl up` and for tests: nats-server and etcd.
//!
//! Each lives in its own process group, so that Ctrl-C in a terminal reaches only us and we decide who stops when. Each
//! keeps its port and directory over `kill -9` and restart. Dropping a server kills it.

mod etcd;
mod nats;
mod server;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub use etcd::{Etcd, EtcdServer, etcd_arguments};
pub use nats::{Nats, NatsServer, Syncing, nats_config};
pub use server::{Error, Kind, Server};

/// Where a program is: in `$DEPLOYD_BIN_DIR`, in `.deployd/bin` of the nearest directory above the working directory or the
/// executable, or on `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let chosen = std::env::var_os("DEPLOYD_BIN_DIR").map(PathBuf::from);
    let ours = [std::env::current_dir().ok(), std::env::current_exe().ok()]
        .into_iter()
        .flatten()
        .flat_map(|start| start.ancestors().map(|above| above.join(".deployd").join("bin")).collect::<Vec<_>>());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // /usr/local/bin is where a hand-installed server goes; a minimal PATH may lack it.
    let usual = ["/usr/local/bin", "/usr/bin"].map(PathBuf::from);
    chosen
        .into_iter()
        .chain(ours)
        .chain(on_path)
        .chain(usual)
        .map(|directory| directory.join(program))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A port of 127.0.0.1 that was free a moment ago; 0 when there is none. It lies below the range from which the kernel picks
/// ports of outgoing connections (32768 to 60999): none of those can take it before the server that it is for does.
pub fn free_port() -> u16 {
    const FIRST: u32 = 24_000;
    const COUNT: u32 = 8_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that look at the same time begin at different places.
    let begin = std::process::id().wrapping_mul(61);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let candidates = (0..COUNT).map(|_| FIRST + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
    candidates.filter_map(|port| u16::try_from(port).ok()).find(is_free).unwrap_or(0)
}
