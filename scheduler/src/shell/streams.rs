//! Creates the JetStream streams.

use contract::streams::{COMMANDS, DEAD_LETTERS, EVENTS, NOTICES};
use fabric::nats::{Bus, Error};

pub(crate) async fn ensure_all(bus: &Bus) -> Result<(), Error> {
    for stream in [&COMMANDS, &NOTICES, &DEAD_LETTERS, &EVENTS] {
        bus.ensure_stream(&stream.into()).await?;
    }
    Ok(())
}
