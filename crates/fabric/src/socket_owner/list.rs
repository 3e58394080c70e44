//! The owner of a socket in `/proc/self/net/tcp` and `/proc/self/net/tcp6`, where the kernel lists every TCP socket. `/proc/net` is
//! missing in a unit with `ProcSubset=pid`.
//!
//! The row of the client has our peer's address as its own address and ours as its remote one. A client that uses an IPv6 socket
//! for an IPv4 address is in the second file, with addresses such as `::ffff:127.0.0.1`.

use std::fmt::Write as _;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};

use super::{Ends, Row};

/// A longer list is read up to here: 150 bytes a row are 400,000 connections.
const LONGEST_LIST: u64 = 64 << 20;

pub(super) fn look(ends: Ends) -> Option<Row> {
    let mapped = "/proc/self/net/tcp6";
    let files: &[&str] =
        if ends.client.ip().to_canonical().is_ipv4() { &["/proc/self/net/tcp", mapped] } else { &[mapped] };
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
    let needles = [is_v4.then(|| needle(in_four)), Some(needle(in_sixteen))];
    let after = |text: &String| list.find(text).map(|at| &list[at + text.len()..]);
    let rest = needles.iter().flatten().find_map(after)?.lines().next()?;
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

#[cfg(target_endian = "little")]
#[cfg(test)]
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
    fn a_closed_socket_is_listed_as_roots_without_an_inode() {
        let closed = row(TCP, ends("127.0.0.1:54322", "127.0.0.1:9003"));
        assert_eq!(closed, Some(Row { uid: 0, inode: 0 }));
    }
}
