//! Decides from single calls how the engine is: up, hung, or down.
//!
//! One slow answer is no hang: three in a row are. Any answer, also a refusal, shows that the engine lives.

use contract::report::EngineState;

/// Calls in a row without an answer in time until the engine counts as hung.
const MOST_TIMEOUTS: u32 = 3;

/// What one call showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The engine answered.
    Answered,
    /// No answer in time.
    TimedOut,
    /// It could not be reached, or broke the connection.
    Unconnected,
}

/// How the engine is, from what calls showed.
#[derive(Debug, Default)]
pub struct Circuit {
    state: EngineState,
    timeouts: u32,
}

impl Circuit {
    /// Notes one sign; the new state when it changed.
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

    /// The state now.
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
