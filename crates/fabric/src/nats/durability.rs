//! Does the server sync JetStream to disk before it acknowledges?
//!
//! Only the system account may ask the server for its settings, so for most connections the question has no answer
//! and is skipped. A server whose configuration imports the one system subject below into our account (the
//! configuration `local` writes does) answers, and is warned about when it only syncs now and then.

use std::time::Duration;

use serde::Deserialize;

/// NATS' own subject for a server's settings.
pub(crate) const SERVER_SETTINGS: &str = "$SYS.REQ.SERVER.PING.VARZ";

#[derive(Deserialize)]
struct Answer {
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

/// What is known about the server's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Always,
    NowAndThen,
    Unknown,
}

pub(super) async fn check(client: &async_nats::Client) -> Durability {
    let request = async_nats::Request::new().timeout(Some(Duration::from_millis(500)));
    let known = match client.send_request(SERVER_SETTINGS, request).await {
        Ok(message) => read(&message.payload),
        Err(error) => {
            tracing::debug!(%error, "the server does not tell us whether JetStream syncs always");
            Durability::Unknown
        }
    };
    if known == Durability::NowAndThen {
        tracing::warn!(
            "JetStream does not sync always: a power failure can lose acknowledged commands; \
             set `jetstream {{ sync_interval: always }}` in the server's configuration"
        );
    }
    known
}

fn read(payload: &[u8]) -> Durability {
    match serde_json::from_slice::<Answer>(payload) {
        Ok(Answer { data: Settings { jetstream: Some(JetStream { config: Some(config) }) } }) => {
            match config.sync_always {
                true => Durability::Always,
                false => Durability::NowAndThen,
            }
        }
        Ok(_) | Err(_) => Durability::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_syncs_now_and_then_is_told_apart_from_one_that_does_not_say() {
        let always = br#"{"server":{},"data":{"jetstream":{"config":{"sync_always":true}}}}"#;
        let lazy = br#"{"server":{},"data":{"jetstream":{"config":{"sync_interval":120000000000}}}}"#;
        assert_eq!(read(always), Durability::Always);
        assert_eq!(read(lazy), Durability::NowAndThen);
        assert_eq!(read(br#"{"data":{}}"#), Durability::Unknown);
        assert_eq!(read(b"?"), Durability::Unknown);
    }
}
