//! `deployctl balance`: several apiservers behind one address.
//!
//! It hands connections on and reads none of what they carry, so it knows no request and loses no meaning. `rotation` decides
//! who gets the next connection; here are the hands: accept, connect, copy, and look at each apiserver now and then.

mod rotation;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabric::shutdown::Shutdown;
use futures_util::future::join_all;
use reqwest::Client;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::args;
use rotation::{Look, Rotation, Standing};

/// Connections at once; the next one waits in the kernel's queue until another ends.
const MOST_CONNECTIONS: u32 = 4096;
/// How long one apiserver may take to accept a connection before the next is tried.
const CONNECT: Duration = Duration::from_secs(1);
/// How long one may take to say whether it is ready.
const LOOK: Duration = Duration::from_secs(2);
/// How long connections in flight may take to end: as long as an apiserver gives its requests.
const GRACE: Duration = Duration::from_secs(10);
/// After a failed accept, most often for want of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Why it cannot balance.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used.
    #[error("cannot listen on {address}; is another process there? Choose one with --listen")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The apiservers, as everybody here knows them.
struct Members {
    addresses: Vec<String>,
    rotation: Mutex<Rotation>,
    standings: Vec<watch::Sender<Standing>>,
}

/// Balances until `shutdown`.
pub async fn balance(asked: &args::Balance, shutdown: Shutdown) -> Result<(), Error> {
    let listener =
        TcpListener::bind(asked.listen).await.map_err(|source| Error::Listen { address: asked.listen, source })?;
    serve(listener, asked, shutdown).await;
    Ok(())
}

async fn serve(listener: TcpListener, asked: &args::Balance, shutdown: Shutdown) {
    let members = Arc::new(Members::new(&asked.to));
    let client = fabric::http::client(LOOK);
    let looks = (0..members.addresses.len()).map(|member| members.look_at(member, &client, asked.every));
    tokio::select! {
        () = accept(listener, &members, &shutdown) => {}
        _ = join_all(looks) => {}
    }
}

/// Takes connections until shutdown, then lets those in flight end.
async fn accept(listener: TcpListener, members: &Arc<Members>, shutdown: &Shutdown) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS as usize));
    loop {
        // Never closed, so there is always a place in the end.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.wait() => break,
        };
        match accepted {
            Ok((client, _)) => {
                let members = members.clone();
                fabric::tasks::spawn("connection", async move {
                    members.carry(client).await;
                    drop(place);
                });
            }
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                sleep(AFTER_FAILURE).await;
            }
        }
    }
    drop(listener);
    if timeout(GRACE, places.acquire_many(MOST_CONNECTIONS)).await.is_err() {
        eprintln!("connections still in flight are cut off");
    }
}

impl Members {
    fn new(addresses: &[String]) -> Self {
        Self {
            addresses: addresses.to_vec(),
            rotation: Mutex::new(Rotation::new(addresses.len())),
            standings: addresses.iter().map(|_| watch::Sender::new(Standing::Unready)).collect(),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Rotation) -> T) -> T {
        // No change can panic half-way, so a poisoned rotation is still whole.
        change(&mut self.rotation.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, member: usize, look: Look) {
        if let Some(standing) = self.with(|rotation| rotation.observe(member, look)) {
            self.standings[member].send_replace(standing);
            let word = match standing {
                Standing::Ready => "is ready",
                Standing::Unready => "is not ready",
                Standing::Gone => "does not answer",
            };
            eprintln!("{} {word}", self.addresses[member]);
        }
    }

    /// Looks at one apiserver for ever.
    async fn look_at(&self, member: usize, client: &Client, every: Duration) {
        let url = format!("http://{}/readyz", self.addresses[member]);
        let mut ticks = interval(every.max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let look = match client.get(&url).send().await {
                Ok(response) if response.status().is_success() => Look::Ready,
                Ok(_) => Look::Unready,
                Err(_) => Look::Silent,
            };
            self.note(member, look);
        }
    }

    /// Carries one connection to whoever takes it; closed at once when nobody does.
    async fn carry(&self, mut client: TcpStream) {
        for member in self.with(Rotation::next) {
            let connecting = timeout(CONNECT, TcpStream::connect(&self.addresses[member])).await;
            let Ok(Ok(mut server)) = connecting else {
                self.note(member, Look::Silent);
                continue;
            };
            for stream in [&client, &server] {
                // Small answers must not wait for more; without it they are only slower.
                let _ = stream.set_nodelay(true);
            }
            let mut standing = self.standings[member].subscribe();
            tokio::select! {
                // A broken connection is its ends' business, and both see it.
                _ = copy_bidirectional(&mut client, &mut server) => {}
                _ = standing.wait_for(|standing| *standing == Standing::Gone) => {}
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;

    /// An apiserver that tells its name; ready or not.
    async fn apiserver(name: &'static str, shutdown: Shutdown) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let router = axum::Router::new().route("/readyz", get(async || "ok")).route("/", get(async move || name));
        let serving = axum::serve(listener, router).with_graceful_shutdown(async move { shutdown.wait().await });
        fabric::tasks::spawn("apiserver", async move { serving.await.unwrap() });
        address
    }

    async fn balanced(to: Vec<String>) -> (String, Shutdown) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = Shutdown::new();
        let (asked, stop) = (
            args::Balance { listen: "127.0.0.1:0".parse().unwrap(), to, every: Duration::from_millis(20) },
            shutdown.clone(),
        );
        fabric::tasks::spawn("balance", async move { serve(listener, &asked, stop).await });
        (url, shutdown)
    }

    /// One request on a connection of its own; asked once more when an ending apiserver had taken it and not read it.
    async fn ask(url: &str) -> String {
        let client = Client::builder().pool_max_idle_per_host(0).timeout(Duration::from_secs(5)).build().unwrap();
        let answer = match client.get(url).send().await {
            Ok(answer) => answer,
            Err(_) => client.get(url).send().await.unwrap(),
        };
        answer.text().await.unwrap()
    }

    #[tokio::test]
    async fn all_of_them_answer_and_the_end_of_one_is_not_noticed() {
        fabric::http::install_crypto();
        let end = Shutdown::new();
        let (a, b) = (apiserver("a", end.clone()).await, apiserver("b", Shutdown::new()).await);
        let (url, _stop) = balanced(vec![a, b]).await;
        let mut heard = std::collections::BTreeSet::new();
        for _ in 0..4 {
            heard.insert(ask(&url).await);
        }
        assert_eq!(heard.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        end.trigger();
        for _ in 0..20 {
            let answer = ask(&url).await;
            assert!(answer == "a" || answer == "b", "{answer}");
        }
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while ask(&url).await == "a" {
            assert!(std::time::Instant::now() < deadline, "a was told to end");
        }
    }

    #[tokio::test]
    async fn a_connection_to_one_that_fell_silent_is_cut() {
        // It accepts and never says a word: as a machine that lost its power looks to those who are connected.
        let dead = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, _stop) = balanced(vec![dead.local_addr().unwrap().to_string()]).await;
        let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
        let mut byte = [0];
        let cut = timeout(Duration::from_secs(30), tokio::io::AsyncReadExt::read(&mut stream, &mut byte)).await;
        assert!(matches!(cut, Ok(Ok(0) | Err(_))), "{cut:?}");
    }
}
