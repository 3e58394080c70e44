//! Publishes bytes as they are: our own bus writes JSON only, and what is malformed must not have to be.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::cluster::Error;

/// The server answers within this, or it is away.
const SOON: Duration = Duration::from_secs(20);

/// A connection that speaks the server's own protocol.
#[derive(Debug)]
pub(crate) struct RawNats(BufReader<TcpStream>);

impl RawNats {
    /// Connects to the server at `url`.
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        let address = url.trim_start_matches("nats://");
        let stream = TcpStream::connect(address).await.map_err(Error::Run)?;
        let mut raw = Self(BufReader::new(stream));
        let hello = b"CONNECT {\"verbose\":false,\"pedantic\":false,\"name\":\"proof\"}\r\n";
        raw.0.write_all(hello).await.map_err(Error::Run)?;
        raw.flush().await?;
        Ok(raw)
    }

    /// Sends `payload` to `subject`; an answer is awaited by nobody.
    pub(crate) async fn publish(&mut self, subject: &str, payload: &[u8]) -> Result<(), Error> {
        let head = format!("PUB {subject} _INBOX.proof.nobody {}\r\n", payload.len());
        let message = [head.as_bytes(), payload, b"\r\n"].concat();
        self.0.write_all(&message).await.map_err(Error::Run)
    }

    /// Returns when the server has everything that was sent.
    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        self.0.write_all(b"PING\r\n").await.map_err(Error::Run)?;
        let late = |_| Error::Late { what: "the bus hears us".to_owned(), within: SOON };
        tokio::time::timeout(SOON, self.pong()).await.map_err(late)?.map_err(Error::Run)
    }

    async fn pong(&mut self) -> std::io::Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            if (&mut self.0).take(64 * 1024).read_line(&mut line).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end() {
                "PONG" => return Ok(()),
                "PING" => self.0.write_all(b"PONG\r\n").await?,
                _ => {}
            }
        }
    }
}
