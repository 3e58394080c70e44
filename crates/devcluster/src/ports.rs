//! Finds ports for a cluster's processes: the ones it had before if they are still free, else new ones.
//!
//! New ports are taken from below the range that the kernel hands to outgoing connections and Docker to published
//! ports: a port found free there is still free a second later, when its process binds it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Where new ports are looked for.
const RANGE: Range<u16> = 20_000..32_000;

/// Why there are no ports.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port the user asked for is taken.
    #[error("port {port} for {name} is taken by {holder}; choose another with --port, or --port 0 for any free one")]
    Taken {
        /// The port.
        port: u16,
        /// What it is for.
        name: String,
        /// Who has it.
        holder: String,
    },
    /// A port the user asked for cannot be bound.
    #[error("port {port} for {name} cannot be used; choose another with --port")]
    Unusable {
        /// The port.
        port: u16,
        /// What it is for.
        name: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No free port anywhere.
    #[error("no free port between {} and {}; end some programs that listen there", RANGE.start, RANGE.end)]
    Exhausted,
}

/// A port for each of `names`: as `fixed` says, else as `before` if that is free, else a free one. `seed` says where
/// the search begins, so that two clusters that start at once look in different places.
pub fn choose(
    names: &[String],
    fixed: &BTreeMap<String, u16>,
    before: &BTreeMap<String, u16>,
    seed: u64,
) -> Result<BTreeMap<String, u16>, Error> {
    let mut chosen = BTreeMap::new();
    let mut used: BTreeSet<u16> = fixed.values().copied().collect();
    let mut candidates = candidates(seed);
    for name in names {
        let port = match (fixed.get(name), before.get(name)) {
            (Some(port), _) => check_fixed(name, *port)?,
            (None, Some(port)) if !used.contains(port) && bind(*port).is_ok() => *port,
            (None, _) => candidates.find(|port| !used.contains(port) && bind(*port).is_ok()).ok_or(Error::Exhausted)?,
        };
        used.insert(port);
        chosen.insert(name.clone(), port);
    }
    Ok(chosen)
}

/// The whole range once, beginning at a place that depends on `seed`.
fn candidates(seed: u64) -> impl Iterator<Item = u16> {
    let offset = u16::try_from(seed % u64::from(RANGE.end - RANGE.start)).unwrap_or(0);
    (RANGE.start + offset..RANGE.end).chain(RANGE.start..RANGE.start + offset)
}

fn check_fixed(name: &str, port: u16) -> Result<u16, Error> {
    match bind(port) {
        Ok(()) => Ok(port),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let holder = holder(port).unwrap_or_else(|| "another program".to_owned());
            Err(Error::Taken { port, name: name.to_owned(), holder })
        }
        Err(source) => Err(Error::Unusable { port, name: name.to_owned(), source }),
    }
}

/// The program that listens on a port, as far as this user may know.
fn holder(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inode = tables.iter().flat_map(|table| table.lines()).find_map(|line| listening_inode(line, port))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).find_map(|entry| {
        let mut files = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        files.find(|file| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == socket.as_str()))?;
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        Some(format!("{} (pid {})", name.trim(), entry.file_name().to_string_lossy()))
    })
}

/// The inode of the socket if a line of the kernel's table is about a listener on `port`.
fn listening_inode(line: &str, port: u16) -> Option<&str> {
    let mut words = line.split_whitespace();
    let local = words.nth(1)?;
    let state = words.nth(1)?;
    let of_port = local.rsplit(':').next().and_then(|hex| u16::from_str_radix(hex, 16).ok()) == Some(port);
    if of_port && state == "0A" { words.nth(5) } else { None }
}

fn bind(port: u16) -> std::io::Result<()> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn earlier_ports_are_kept_and_taken_ones_are_replaced() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let free = choose(&names("x"), &BTreeMap::new(), &BTreeMap::new(), 4711).unwrap()["x"];
        let before = BTreeMap::from([("a".to_owned(), free), ("b".to_owned(), taken.local_addr().unwrap().port())]);
        let chosen = choose(&names("a b c"), &BTreeMap::new(), &before, 99).unwrap();
        assert_eq!(chosen["a"], free);
        assert_ne!(chosen["b"], before["b"]);
        assert_eq!(chosen.values().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn a_taken_fixed_port_is_named_with_the_remedy() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let fixed = BTreeMap::from([("apiserver-1".to_owned(), port)]);
        let error = choose(&names("apiserver-1"), &fixed, &BTreeMap::new(), 0).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--port"), "{error}");
        assert!(error.contains(&format!("(pid {})", std::process::id())), "it was me: {error}");
    }

    #[test]
    fn the_search_covers_the_whole_range_once() {
        let all: BTreeSet<u16> = candidates(5_000).collect();
        assert_eq!(all.len(), usize::from(RANGE.end - RANGE.start));
        assert_eq!(candidates(5_000).next(), Some(25_000));
    }
}
