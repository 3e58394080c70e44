//! Limits per peer, so that one client cannot exhaust the server.
//!
//! A peer is an IPv4 address, a /64 network of IPv6, or a user on the unix socket. When a peer, or all peers together, have too many connections, a new
//! connection closes the oldest idle one (waiting for a request or for the rest of its head). So half-open requests never
//! lock out a client, not even one behind the same address.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabric::shutdown::Shutdown;

/// Whose limits apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An IPv4 address, or the first address of a /64 network.
    Address(IpAddr),
    /// A user of this machine, on the unix socket; none when the kernel does not say who.
    User(Option<u32>),
}

/// The peer behind an address.
pub fn of(address: IpAddr) -> Source {
    Source::Address(match address.to_canonical() {
        IpAddr::V6(address) => {
            // A host usually has 2^64 addresses of its own.
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    })
}

/// A limited number of permits, in total and per peer, or per owner of a token; clones share them.
#[derive(Debug, Clone)]
pub struct PeerLimit<P: Eq + Hash = Source> {
    taken: Arc<Mutex<HashMap<P, usize>>>,
    most: usize,
    per_peer: usize,
}

/// Which limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    Peer,
    /// The limit of all peers together.
    All,
}

/// Dropping it releases it.
#[derive(Debug)]
pub struct Permit<P: Eq + Hash = Source> {
    taken: Arc<Mutex<HashMap<P, usize>>>,
    peer: P,
}

impl<P: Eq + Hash + Clone> PeerLimit<P> {
    pub fn new(most: usize, per_peer: usize) -> Self {
        Self { taken: Arc::default(), most, per_peer }
    }

    pub fn acquire(&self, peer: P) -> Result<Permit<P>, Full> {
        let mut taken = lock(&self.taken);
        if taken.get(&peer).is_some_and(|own| *own >= self.per_peer) {
            return Err(Full::Peer);
        }
        if taken.values().sum::<usize>() >= self.most {
            return Err(Full::All);
        }
        *taken.entry(peer.clone()).or_default() += 1;
        Ok(Permit { taken: self.taken.clone(), peer })
    }
}

impl<P: Eq + Hash> Drop for Permit<P> {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(own) = taken.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

/// All open connections; clones share them.
#[derive(Debug, Clone)]
pub struct Connections {
    open: Arc<Mutex<Open>>,
    most: usize,
    per_peer: usize,
}

#[derive(Debug, Default)]
struct Open {
    /// Counts up: a lower number is an older connection.
    last: u64,
    count: usize,
    by_peer: HashMap<Source, BTreeMap<u64, Arc<ConnectionState>>>,
}

#[derive(Debug, Default)]
struct ConnectionState {
    /// Answering a request.
    is_busy: AtomicBool,
    closed: Shutdown,
}

/// One connection; dropping it makes room for another.
#[derive(Debug)]
pub struct Connection {
    connections: Connections,
    pub peer: Source,
    number: u64,
    state: Arc<ConnectionState>,
}

/// Marks a connection as busy until dropped.
#[derive(Debug)]
pub struct Busy(Arc<ConnectionState>);

impl Connections {
    pub fn new(most: usize, per_peer: usize) -> Self {
        Self { open: Arc::default(), most, per_peer }
    }

    /// Admits a connection, closing an idle one if the limits require it. None when no connection is idle.
    pub fn admit(&self, peer: Source) -> Option<Connection> {
        let mut open = lock(&self.open);
        if open.by_peer.get(&peer).is_some_and(|own| own.len() >= self.per_peer) {
            open.close_oldest(peer)?;
        } else if open.count >= self.most {
            open.close_one()?;
        }
        open.last += 1;
        open.count += 1;
        let (number, state) = (open.last, Arc::new(ConnectionState::default()));
        open.by_peer.entry(peer).or_default().insert(number, state.clone());
        Some(Connection { connections: self.clone(), peer, number, state })
    }

    /// Closes an idle connection of the peer with the most connections, to free a file descriptor.
    pub fn relieve(&self) {
        // If no connection is idle, nothing can be done.
        let _ = lock(&self.open).close_one();
    }
}

impl Open {
    /// Closes the oldest idle connection of a peer.
    fn close_oldest(&mut self, peer: Source) -> Option<()> {
        let own = self.by_peer.get(&peer)?;
        let is_idle = |state: &ConnectionState| !state.is_busy.load(Ordering::Acquire);
        let number = own.iter().find(|(_, state)| is_idle(state)).map(|(number, _)| *number)?;
        if let Some(state) = self.remove(peer, number) {
            state.closed.trigger();
        }
        Some(())
    }

