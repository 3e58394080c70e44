//! The streams of the contract, as the bus wants them described.

use contract::streams::{COMMANDS, DEAD_LETTERS, NOTICES, Stream, WhenFull};
use fabric::nats::{Bus, Discard, Error, StreamSpec};

/// Ensures every stream.
pub(crate) async fn ensure_all(bus: &Bus) -> Result<(), Error> {
    for stream in [&COMMANDS, &NOTICES, &DEAD_LETTERS] {
        bus.ensure_stream(&spec(stream)).await?;
    }
    Ok(())
}

pub(super) fn spec(stream: &Stream) -> StreamSpec {
    StreamSpec {
        max_age: stream.max_age,
        max_bytes: stream.max_bytes,
        discard: match stream.when_full {
            WhenFull::Refuse => Discard::New,
            WhenFull::DropOldest => Discard::Old,
        },
        ..StreamSpec::new(stream.name, stream.subjects)
    }
}
