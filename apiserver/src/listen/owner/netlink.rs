//! The owner of one socket, asked from the kernel over netlink (`sock_diag(7)`).
//!
//! Numbers are in the byte order of the machine, addresses and ports in that of the network.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use super::{Ends, Row};

/// `SOCK_DIAG_BY_FAMILY`: type of the question and of its answer.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const TCP: u8 = 6;
/// Bytes of a netlink header.
const HEADER: usize = 16;
/// Bytes of a question.
const QUESTION: u32 = 72;
/// Where the ports and addresses of an answer begin.
const ANSWERED: usize = HEADER + 4;
const UID: usize = HEADER + 64;
const INODE: usize = HEADER + 68;

/// What the kernel knows of the client's socket; none when it cannot be asked or does not know the connection.
pub(super) fn look(ends: Ends) -> Option<Row> {
    read(&ask(&question(ends)).ok()?, ends)
}

fn ask(question: &[u8]) -> Result<Vec<u8>, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    send(&socket, question, SendFlags::empty())?;
    let mut answer = vec![0; 4096];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// The client's socket: its own address is our peer's, its remote one is ours.
fn question(ends: Ends) -> Vec<u8> {
    let (client, server) = (canonical(ends.client), canonical(ends.server));
    let family = if client.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut text = Vec::new();
    text.extend(QUESTION.to_ne_bytes());
    text.extend(BY_FAMILY.to_ne_bytes());
    text.extend(REQUEST.to_ne_bytes());
    text.extend([0; 8]);
    // All states.
    text.extend([family, TCP, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    text.extend(client.port().to_be_bytes());
    text.extend(server.port().to_be_bytes());
    text.extend(sixteen(client.ip()));
    text.extend(sixteen(server.ip()));
    // Any interface; no cookie.
    text.extend([0; 4]);
    text.extend([0xff; 8]);
    text
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An address in 16 bytes: those of IPv4 come first and the rest is zero.
fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// The kernel answers with a listening socket when it does not know the connection, so both ends are compared.
fn read(answer: &[u8], ends: Ends) -> Option<Row> {
    if number(answer, 4).map(u16::from_ne_bytes)? != BY_FAMILY {
        return None;
    }
    let family = *answer.get(HEADER)?;
    let end = |port: usize, address: usize| {
        let port = u16::from_be_bytes(number(answer, ANSWERED + port)?);
        Some(SocketAddr::new(address_at(answer, family, ANSWERED + address)?, port))
    };
    if (end(0, 4)?, end(2, 20)?) != (canonical(ends.client), canonical(ends.server)) {
        return None;
    }
    let uid = u32::from_ne_bytes(number(answer, UID)?);
    Some(Row { uid, inode: u64::from(u32::from_ne_bytes(number(answer, INODE)?)) })
}

fn address_at(answer: &[u8], family: u8, start: usize) -> Option<IpAddr> {
    Some(match family {
        AF_INET => IpAddr::from(number::<4>(answer, start)?),
        _ => IpAddr::from(number::<16>(answer, start)?).to_canonical(),
    })
}

fn number<const SIZE: usize>(text: &[u8], start: usize) -> Option<[u8; SIZE]> {
    text.get(start..start + SIZE)?.try_into().ok()
}
