//! The sender of a request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::owner::{self, Ends};
use crate::peers::{self, Source};

/// The client of a connection, in the extensions of its requests.
#[derive(Debug, Clone)]
pub struct Peer {
    address: Option<IpAddr>,
    user: User,
}

#[derive(Debug, Clone)]
enum User {
    /// The kernel said so, or there is no user to know.
    Known(Option<u32>),
    /// Looked up when asked for, once for a connection.
    Of { ends: Ends, found: Arc<OnceCell<Option<u32>>> },
}

impl Peer {
    /// The client of a TCP connection.
    pub fn connected(client: SocketAddr, server: SocketAddr) -> Self {
        let user = User::Of { ends: Ends { client, server }, found: Arc::default() };
        Self { address: Some(client.ip().to_canonical()), user }
    }

    /// A client of which only the address is known: it came through a proxy.
    pub fn at(address: IpAddr) -> Self {
        Self { address: Some(address.to_canonical()), user: User::Known(None) }
    }

    /// A client of the unix socket.
    pub fn of_user(uid: Option<u32>) -> Self {
        Self { address: None, user: User::Known(uid) }
    }

    /// Its address; none on the unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The user of this machine who runs the client: on the unix socket and over loopback. None is an unknown user, without rights.
    pub async fn uid(&self) -> Option<u32> {
        match &self.user {
            User::Known(uid) => *uid,
            User::Of { ends, found } => *found.get_or_init(|| owner::of(*ends)).await,
        }
    }

    /// Whose limits apply.
    pub fn source(&self) -> Source {
        match (self.address, &self.user) {
            (Some(address), _) => peers::of(address),
            (None, User::Known(uid)) => Source::User(*uid),
            (None, User::Of { .. }) => Source::User(None),
        }
    }
}
