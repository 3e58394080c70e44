//! `deployctl health`: checks endpoints. Health checks of images without a shell run it, and compose services wait with it for
//! images without a check of their own.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use crate::api::{self, Error};
use crate::args;
use devcluster::probe;

const PAUSE: Duration = Duration::from_millis(250);

/// Whether every endpoint is healthy; prints those that are not.
pub async fn health(asked: &args::Health, ca: Option<&Path>) -> Result<bool, Error> {
    let until = Instant::now() + asked.wait.unwrap_or_default();
    let client = api::client_trusting(ca, probe::DEADLINE)?;
    loop {
        let checks = asked.urls.iter().map(|url| probe::at(&client, url));
        let flaws: Vec<String> = join_all(checks).await.into_iter().filter_map(Result::err).collect();
        if flaws.is_empty() {
            return Ok(true);
        }
        let next = Instant::now() + PAUSE;
        if next > until {
            flaws.iter().for_each(|flaw| eprintln!("{flaw}"));
            return Ok(false);
        }
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::server;

    async fn health(asked: &args::Health) -> bool {
        super::health(asked, None).await.unwrap()
    }

    fn asked(urls: &[&str], wait: Option<Duration>) -> args::Health {
        args::Health { urls: urls.iter().map(|url| (*url).to_owned()).collect(), wait }
    }

    #[tokio::test]
    async fn all_endpoints_must_be_healthy_and_a_wait_retries() {
        let (url, _served) = server(&[(200, "ok"), (503, "starting"), (503, "starting"), (200, "ok")]).await;
        assert!(health(&asked(&[&url], None)).await);
        assert!(!health(&asked(&[&url], None)).await);
        assert!(health(&asked(&[&url], Some(Duration::from_secs(10)))).await);
    }

    #[tokio::test]
    async fn a_port_is_healthy_when_it_accepts_connections_and_an_invalid_url_never_is() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = format!("tcp://{}", listener.local_addr().unwrap());
        assert!(health(&asked(&[&open], None)).await);
        drop(listener);
        assert!(!health(&asked(&[&open], None)).await);
        assert!(!health(&asked(&["nonsense"], None)).await);
    }
}
