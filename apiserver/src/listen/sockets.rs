//! The listening sockets: TCP, and a unix socket for clients of this machine.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fabric::socket_owner;
use rustix::fs::Mode;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::time::timeout;

use super::peer::Peer;

/// Connections that the kernel holds until they are accepted.
const QUEUE: u32 = 1024;
/// How long a process behind an existing socket may take to accept a connection.
const ANSWER: Duration = Duration::from_secs(1);

/// Why a unix socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another process listens on {}; stop it, or choose another --socket", .0.display())]
    InUse(PathBuf),
    #[error("{} exists and is no socket; remove it, or choose another --socket", .0.display())]
    NoSocket(PathBuf),
    #[error("cannot listen on {}", path.display())]
    Listen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A unix socket that only the user of this process may open.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Listens on `path`, and replaces a socket that a dead process left behind.
    pub async fn bind(path: &Path) -> Result<Self, Error> {
        make_room(path).await?;
        let listener = listen(path).map_err(|source| Error::Listen { path: path.to_owned(), source })?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    // The file gets its mode from the open socket, so there is no moment in which others may connect.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(path)?;
    socket.listen(QUEUE)
}

async fn make_room(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Listen { path: path.to_owned(), source };
    match timeout(ANSWER, UnixStream::connect(path)).await {
        Err(_) | Ok(Ok(_)) => Err(Error::InUse(path.to_owned())),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Its queue is full, so it lives.
        Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => Err(Error::InUse(path.to_owned())),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            let meta = path.symlink_metadata().map_err(failed)?;
            if !meta.file_type().is_socket() {
                return Err(Error::NoSocket(path.to_owned()));
            }
            std::fs::remove_file(path).map_err(failed)
        }
        Ok(Err(source)) => Err(failed(source)),
    }
}

/// An accepted connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

pub(super) type Incoming = (Stream, Peer);

/// Everything that an apiserver accepts connections on.
#[derive(Debug)]
pub struct Listeners {
    pub tcp: TcpListener,
    pub socket: Option<Socket>,
}

impl Listeners {
    /// The next connection. Cancel-safe.
    pub(super) async fn accept(&self) -> io::Result<Incoming> {
        let unix = async {
            match &self.socket {
                Some(socket) => socket.listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = self.tcp.accept() => accepted.map(|(stream, client)| of_tcp(stream, client)),
            accepted = unix => accepted.map(|(stream, _)| of_unix(stream)),
        }
    }

    /// Stops listening and returns the connections in the kernel's queues; closing the listeners would reset them.
    pub(super) fn close(self) -> Vec<Incoming> {
        let mut queued = Vec::new();
        if let Some(Socket { listener, path }) = self.socket {
            // Removed while it is still open: as long as the path leads here, no other process replaces it.
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::debug!(%error, "cannot remove the socket");
            }
            // The listeners do not block, so this ends with the queue.
            let accepted = listener.into_std().into_iter().flat_map(|l| std::iter::from_fn(move || l.accept().ok()));
            queued.extend(accepted.filter_map(|(stream, _)| {
                stream.set_nonblocking(true).ok()?;
                Some(of_unix(UnixStream::from_std(stream).ok()?))
            }));
        }
        let accepted = self.tcp.into_std().into_iter().flat_map(|l| std::iter::from_fn(move || l.accept().ok()));
        queued.extend(accepted.filter_map(|(stream, client)| {
            stream.set_nonblocking(true).ok()?;
            Some(of_tcp(TcpStream::from_std(stream).ok()?, client))
        }));
        queued
    }
}

fn of_tcp(stream: TcpStream, client: SocketAddr) -> Incoming {
    let peer = match stream.local_addr() {
        Ok(server) => Peer::connected(client, server),
        Err(_) => Peer::at(client.ip()),
    };
    (Stream::Tcp(stream), peer)
}

fn of_unix(stream: UnixStream) -> Incoming {
    let uid = stream.peer_cred().ok().and_then(|credentials| socket_owner::of_credentials(credentials.uid()));
    (Stream::Unix(stream), Peer::of_user(uid))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn only_its_user_may_open_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.sock");
        let _socket = Socket::bind(&path).await.unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn the_socket_of_a_dead_process_is_replaced_and_one_in_use_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.sock");
        let living = Socket::bind(&path).await.unwrap();
        assert!(matches!(Socket::bind(&path).await, Err(Error::InUse(_))));
        drop(living);
        assert!(path.exists(), "a killed process leaves its socket behind");
        let next = Socket::bind(&path).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
        drop(next);
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.sock");
        std::fs::write(&path, "notes").unwrap();
        assert!(matches!(Socket::bind(&path).await, Err(Error::NoSocket(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
    }
}
