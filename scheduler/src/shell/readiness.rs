//! Readiness: NATS and etcd answer, the stream of commands can be read, the stored state has been read once, and no newer
//! scheduler has migrated it.

use std::time::Duration;

use contract::keys;
use contract::streams::COMMANDS;
use fabric::admin::Readiness;
use fabric::etcd::Store;
use fabric::nats::Bus;
use tokio::sync::watch;
use tokio::time::timeout;

use super::schema;
use crate::migration::CURRENT;

const EVERY: Duration = Duration::from_secs(2);
/// How often it looks for the stream of commands while that is missing: at the start the schedulers create it.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Deadline of the look at the stream.
const DEADLINE: Duration = Duration::from_secs(2);

/// Checks every two seconds, and immediately when NATS connects or disconnects or the stored state was read.
pub(super) async fn watch(bus: Bus, store: Store, mut mirrored: watch::Receiver<bool>, readiness: Readiness) {
    let mut connected = bus.connected();
    loop {
        let nats = *connected.borrow_and_update();
        let state = *mirrored.borrow_and_update();
        let etcd = store.get(keys::SCHEMA).await;
        let stream = if nats { readable(&bus).await } else { Ok(()) };
        let pause = if stream.is_ok() { EVERY } else { LOOK_AGAIN };
        readiness.set(match (nats, etcd, state) {
            (false, _, _) => Err("no connection to NATS".to_owned()),
            (true, Err(error), _) => Err(format!("no answer from etcd: {error}")),
            (true, Ok(_), false) => Err("the stored state has not been read yet".to_owned()),
            (true, Ok(stored), true) => {
                let version = schema::check_version(stored.as_deref(), &CURRENT);
                version.map_err(|error| error.to_string()).and(stream)
            }
        });
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            Ok(()) = connected.changed() => {}
            Ok(()) = mirrored.changed() => {}
        }
    }
}

/// Whether the stream of commands can be read.
async fn readable(bus: &Bus) -> Result<(), String> {
    match timeout(DEADLINE, bus.has_stream(COMMANDS.name)).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err("the stream of commands does not exist".to_owned()),
        Ok(Err(error)) => Err(format!("cannot read the stream of commands: {error}")),
        Err(_) => Err("cannot read the stream of commands: no answer from JetStream".to_owned()),
    }
}
