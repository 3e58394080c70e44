//! Checks whether a process is ready.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Client;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::state::{Child, ProcessKind};

/// Deadline of one check.
pub const DEADLINE: Duration = Duration::from_secs(2);

pub fn client() -> Client {
    fabric::http::client(DEADLINE)
}

/// The names of the processes that are not ready, each with the reason.
pub async fn not_ready(client: &Client, children: &[Child]) -> Vec<(String, String)> {
    let checks = children.iter().map(|child| async move {
        let answer = ready(client, child).await;
        answer.err().map(|reason| (child.name.clone(), reason))
    });
    join_all(checks).await.into_iter().flatten().collect()
}

/// Whether a process is ready, or why not.
pub async fn ready(client: &Client, child: &Child) -> Result<(), String> {
    if child.pid.is_none() {
        return Err(match &child.last_exit {
            Some(how) => format!("it is not running: {how}"),
            None => "it is not started yet".to_owned(),
        });
    }
    match child.role {
        ProcessKind::Nats => listens(&child.listen).await,
        ProcessKind::Etcd => answers(client, &format!("http://{}/health", child.listen)).await,
        ProcessKind::Scheduler | ProcessKind::Apiserver | ProcessKind::Agent | ProcessKind::Notifier => {
            answers(client, &format!("http://{}/readyz", child.listen)).await
        }
    }
}

/// Checks an endpoint: `tcp://` must accept connections, any other URL must answer 2xx.
pub async fn at(client: &Client, url: &str) -> Result<(), String> {
    match url.strip_prefix("tcp://") {
        Some(address) => listens(address).await,
        None => answers(client, url).await,
    }
}

async fn listens(address: &str) -> Result<(), String> {
    match timeout(DEADLINE, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("{address} does not answer: {error}")),
        Err(_) => Err(format!("{address} does not answer")),
    }
}

async fn answers(client: &Client, url: &str) -> Result<(), String> {
    let response = client.get(url).send().await.map_err(|_| format!("{url} does not answer"))?;
    if response.status().is_success() {
        return Ok(());
    }
    let status = response.status().as_u16();
    let reason = response.text().await.unwrap_or_default();
    Err(format!("{url} answered {status}: {}", reason.trim()))
}
