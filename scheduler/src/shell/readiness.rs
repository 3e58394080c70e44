//! Readiness: NATS and etcd answer, the stored state has been read once, and no newer scheduler has migrated it.

use std::time::Duration;

use contract::keys;
use fabric::admin::Readiness;
use fabric::etcd::Store;
use fabric::nats::Bus;
use tokio::sync::watch;

use super::schema;
use crate::migration::CURRENT;

const EVERY: Duration = Duration::from_secs(2);

/// Checks every two seconds, and immediately when NATS connects or disconnects or the stored state was read.
pub(super) async fn watch(bus: Bus, store: Store, mut mirrored: watch::Receiver<bool>, readiness: Readiness) {
    let mut connected = bus.connected();
    loop {
        let nats = *connected.borrow_and_update();
        let state = *mirrored.borrow_and_update();
        let etcd = store.get(keys::SCHEMA).await;
        readiness.set(match (nats, etcd, state) {
            (false, _, _) => Err("no connection to NATS".to_owned()),
            (true, Err(error), _) => Err(format!("no answer from etcd: {error}")),
            (true, Ok(_), false) => Err("the stored state has not been read yet".to_owned()),
            (true, Ok(stored), true) => {
                schema::check_version(stored.as_deref(), &CURRENT).map(drop).map_err(|error| error.to_string())
            }
        });
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            Ok(()) = connected.changed() => {}
            Ok(()) = mirrored.changed() => {}
        }
    }
}
