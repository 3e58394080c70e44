//! Creates the JetStream streams, and the consumer that notifiers share. No other process may: JetStream publishes and delivers
//! for a stream or a consumer with rights of its own.

use std::time::Duration;

use contract::streams::{COMMANDS, DEAD_LETTERS, EVENTS, NOTICE_ACK_WAIT, NOTICES, NOTICES_PENDING};
use contract::subjects;
use fabric::backoff;
use fabric::nats::{Bus, Error, SharedConsumer};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(crate) async fn ensure_all(bus: &Bus) -> Result<(), Error> {
    for stream in [&COMMANDS, &NOTICES, &DEAD_LETTERS, &EVENTS] {
        bus.ensure_stream(&stream.into()).await?;
    }
    Ok(())
}

/// Creates what is missing after each connect, because the server may have lost its data. Apiservers and notifiers wait for it.
pub(crate) async fn keep(bus: Bus) {
    let mut connected = bus.connected();
    let mut attempt = 0;
    while connected.wait_for(|up| *up).await.is_ok() {
        match ensure(&bus).await {
            Ok(()) => {
                attempt = 0;
                if connected.wait_for(|up| !*up).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                attempt += 1;
                tracing::warn!(
                    %error,
                    attempt,
                    "cannot create the streams and the consumer of notices yet; accounts of an older version must be written again (deployctl bus-keys)"
                );
                tokio::time::sleep(backoff::delay(attempt, Duration::from_millis(200), LONGEST_PAUSE)).await;
            }
        }
    }
}

async fn ensure(bus: &Bus) -> Result<(), Error> {
    ensure_all(bus).await?;
    let notices = SharedConsumer {
        stream: NOTICES.name,
        name: subjects::NOTICES_CONSUMER,
        filter: subjects::ALL_NOTICES,
        ack_wait: NOTICE_ACK_WAIT,
        max_ack_pending: NOTICES_PENDING,
    };
    bus.ensure_consumer(&notices).await
}
