//! Derives the state of the engine (up, hung, down) from its calls.
//!
//! Three timeouts in a row are a hang. Any answer, also an error, means up.

use contract::report::EngineState;

/// Timeouts in a row until the engine counts as hung.
const MOST_TIMEOUTS: u32 = 3;

/// The result of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Answered,
    TimedOut,
    /// No connection, or a broken one.
    Unconnected,
}

#[derive(Debug, Default)]
pub struct Circuit {
    state: EngineState,
    timeouts: u32,
}

impl Circuit {
    /// Records one result; returns the state when it changed.
    pub fn note(&mut self, sign: Sign) -> Option<EngineState> {
        let before = self.state;
        match sign {
            Sign::Answered => {
                self.timeouts = 0;
                self.state = EngineState::Up;
            }
            Sign::TimedOut => {
                self.timeouts = self.timeouts.saturating_add(1);
                if self.timeouts >= MOST_TIMEOUTS {
                    self.state = EngineState::Hung;
                }
            }
            Sign::Unconnected => {
                self.timeouts = 0;
                self.state = EngineState::Down;
            }
        }
        (self.state != before).then_some(self.state)
    }

    pub fn state(&self) -> EngineState {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_timeouts_in_a_row_are_a_hang_and_one_answer_ends_it() {
        let mut circuit = Circuit::default();
        assert_eq!(circuit.note(Sign::TimedOut), None);
        assert_eq!(circuit.note(Sign::TimedOut), None);
        assert_eq!(circuit.note(Sign::Answered), None);
        assert_eq!(circuit.note(Sign::TimedOut), None);
        assert_eq!(circuit.note(Sign::TimedOut), None);
        assert_eq!(circuit.note(Sign::TimedOut), Some(EngineState::Hung));
        assert_eq!(circuit.note(Sign::TimedOut), None);
        assert_eq!(circuit.note(Sign::Answered), Some(EngineState::Up));
    }

    #[test]
    fn a_refused_connection_is_down_at_once() {
        let mut circuit = Circuit::default();
        assert_eq!(circuit.note(Sign::Unconnected), Some(EngineState::Down));
        assert_eq!(circuit.note(Sign::Unconnected), None);
        assert_eq!(circuit.note(Sign::Answered), Some(EngineState::Up));
    }
}