    fn close_one(&mut self) -> Option<()> {
        let mut peers: Vec<(usize, Source)> = self.by_peer.iter().map(|(peer, own)| (own.len(), *peer)).collect();
        peers.sort_unstable_by(|a, b| b.cmp(a));
        peers.into_iter().find_map(|(_, peer)| self.close_oldest(peer))
    }

    fn remove(&mut self, peer: Source, number: u64) -> Option<Arc<ConnectionState>> {
        let own = self.by_peer.get_mut(&peer)?;
        let state = own.remove(&number)?;
        self.count -= 1;
        if own.is_empty() {
            self.by_peer.remove(&peer);
        }
        Some(state)
    }
}

impl Connection {
    /// Call when a request arrives: a busy connection is not closed in favour of another.
    pub fn begin(&self) -> Busy {
        self.state.is_busy.store(true, Ordering::Release);
        Busy(self.state.clone())
    }

    /// Returns when this connection was closed in favour of another.
    pub async fn closed(&self) {
        self.state.closed.wait().await;
    }

    pub fn is_busy(&self) -> bool {
        self.state.is_busy.load(Ordering::Acquire)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(lock(&self.connections.open).remove(self.peer, self.number));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Ordering::Release);
    }
}

/// No code panics while it holds one of these locks, so a poisoned value is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn peer(number: u8) -> Source {
        of(IpAddr::from([10, 0, 0, number]))
    }

    fn is_closed(connection: &Connection) -> bool {
        connection.closed().now_or_never().is_some()
    }

    #[test]
    fn a_peer_with_too_many_connections_loses_its_oldest_idle_one() {
        let connections = Connections::new(100, 3);
        let mine: Vec<Connection> = (0..3).filter_map(|_| connections.admit(peer(1))).collect();
        let other = connections.admit(peer(2)).expect("admitted");
        let _request = mine[0].begin();
        let fourth = connections.admit(peer(1)).expect("admitted");
        let closed: Vec<bool> = mine.iter().chain([&other, &fourth]).map(is_closed).collect();
        assert_eq!(closed, [false, true, false, false, false]);
    }

    #[test]
    fn busy_connections_are_not_closed_and_a_further_connection_is_refused() {
        let connections = Connections::new(100, 2);
        let mine: Vec<Connection> = (0..2).filter_map(|_| connections.admit(peer(1))).collect();
        let busy: Vec<Busy> = mine.iter().map(Connection::begin).collect();
        assert!(connections.admit(peer(1)).is_none());
        assert!(connections.admit(peer(2)).is_some(), "other peers have their own limit");
        drop(busy);
        assert!(connections.admit(peer(1)).is_some());
    }

    #[test]
    fn at_the_total_limit_the_peer_with_the_most_connections_loses_one() {
        let connections = Connections::new(4, 3);
        let many: Vec<Connection> = (0..3).filter_map(|_| connections.admit(peer(1))).collect();
        let few = connections.admit(peer(2)).expect("admitted");
        let new = connections.admit(peer(3)).expect("admitted");
        let closed: Vec<bool> = many.iter().chain([&few, &new]).map(is_closed).collect();
        assert_eq!(closed, [true, false, false, false, false]);
        drop((many, few, new));
        assert_eq!(lock(&connections.open).count, 0, "every connection is released once");
    }

    #[test]
    fn permits_are_limited_per_peer_and_in_total() {
        let limit = PeerLimit::new(3, 2);
        let mut taken: Vec<Permit> = (0..2).filter_map(|_| limit.acquire(peer(1)).ok()).collect();
        assert_eq!(limit.acquire(peer(1)).unwrap_err(), Full::Peer);
        taken.extend(limit.acquire(peer(2)));
        assert_eq!(limit.acquire(peer(3)).unwrap_err(), Full::All);
        drop(taken);
        assert!(limit.acquire(peer(1)).is_ok() && lock(&limit.taken).is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer() {
        let parse = |text: &str| of(text.parse().expect("an address"));
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:0:1"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:10.0.0.1"), parse("10.0.0.1"));
    }
}
