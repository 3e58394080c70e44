//! Which user of this machine holds the other end of a loopback connection.
//!
//! The kernel answers for one socket over netlink, in microseconds. Where it does not (a sandbox without netlink, a kernel without
//! this part), its list of all sockets is read, which takes milliseconds.
//!
//! A socket that its process has closed stays known for a while and then has the owner 0, which is root. Its inode is 0 too, so such
//! an answer says nothing. The kernel reads owner and inode one after the other: root therefore counts only when a second look
//! shows the same.

mod list;
mod netlink;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Longer than any read of the list takes; without an answer the owner is unknown.
const DEADLINE: Duration = Duration::from_secs(1);
/// Concurrent reads of the list; more wait within their deadline. A read costs CPU, so a client that reconnects all the time must
/// not occupy every core.
static READERS: Semaphore = Semaphore::const_new(1);
const ROOT: u32 = 0;
/// What the kernel shows for users that do not exist in our user namespace.
const UNMAPPED: u32 = 65_534;

/// Both ends of a connection, as we see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

/// What the kernel says about a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    uid: u32,
    inode: u64,
}

/// The user at the other end. None for a connection from elsewhere, for a socket that is gone, and when the kernel does not say.
pub async fn of(ends: Ends) -> Option<u32> {
    if !ends.client.ip().to_canonical().is_loopback() {
        return None;
    }
    // It does not wait: the kernel has answered before the question returns.
    if netlink::look(ends).is_some() {
        return confirmed(|| netlink::look(ends));
    }
    let reading = async {
        let permit = READERS.acquire().await.ok()?;
        let read = tokio::task::spawn_blocking(move || {
            let _held = permit;
            confirmed(|| list::look(ends))
        });
        read.await.ok().flatten()
    };
    timeout(DEADLINE, reading).await.ok().flatten()
}

/// The user of a unix socket's client, unless it is from another user namespace.
pub fn of_credentials(uid: u32) -> Option<u32> {
    (uid != UNMAPPED).then_some(uid)
}

fn confirmed(mut look: impl FnMut() -> Option<Row>) -> Option<u32> {
    let row = look().filter(|row| row.inode != 0 && row.uid != UNMAPPED)?;
    let is_certain = row.uid != ROOT || look() == Some(row);
    is_certain.then_some(row.uid)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_closed_socket_that_the_kernel_shows_as_roots_proves_nothing() {
        let row = |uid, inode| Some(Row { uid, inode });
        assert_eq!(confirmed(|| row(0, 0)), None);
        // Closed between the reads of inode and owner: the second look shows it.
        let mut looks = [row(0, 7), row(0, 0)].into_iter();
        assert_eq!(confirmed(|| looks.next().flatten()), None);
        assert_eq!(confirmed(|| row(0, 7)), Some(0), "root itself");
        assert_eq!(confirmed(|| row(1000, 7)), Some(1000));
        assert_eq!(confirmed(|| row(UNMAPPED, 7)), None, "a user of another namespace");
    }

    #[tokio::test]
    async fn a_connection_from_another_machine_is_not_looked_up() {
        let ends =
            |client: &str, server: &str| Ends { client: client.parse().unwrap(), server: server.parse().unwrap() };
        assert_eq!(of(ends("10.0.0.1:54321", "10.0.0.2:9003")).await, None);
    }

    /// Both ways must say the same, for every kind of socket that a client may use.
    #[test]
    fn netlink_and_the_list_agree() {
        let own = rustix::process::geteuid().as_raw();
        for (listen, connect) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "::ffff:127.0.0.1")] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((connect, port)).unwrap();
            let (accepted, from) = listener.accept().unwrap();
            let ends = Ends { client: from, server: accepted.local_addr().unwrap() };
            let (asked, listed) = (netlink::look(ends), list::look(ends));
            assert_eq!(listed.map(|row| row.uid), Some(own), "{listen}");
            // A kernel or a sandbox may leave netlink out; then the list alone counts.
            assert!(asked.is_none() || asked == listed, "{listen}: {asked:?}, {listed:?}");
            drop(client);
            for row in [netlink::look(ends), list::look(ends)].into_iter().flatten() {
                assert_eq!(row.inode, 0, "{listen}: closed");
            }
        }
    }
}
