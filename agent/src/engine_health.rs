//! The state of the engine, derived from its calls.
//!
//! Changes are queued instead of keeping only the latest: the core must see a short outage, otherwise it would count the
//! containers' exits as crashes.

use std::sync::{Arc, Mutex, PoisonError};

use contract::report::EngineState;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::circuit::{Circuit, Sign};

/// Queued changes. A change needs an engine call, so the reader is never this far behind; if it were, the change is dropped
/// and logged.
const CHANGES: usize = 256;

/// Clones share the state.
#[derive(Debug, Clone)]
pub struct EngineHealth {
    circuit: Arc<Mutex<Circuit>>,
    changes: mpsc::Sender<EngineState>,
}

impl EngineHealth {
    /// Starts as up; returns the queue of changes.
    pub fn new() -> (Self, mpsc::Receiver<EngineState>) {
        let (changes, receiver) = mpsc::channel(CHANGES);
        (Self { circuit: Arc::default(), changes }, receiver)
    }

    /// Records the result of a call.
    pub fn note(&self, sign: Sign) {
        let mut circuit = self.circuit.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = circuit.note(sign) else { return };
        match state {
            EngineState::Up => info!("the engine is up"),
            EngineState::Hung => warn!("the engine is hung: calls time out"),
            EngineState::Down => warn!("the engine is down: cannot connect"),
        }
        // Sent under the lock, so changes arrive in the order they happened.
        if self.changes.try_send(state).is_err() {
            error!(?state, "dropped a change of the engine's state");
        }
    }

    pub fn state(&self) -> EngineState {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner).state()
    }
}
