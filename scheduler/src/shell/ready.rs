//! Is this scheduler ready? When NATS and etcd answer, the stored state was read once, and no newer scheduler has changed its shape.

use std::time::Duration;

use contract::keys;
use fabric::admin::Readiness;
use fabric::etcd::Store;
use fabric::nats::Bus;
use tokio::sync::watch;

use super::schema;
use crate::migration::PRESENT;

const EVERY: Duration = Duration::from_secs(2);

/// Looks every two seconds, and at once when NATS comes or goes or the state is read.
pub(super) async fn watch(bus: Bus, store: Store, mut mirrored: watch::Receiver<bool>, readiness: Readiness) {
    let mut connected = bus.connected();
    loop {
        let nats = *connected.borrow_and_update();
        let state = *mirrored.borrow_and_update();
        let etcd = store.get(keys::SCHEMA).await;
        readiness.set(match (nats, etcd, state) {
            (false, _, _) => Err("no connection to NATS".to_owned()),
            (true, Err(error), _) => Err(format!("no answer from etcd: {error}")),
            (true, Ok(_), false) => Err("the stored state is not read yet".to_owned()),
            (true, Ok(stored), true) => {
                schema::judge(stored.as_deref(), &PRESENT).map(drop).map_err(|error| error.to_string())
            }
        });
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            Ok(()) = connected.changed() => {}
            Ok(()) = mirrored.changed() => {}
        }
    }
}
