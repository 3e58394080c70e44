//! Carries what single engine calls show to whoever must know how the engine is.
//!
//! Changes are queued, not merely kept as the latest: an engine that died and came back within a moment must be
//! seen to have died, or its containers' ends would be counted against them.

use std::sync::{Arc, Mutex, PoisonError};

use contract::report::EngineState;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::circuit::{Circuit, Sign};

/// Changes of state that wait to be read. A change needs an engine call, so a reader that lives is never this far
/// behind; a full queue is logged and the change dropped.
const CHANGES: usize = 256;

/// The engine's pulse; clones share it.
#[derive(Debug, Clone)]
pub struct EngineHealth {
    circuit: Arc<Mutex<Circuit>>,
    changes: mpsc::Sender<EngineState>,
}

impl EngineHealth {
    /// A pulse of an engine thought to be up, and the changes to come.
    pub fn new() -> (Self, mpsc::Receiver<EngineState>) {
        let (changes, receiver) = mpsc::channel(CHANGES);
        (Self { circuit: Arc::default(), changes }, receiver)
    }

    /// Notes what a call showed.
    pub fn note(&self, sign: Sign) {
        let mut circuit = self.circuit.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = circuit.note(sign) else { return };
        match state {
            EngineState::Up => info!("the engine answers"),
            EngineState::Hung => warn!("the engine does not answer in time"),
            EngineState::Down => warn!("the engine cannot be reached"),
        }
        // Sent under the lock, so changes arrive in the order they happened.
        if self.changes.try_send(state).is_err() {
            error!(?state, "a change of the engine's state could not be told");
        }
    }

    /// How the engine is.
    pub fn state(&self) -> EngineState {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner).state()
    }
}
