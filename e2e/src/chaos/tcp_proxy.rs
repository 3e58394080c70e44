//! A line between one process and a server that can be cut and mended: a TCP proxy on a free port of 127.0.0.1.
//!
//! A cut line is silent, as when a cable is pulled (what was on its way arrives when it is mended), or refused, as when the
//! way to a machine is closed (every connection ends, none can be made).

use std::io;
use std::net::SocketAddr;

use fabric::tasks::{Scoped, spawn_scoped};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Whole,
    Silent,
    Refused,
}

/// A line; dropping it ends every connection over it.
#[derive(Debug)]
pub(crate) struct TcpProxy {
    pub(crate) address: SocketAddr,
    line: watch::Sender<Link>,
    _task: Scoped,
}

impl TcpProxy {
    /// A whole line to `server`.
    pub(crate) async fn to(server: String) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (line, state) = watch::channel(Link::Whole);
        let task = spawn_scoped("line", accept(listener, server, state));
        Ok(Self { address, line, _task: task })
    }

    /// Cuts or mends it.
    pub(crate) fn set(&self, line: Link) {
        self.line.send_replace(line);
    }
}

async fn accept(listener: TcpListener, server: String, state: watch::Receiver<Link>) {
    // One process connects, so there are few; those that ended are forgotten with the next.
    let mut connections = JoinSet::new();
    loop {
        let Ok((near, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        if *state.borrow() == Link::Refused {
            continue;
        }
        connections.spawn(connect(near, server.clone(), state.clone()));
    }
}

async fn connect(near: TcpStream, server: String, mut state: watch::Receiver<Link>) {
    if passable(&mut state).await.is_none() {
        return;
    }
    let Ok(far) = TcpStream::connect(&server).await else { return };
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    let mut refused = state.clone();
    tokio::select! {
        () = carry(near_read, far_write, state.clone()) => {}
        () = carry(far_read, near_write, state) => {}
        _ = refused.wait_for(|line| *line == Link::Refused) => {}
    }
}

/// Carries bytes one way until an end or a refusal; while the line is silent they wait here.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<Link>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        if passable(&mut state).await.is_none() || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Waits until the line is whole; none when it is refused first.
async fn passable(state: &mut watch::Receiver<Link>) -> Option<()> {
    let line = *state.wait_for(|line| *line != Link::Silent).await.ok()?;
    (line == Link::Whole).then_some(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Sends everything back.
    async fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        fabric::tasks::spawn("echo", async move {
            while let Ok((mut peer, _)) = listener.accept().await {
                fabric::tasks::spawn("echo", async move {
                    let (mut read, mut write) = peer.split();
                    tokio::io::copy(&mut read, &mut write).await.ok();
                });
            }
        });
        address
    }

    async fn said(peer: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
        peer.write_all(text).await?;
        let mut back = vec![0; text.len()];
        peer.read_exact(&mut back).await?;
        Ok(back)
    }

    #[tokio::test]
    async fn a_silent_line_keeps_what_was_said_and_a_refused_one_ends_it() {
        let line = TcpProxy::to(echo().await).await.unwrap();
        let mut peer = TcpStream::connect(line.address).await.unwrap();
        assert_eq!(said(&mut peer, b"one").await.unwrap(), b"one");
        line.set(Link::Silent);
        assert!(timeout(Duration::from_millis(100), said(&mut peer, b"two")).await.is_err());
        line.set(Link::Whole);
        let mut back = [0; 3];
        peer.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"two");
        line.set(Link::Refused);
        assert!(said(&mut peer, b"three").await.is_err());
        let mut other = TcpStream::connect(line.address).await.unwrap();
        assert!(said(&mut other, b"four").await.is_err());
        line.set(Link::Whole);
        let mut third = TcpStream::connect(line.address).await.unwrap();
        assert_eq!(said(&mut third, b"five").await.unwrap(), b"five");
    }
}
