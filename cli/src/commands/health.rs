//! `deployctl health`: is somebody well, asked from outside?
//!
//! It is what health checks run in an image that has no shell and no other client, and what a start waits for when the
//! images of others bring no check of their own.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use crate::args;
use devcluster::probe;

/// Between two questions while waiting: short beside a start, long beside an answer.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether everybody asked is well; what is not is told.
pub async fn health(asked: &args::Health) -> bool {
    let until = Instant::now() + asked.wait.unwrap_or_default();
    let client = probe::client();
    loop {
        let questions = asked.urls.iter().map(|url| probe::at(&client, url));
        let flaws: Vec<String> = join_all(questions).await.into_iter().filter_map(Result::err).collect();
        if flaws.is_empty() {
            return true;
        }
        let next = Instant::now() + PAUSE;
        if next > until {
            flaws.iter().for_each(|flaw| eprintln!("{flaw}"));
            return false;
        }
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::server;

    fn asked(urls: &[&str], wait: Option<Duration>) -> args::Health {
        args::Health { urls: urls.iter().map(|url| (*url).to_owned()).collect(), wait }
    }

    #[tokio::test]
    async fn all_must_be_well_and_a_wait_asks_again() {
        let (url, _served) = server(&[(200, "ok"), (503, "starting"), (503, "starting"), (200, "ok")]).await;
        assert!(health(&asked(&[&url], None)).await);
        assert!(!health(&asked(&[&url], None)).await);
        assert!(health(&asked(&[&url], Some(Duration::from_secs(10)))).await);
    }

    #[tokio::test]
    async fn a_port_is_well_when_it_takes_connections_and_other_words_are_never_well() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = format!("tcp://{}", listener.local_addr().unwrap());
        assert!(health(&asked(&[&open], None)).await);
        drop(listener);
        assert!(!health(&asked(&[&open], None)).await);
        assert!(!health(&asked(&["nonsense"], None)).await);
    }
}
