//! Limits what one peer may use, so that one client cannot keep the others out.
//!
//! A peer is an IPv4 address, or the first 64 bits of an IPv6 address. A connection that waits for a request, or for the rest of
//! its head, is the first to go: when a peer has too many connections, or all peers together have, the oldest such connection
//! is closed in favour of the new one. So half-open requests never keep a client out, not even one behind the same address.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabric::shutdown::Shutdown;

/// The peer behind an address.
pub fn of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            // A host usually has 2^64 addresses of its own.
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Places of one kind; clones share them.
#[derive(Debug, Clone)]
pub struct PeerLimit {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
    per_peer: usize,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The peer has as many as it may have.
    Peer,
    /// All peers together have.
    All,
}

/// A place; dropping it gives it back.
#[derive(Debug)]
pub struct Permit {
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
    peer: IpAddr,
}

impl PeerLimit {
    /// `most` places, at most `per_peer` of them for one peer.
    pub fn new(most: usize, per_peer: usize) -> Self {
        Self { taken: Arc::default(), most, per_peer }
    }

    /// Takes a place.
    pub fn take(&self, peer: IpAddr) -> Result<Permit, Full> {
        let mut taken = lock(&self.taken);
        if taken.get(&peer).is_some_and(|own| *own >= self.per_peer) {
            return Err(Full::Peer);
        }
        if taken.values().sum::<usize>() >= self.most {
            return Err(Full::All);
        }
        *taken.entry(peer).or_default() += 1;
        Ok(Permit { taken: self.taken.clone(), peer })
    }
}

impl Drop for Permit {
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

/// All connections; clones share them.
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
    by_peer: HashMap<IpAddr, BTreeMap<u64, Arc<ConnectionState>>>,
}

/// What is known of one connection.
#[derive(Debug, Default)]
struct ConnectionState {
    /// A request is being answered.
    is_busy: AtomicBool,
    closed: Shutdown,
}

/// One connection; dropping it gives its place back.
#[derive(Debug)]
pub struct Connection {
    connections: Connections,
    /// Where it comes from.
    pub peer: IpAddr,
    number: u64,
    line: Arc<ConnectionState>,
}

/// A request is being answered on a connection, until this is dropped.
#[derive(Debug)]
pub struct Busy(Arc<ConnectionState>);

impl Connections {
    /// `most` connections, at most `per_peer` of them for one peer.
    pub fn new(most: usize, per_peer: usize) -> Self {
        Self { open: Arc::default(), most, per_peer }
    }

    /// Takes a connection; one that only waits may be closed for it. None when all that could be closed answer requests.
    pub fn admit(&self, peer: IpAddr) -> Option<Connection> {
        let mut open = lock(&self.open);
        if open.by_peer.get(&peer).is_some_and(|own| own.len() >= self.per_peer) {
            open.close_oldest(peer)?;
        } else if open.count >= self.most {
            open.close_one()?;
        }
        open.last += 1;
        open.count += 1;
        let (number, line) = (open.last, Arc::new(ConnectionState::default()));
        open.by_peer.entry(peer).or_default().insert(number, line.clone());
        Some(Connection { connections: self.clone(), peer, number, line })
    }

    /// Closes a connection that only waits, of the peer that has most: the process lacks something that each of them holds.
    pub fn relieve(&self) {
        // Without such a connection nothing can be done.
        let _ = lock(&self.open).close_one();
    }
}

impl Open {
    /// Closes the oldest connection of a peer that waits.
    fn close_oldest(&mut self, peer: IpAddr) -> Option<()> {
        let own = self.by_peer.get(&peer)?;
        let is_waiting = |line: &ConnectionState| !line.is_busy.load(Ordering::Acquire);
        let number = own.iter().find(|(_, line)| is_waiting(line)).map(|(number, _)| *number)?;
        if let Some(line) = self.remove(peer, number) {
            line.closed.trigger();
        }
        Some(())
    }

