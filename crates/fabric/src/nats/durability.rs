//! Checks whether the server syncs JetStream to disk before it acknowledges.
//!
//! Only the system account may query the server's settings, so most connections get no answer. A server whose
//! configuration imports the system subject below into our account answers (the configuration of `local` does), and we
//! warn if it syncs only periodically.

use std::time::Duration;

use contract::bus::SERVER_SETTINGS;
use serde::Deserialize;

#[derive(Deserialize)]
struct ServerAnswer {
    data: Settings,
}
#[derive(Deserialize)]
struct Settings {
    jetstream: Option<JetStream>,
}
#[derive(Deserialize)]
struct JetStream {
    config: Option<JetStreamConfig>,
}
#[derive(Deserialize)]
struct JetStreamConfig {
    #[serde(default)]
    sync_always: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Always,
    Periodically,
    Unknown,
}

pub(super) async fn check(client: &async_nats::Client) -> Durability {
    let request = async_nats::Request::new().timeout(Some(Duration::from_millis(500)));
    let known = match client.send_request(SERVER_SETTINGS, request).await {
        Ok(message) => read(&message.payload),
        Err(error) => {
            tracing::debug!(%error, "cannot read whether JetStream syncs always");
            Durability::Unknown
        }
    };
    if known == Durability::Periodically {
        tracing::warn!(
            "JetStream does not sync always: a power failure can lose acknowledged commands; \
             set `jetstream {{ sync_interval: always }}` in the server's configuration"
        );
    }
    known
}

fn read(payload: &[u8]) -> Durability {
    match serde_json::from_slice::<ServerAnswer>(payload) {
        Ok(ServerAnswer { data: Settings { jetstream: Some(JetStream { config: Some(config) }) } }) => {
            match config.sync_always {
                true => Durability::Always,
                false => Durability::Periodically,
            }
        }
        Ok(_) | Err(_) => Durability::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_syncs_periodically_differs_from_one_that_does_not_answer() {
        let always = br#"{"server":{},"data":{"jetstream":{"config":{"sync_always":true}}}}"#;
        let periodic = br#"{"server":{},"data":{"jetstream":{"config":{"sync_interval":120000000000}}}}"#;
        assert_eq!(read(always), Durability::Always);
        assert_eq!(read(periodic), Durability::Periodically);
        assert_eq!(read(br#"{"data":{}}"#), Durability::Unknown);
        assert_eq!(read(b"?"), Durability::Unknown);
    }
}
