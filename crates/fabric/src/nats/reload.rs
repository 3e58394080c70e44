//! Lets every NATS server of the cluster read its configuration again.
//!
//! Only the system account may do this; the accounts of `bus_accounts` let schedulers in. A server that cannot read its
//! configuration keeps the one that it has and says why.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::bus::{ALL_SERVERS, server_reload};
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::{Bus, Error, connect};

/// How long servers may take to name themselves, after the first one did.
const GATHER: Duration = Duration::from_millis(300);
/// Deadline of the first answer, and of each reload.
const DEADLINE: Duration = Duration::from_secs(5);
/// Limit of servers of a cluster.
const MOST_SERVERS: usize = 64;

#[derive(Deserialize)]
struct RunningServer {
    name: String,
    id: String,
}

#[derive(Deserialize)]
struct ServerReply {
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Problem {
    description: String,
}

impl Bus {
    /// Reloads the servers that are not in `reloaded`, by their ids, and adds them to it. Whether there were any. Fails when one of
    /// them refuses, after the others were reloaded. A server that cannot be reached now is reloaded by a later call.
    pub async fn reload_servers(&self, reloaded: &mut BTreeSet<String>) -> Result<bool, Error> {
        let servers = self.servers().await?;
        // Servers that started again have other ids.
        if reloaded.len() > MOST_SERVERS {
            reloaded.clear();
        }
        let (mut failed, mut any) = (None, false);
        for server in servers {
            if reloaded.contains(&server.id) {
                continue;
            }
            match self.reload(&server).await {
                Ok(()) => any |= reloaded.insert(server.id),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        failed.map_or(Ok(any), Err)
    }

    async fn servers(&self) -> Result<Vec<RunningServer>, Error> {
        let doing = || "asking the NATS servers for their names".to_owned();
        let inbox = self.inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(|source| failed(doing(), source))?;
        let asked = self.client.publish_with_reply(ALL_SERVERS, inbox, "".into()).await;
        asked.map_err(|source| failed(doing(), source))?;
        let mut servers = Vec::new();
        let mut until = Instant::now() + DEADLINE;
        while let Ok(Some(message)) = timeout_at(until, answers.next()).await {
            servers.extend(serde_json::from_slice::<RunningServer>(&message.payload));
            until = until.min(Instant::now() + GATHER);
            if servers.len() >= MOST_SERVERS {
                break;
            }
        }
        if servers.is_empty() { Err(Error::TimedOut { doing: doing() }) } else { Ok(servers) }
    }

    async fn reload(&self, server: &RunningServer) -> Result<(), Error> {
        let doing = || format!("reloading the NATS server {}", server.name);
        let request = async_nats::Request::new().timeout(Some(connect::API_LIMIT));
        let answer = self.client.send_request(server_reload(&server.id), request).await;
        let answer = answer.map_err(|source| failed(doing(), source))?;
        match serde_json::from_slice::<ServerReply>(&answer.payload) {
            Ok(ServerReply { error: None }) => Ok(()),
            Ok(ServerReply { error: Some(problem) }) => {
                Err(failed(doing(), std::io::Error::other(problem.description)))
            }
            Err(source) => Err(failed(doing(), source)),
        }
    }
}

fn failed(doing: String, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Failed { doing, source: source.into() }
}
