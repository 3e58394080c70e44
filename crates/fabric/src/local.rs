//! nats-server and etcd as child processes, for `deployctl up` and for tests.
//!
//! Each has its own process group, so that Ctrl-C in a terminal reaches only deployctl, which stops the servers last.
//! Each keeps its port and directory across `kill -9` and restart. Dropping a server kills it.

mod etcd;
mod nats;
mod programs;
mod server;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

pub use etcd::{Etcd, EtcdPorts, EtcdServer, etcd_arguments, etcd_tls_arguments};
pub use nats::{Nats, NatsServer, Syncing, nats_config, open_accounts};
pub use programs::{Missing, distrust, find, installation};
pub use server::{Error, Kind, Server};

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
