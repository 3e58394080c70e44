//! Compares the leader's clock with that of NATS, which stamps every command.
//!
//! No decision depends on it. But the times in records come from leaders, so after a failover between two clocks that differ
//! every wait is wrong by the difference, and an operator must know.

use contract::event::Kind;

use crate::core::events;
use crate::core::io::Effect;
use crate::core::leader::Leading;
use crate::core::state::Warning;

/// A difference above this is reported.
const MOST: u64 = 30_000;

/// The leader's clock is this far ahead of that of NATS; a negative number when it is behind.
pub(in crate::core) fn check_clock(leading: &mut Leading<'_>, ahead_millis: i64) {
    let is_known = leading.state.warns_of(Warning::Clock);
    let seconds = ahead_millis.unsigned_abs() / 1_000;
    let message = match (ahead_millis.unsigned_abs() > MOST, is_known) {
        (false, false) => return,
        (false, true) => {
            leading.state.end_warning(Warning::Clock);
            format!("the clock of scheduler {} agrees with that of NATS again", leading.settings.name)
        }
        (true, _) => {
            let side = if ahead_millis > 0 { "ahead of" } else { "behind" };
            let message = format!(
                "the clock of scheduler {} is {seconds} s {side} that of NATS: synchronise both with NTP and restart \
                 the scheduler, which reads the wall clock at its start",
                leading.settings.name
            );
            leading.state.warn(Warning::Clock, &message);
            if is_known {
                return;
            }
            message
        }
    };
    leading.emit(vec![Effect::Record(events::event(Kind::Leader, message, leading.now))]);
}
