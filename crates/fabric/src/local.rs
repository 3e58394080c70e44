//! nats-server and etcd as child processes, for `deployctl up` and for tests.
//!
//! Each has its own process group, so that Ctrl-C in a terminal reaches only deployctl, which stops the servers last.
//! Each keeps its port and directory across `kill -9` and restart. Dropping a server kills it.

mod etcd;
mod nats;
mod server;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub use etcd::{Etcd, EtcdServer, etcd_arguments};
pub use nats::{Nats, NatsServer, Syncing, nats_config, open_accounts};
pub use server::{Error, Kind, Server};

/// Path of a program: in `$DEPLOYD_BIN_DIR`, in `.deployd/bin` of the nearest directory above the working directory or
/// the executable, or in `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let chosen = std::env::var_os("DEPLOYD_BIN_DIR").map(PathBuf::from);
    let ours = [std::env::current_dir().ok(), std::env::current_exe().ok()]
        .into_iter()
        .flatten()
        .flat_map(|start| start.ancestors().map(|above| above.join(".deployd").join("bin")).collect::<Vec<_>>());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // A minimal PATH may lack /usr/local/bin, where administrators install servers.
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

/// A port of 127.0.0.1 that is free now; 0 when there is none. It is below the kernel's range for outgoing connections
/// (32768 to 60999), so that none of them takes it before the server does.
pub fn free_port() -> u16 {
    const FIRST: u32 = 24_000;
    const COUNT: u32 = 8_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that search at the same time start at different ports.
    let start = std::process::id().wrapping_mul(61);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let candidates = (0..COUNT).map(|_| FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
    candidates.filter_map(|port| u16::try_from(port).ok()).find(is_free).unwrap_or(0)
}
