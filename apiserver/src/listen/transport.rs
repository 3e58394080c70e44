//! What TCP connections may speak: TLS, or plain HTTP from addresses where that is safe.

use std::net::IpAddr;
use std::time::Duration;

use fabric::tls::{ServerTls, TlsStream};
use ipnet::IpNet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::forwarded;

/// The first byte of every TLS connection: a handshake record.
const HANDSHAKE: u8 = 0x16;
/// Deadline from the first byte to the end of the handshake.
const LONGEST_OPENING: Duration = Duration::from_secs(5);
/// How long a refused client may take to read the answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// Answer to plain HTTP where TLS is spoken.
const NO_TLS: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 87\r\n\r\n\
    this port speaks TLS: write https:// instead of http://, with deployctl also --ca FILE\n";

/// What the settings say about connections.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    /// Certificate and key of this server.
    pub tls: Option<ServerTls>,
    /// Addresses of proxies: they may speak plain HTTP, and they name the client of a request.
    pub proxies: Vec<IpNet>,
    /// Whether clients of other machines may speak plain HTTP.
    pub is_insecure: bool,
}

/// A connection that requests may come on.
pub(super) enum Opened {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// Performs the handshake; none when the connection broke or was refused.
    pub(super) async fn open(&self, stream: TcpStream, from: IpAddr) -> Option<Opened> {
        match &self.tls {
            None => Some(Opened::Plain(stream)),
            Some(tls) => timeout(LONGEST_OPENING, self.negotiate(tls, stream, from)).await.ok().flatten(),
        }
    }

    async fn negotiate(&self, tls: &ServerTls, stream: TcpStream, from: IpAddr) -> Option<Opened> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1) if first == [HANDSHAKE] => {}
            Ok(1) if self.is_proxy(from) => return Some(Opened::Plain(stream)),
            Ok(1) => {
                refuse(stream).await;
                return None;
            }
            Ok(_) | Err(_) => return None,
        }
        match tls.accept(stream).await {
            Ok(stream) => Some(Opened::Tls(Box::new(stream))),
            Err(error) => {
                tracing::debug!(%error, client = %from, "TLS handshake failed");
                None
            }
        }
    }

    /// Whether requests of a plain connection are answered.
    pub(super) fn admits_plain(&self, from: IpAddr) -> bool {
        self.is_insecure || from.to_canonical().is_loopback() || self.is_proxy(from)
    }

    pub(super) fn is_proxy(&self, from: IpAddr) -> bool {
        forwarded::is_trusted(from, &self.proxies)
    }
}

/// Says why, and reads what the client still sends: closing earlier would discard the answer.
async fn refuse(mut stream: TcpStream) {
    let farewell = async {
        stream.write_all(NO_TLS).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    if !matches!(timeout(FAREWELL, farewell).await, Ok(Ok(()))) {
        tracing::trace!("a client did not read why it was refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_has_the_length_that_it_states() {
        let text = std::str::from_utf8(NO_TLS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }

    #[test]
    fn plain_http_is_for_this_machine_and_for_proxies() {
        let transport = Transport { proxies: vec!["10.0.0.0/24".parse().unwrap()], ..Transport::default() };
        let admits = |address: &str| transport.admits_plain(address.parse().unwrap());
        assert!(admits("127.0.0.1") && admits("::1") && admits("10.0.0.7") && admits("::ffff:10.0.0.7"));
        assert!(!admits("10.0.1.7") && !admits("192.0.2.1"));
        let insecure = Transport { is_insecure: true, ..Transport::default() };
        assert!(insecure.admits_plain("192.0.2.1".parse().unwrap()));
    }
}
