//! Which user of this machine holds the other end of a loopback connection.
//!
//! The kernel lists every TCP socket with its owner in `/proc/net/tcp` and `/proc/net/tcp6`. The row of the client has our
//! peer's address as its own address and ours as its remote one. A client that uses an IPv6 socket for an IPv4 address is in
//! the second file, with addresses such as `::ffff:127.0.0.1`.
//!
//! A socket that its process has closed stays in the list for a while and then shows the owner 0, which is root. Its inode is 0
//! too, so such a row says nothing. Owner and inode are read one after the other: a row of root therefore counts only when a
//! second look shows the same.

use std::fmt::Write as _;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Longer than any read of the list takes; without an answer the owner is unknown.
const DEADLINE: Duration = Duration::from_secs(1);
/// Concurrent reads; more wait within their deadline. A read costs CPU, so a client that reconnects all the time must not
/// occupy every core.
static READERS: Semaphore = Semaphore::const_new(1);
/// A longer list is read up to here: 150 bytes a row are 400,000 connections.
const LONGEST_LIST: u64 = 64 << 20;
const ROOT: u32 = 0;
/// What the kernel shows for users that do not exist in our user namespace.
const UNMAPPED: u32 = 65_534;

/// Both ends of a connection, as we see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
}

/// The user at the other end. None for a connection from elsewhere, for a socket that is gone, and when the kernel does not say.
pub(super) async fn of(ends: Ends) -> Option<u32> {
    if !ends.client.ip().to_canonical().is_loopback() {
        return None;
    }
    let reading = async {
        let permit = READERS.acquire().await.ok()?;
        let read = tokio::task::spawn_blocking(move || {
            let _held = permit;
            confirmed(|| look(ends))
        });
        read.await.ok().flatten()
    };
    timeout(DEADLINE, reading).await.ok().flatten()
}

/// One row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    uid: u32,
    inode: u64,
}

fn confirmed(mut look: impl FnMut() -> Option<Row>) -> Option<u32> {
    let row = look().filter(|row| row.inode != 0 && row.uid != UNMAPPED)?;
    let is_certain = row.uid != ROOT || look() == Some(row);
    is_certain.then_some(row.uid)
}

fn look(ends: Ends) -> Option<Row> {
    let mapped = "/proc/net/tcp6";
    let files: &[&str] = if ends.client.ip().to_canonical().is_ipv4() { &["/proc/net/tcp", mapped] } else { &[mapped] };
    files.iter().find_map(|file| row(&list(file)?, ends))
}

fn list(file: &str) -> Option<String> {
    let mut text = String::with_capacity(16 << 10);
    // A list that cannot be read is the same as one without the row.
    std::fs::File::open(file).ok()?.take(LONGEST_LIST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The row of the client in `list`.
fn row(list: &str, ends: Ends) -> Option<Row> {
    let (client, server) = (ends.client, ends.server);
    let needle = |address: fn(IpAddr) -> String| {
        format!(" {}:{:04X} {}:{:04X} ", address(client.ip()), client.port(), address(server.ip()), server.port())
    };
    let is_v4 = client.ip().to_canonical().is_ipv4() && server.ip().to_canonical().is_ipv4();
    let (short, long) = (is_v4.then(|| needle(in_four)).unwrap_or_default(), needle(in_sixteen));
    let found = |text: &str| if text.is_empty() { None } else { list.find(text).map(|at| &list[at + text.len()..]) };
    let rest = found(&short).or_else(|| found(&long))?.lines().next()?;
    // state tx:rx timer:when retransmits uid timeout inode
    let mut words = rest.split_ascii_whitespace().skip(4);
    let uid = words.next()?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some(Row { uid, inode })
}

/// An IPv4 address as the kernel writes it: 32 bits in the byte order of the machine.
fn in_four(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("{:08X}", u32::from_ne_bytes(address.octets())),
        IpAddr::V6(_) => String::new(),
    }
}

/// An address of an IPv6 socket as the kernel writes it: four times 32 bits.
fn in_sixteen(address: IpAddr) -> String {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    words(octets).into_iter().fold(String::with_capacity(32), |mut text, word| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{word:08X}");
        text
    })
}

fn words(address: Ipv6Addr) -> [u32; 4] {
    let octets = address.octets();
    std::array::from_fn(|index| {
        let start = 4 * index;
        u32::from_ne_bytes([octets[start], octets[start + 1], octets[start + 2], octets[start + 3]])
    })
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:232B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0\n   \
        1: 0100007F:232B 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1\n   \
        2: 0100007F:D431 0100007F:232B 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 20 4 30 10 -1\n   \
        3: 0100007F:D432 0100007F:232B 06 00000000:00000000 03:000017A1 00000000     0        0 0 3 0\n";
    const TCP6: &str = "   0: 0000000000000000FFFF00000100007F:D433 0000000000000000FFFF00000100007F:232B 01 \
        00000000:00000000 00:00000000 00000000  1001        0 14 1 0 20 4 30 10 -1\n   \
        1: 00000000000000000000000001000000:D434 00000000000000000000000001000000:232B 01 \
        00000000:00000000 00:00000000 00000000  1002        0 15 1 0 20 4 30 10 -1\n";

    fn ends(client: &str, server: &str) -> Ends {
        Ends { client: client.parse().unwrap(), server: server.parse().unwrap() }
    }

    #[test]
    fn the_row_of_the_client_is_found_in_both_lists() {
        let uid = |list, client, server| row(list, ends(client, server)).map(|row| row.uid);
        assert_eq!(uid(TCP, "127.0.0.1:54321", "127.0.0.1:9003"), Some(1000), "not our own end, row 1");
        assert_eq!(uid(TCP, "[::ffff:127.0.0.1]:54321", "[::ffff:127.0.0.1]:9003"), Some(1000), "we listen on ::");
        assert_eq!(uid(TCP6, "127.0.0.1:54323", "127.0.0.1:9003"), Some(1001), "an IPv6 socket with an IPv4 address");
        assert_eq!(uid(TCP6, "[::1]:54324", "[::1]:9003"), Some(1002));
        assert_eq!(uid(TCP, "127.0.0.1:54321", "127.0.0.1:9004"), None, "another server");
        assert_eq!(uid(TCP, "127.0.0.2:54321", "127.0.0.1:9003"), None, "another address");
        assert_eq!(uid("", "127.0.0.1:54321", "127.0.0.1:9003"), None);
    }

    #[test]
    fn a_closed_socket_that_the_kernel_shows_as_roots_is_nobody() {
        let closed = row(TCP, ends("127.0.0.1:54322", "127.0.0.1:9003"));
        assert_eq!(closed, Some(Row { uid: 0, inode: 0 }));
        assert_eq!(confirmed(|| closed), None);
        // Closed between the reads of inode and owner: the second look shows it.
        let mut looks = [Some(Row { uid: 0, inode: 7 }), Some(Row { uid: 0, inode: 0 })].into_iter();
        assert_eq!(confirmed(|| looks.next().flatten()), None);
        assert_eq!(confirmed(|| Some(Row { uid: 0, inode: 7 })), Some(0), "root itself");
        assert_eq!(confirmed(|| Some(Row { uid: UNMAPPED, inode: 7 })), None, "a user of another namespace");
    }

    #[tokio::test]
    async fn a_connection_from_another_machine_is_not_looked_up() {
        assert_eq!(of(ends("10.0.0.1:54321", "10.0.0.2:9003")).await, None);
    }
}