    fn close_one(&mut self) -> Option<()> {
        let mut peers: Vec<(usize, IpAddr)> = self.by_peer.iter().map(|(peer, own)| (own.len(), *peer)).collect();
        peers.sort_unstable_by(|a, b| b.cmp(a));
        peers.into_iter().find_map(|(_, peer)| self.close_oldest(peer))
    }

    fn remove(&mut self, peer: IpAddr, number: u64) -> Option<Arc<ConnectionState>> {
        let own = self.by_peer.get_mut(&peer)?;
        let line = own.remove(&number)?;
        self.count -= 1;
        if own.is_empty() {
            self.by_peer.remove(&peer);
        }
        Some(line)
    }
}

impl Connection {
    /// A request has arrived: the connection is not closed for another before the answer is sent.
    pub fn begin(&self) -> Busy {
        self.line.is_busy.store(true, Ordering::Release);
        Busy(self.line.clone())
    }

    /// Returns when another connection took its place. One that got a request in that moment answers it first.
    pub async fn closed(&self) {
        self.line.closed.wait().await;
    }

    /// Whether a request is being answered.
    pub fn is_busy(&self) -> bool {
        self.line.is_busy.load(Ordering::Acquire)
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

/// No code panics while it holds one of these locks; if it did, the numbers would still be right.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn is_closed(connection: &Connection) -> bool {
        connection.closed().now_or_never().is_some()
    }

    #[test]
    fn a_peer_with_too_many_connections_loses_its_oldest_that_waits() {
        let connections = Connections::new(100, 3);
        let mine: Vec<Connection> = (0..3).filter_map(|_| connections.admit(peer(1))).collect();
        let other = connections.admit(peer(2)).expect("a place");
        let _request = mine[0].begin();
        let fourth = connections.admit(peer(1)).expect("a place");
        let closed: Vec<bool> = mine.iter().chain([&other, &fourth]).map(is_closed).collect();
        assert_eq!(closed, [false, true, false, false, false]);
    }

    #[test]
    fn requests_that_are_answered_are_not_closed_and_another_connection_is_refused() {
        let connections = Connections::new(100, 2);
        let mine: Vec<Connection> = (0..2).filter_map(|_| connections.admit(peer(1))).collect();
        let busy: Vec<Busy> = mine.iter().map(Connection::begin).collect();
        assert!(connections.admit(peer(1)).is_none());
        assert!(connections.admit(peer(2)).is_some(), "other peers have places of their own");
        drop(busy);
        assert!(connections.admit(peer(1)).is_some());
    }

    #[test]
    fn when_all_places_are_taken_the_peer_with_most_connections_gives_one_back() {
        let connections = Connections::new(4, 3);
        let many: Vec<Connection> = (0..3).filter_map(|_| connections.admit(peer(1))).collect();
        let few = connections.admit(peer(2)).expect("a place");
        let new = connections.admit(peer(3)).expect("a place");
        let closed: Vec<bool> = many.iter().chain([&few, &new]).map(is_closed).collect();
        assert_eq!(closed, [true, false, false, false, false]);
        drop((many, few, new));
        assert_eq!(lock(&connections.open).count, 0, "every place comes back once");
    }

    #[test]
    fn places_are_limited_for_a_peer_and_for_all() {
        let places = PeerLimit::new(3, 2);
        let mut taken: Vec<Permit> = (0..2).filter_map(|_| places.take(peer(1)).ok()).collect();
        assert_eq!(places.take(peer(1)).unwrap_err(), Full::Peer);
        taken.extend(places.take(peer(2)));
        assert_eq!(places.take(peer(3)).unwrap_err(), Full::All);
        drop(taken);
        assert!(places.take(peer(1)).is_ok() && lock(&places.taken).is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer() {
        let parse = |text: &str| of(text.parse().expect("an address"));
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:0:1"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:10.0.0.1"), parse("10.0.0.1"));
    }
}
