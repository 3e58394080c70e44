//! Decides when to restart a process, and in which order processes stop.
//!
//! Exponential back-off from 1 s to 30 s; a run of 10 s resets it.

use std::time::Duration;

use crate::state::ProcessKind;

const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(30);
/// A run of this length resets the back-off.
const STABLE: Duration = Duration::from_secs(10);

/// The back-off of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restarts {
    in_a_row: u32,
}

impl Restarts {
    /// How long to wait before the restart of a process that ended after `ran`.
    pub fn ended_after(&mut self, ran: Duration) -> Duration {
        if ran >= STABLE {
            self.in_a_row = 0;
        }
        let wait = LEAST.saturating_mul(2_u32.saturating_pow(self.in_a_row.min(10))).min(MOST);
        self.in_a_row = self.in_a_row.saturating_add(1);
        wait
    }
}

/// The roles in stop order, those of one step together: first the sources of commands, then the scheduler, then the agents, and
/// last the servers that all of them need.
pub const STOPPING: [&[ProcessKind]; 4] = [
    &[ProcessKind::Apiserver, ProcessKind::Notifier],
    &[ProcessKind::Scheduler],
    &[ProcessKind::Agent],
    &[ProcessKind::Nats, ProcessKind::Etcd],
];

/// Time between SIGTERM and SIGKILL; an agent may be in a call to the engine.
pub fn grace(role: ProcessKind) -> Duration {
    match role {
        ProcessKind::Agent => Duration::from_secs(15),
        ProcessKind::Etcd
        | ProcessKind::Nats
        | ProcessKind::Scheduler
        | ProcessKind::Apiserver
        | ProcessKind::Notifier => Duration::from_secs(5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(ends: &[u64]) -> Vec<u64> {
        let mut restarts = Restarts::default();
        ends.iter().map(|ran| restarts.ended_after(Duration::from_secs(*ran)).as_secs()).collect()
    }

    #[test]
    fn the_back_off_doubles_up_to_its_bound() {
        assert_eq!(seconds(&[0, 0, 0, 0, 0, 0, 0]), [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_run_of_ten_seconds_resets_the_back_off() {
        assert_eq!(seconds(&[0, 0, 9, 10, 0]), [1, 2, 4, 1, 2]);
    }

    #[test]
    fn every_role_stops_exactly_once_and_the_servers_last() {
        let order: Vec<ProcessKind> = STOPPING.concat();
        let all = [
            ProcessKind::Etcd,
            ProcessKind::Nats,
            ProcessKind::Scheduler,
            ProcessKind::Agent,
            ProcessKind::Apiserver,
            ProcessKind::Notifier,
        ];
        assert_eq!(order.len(), all.len());
        assert!(all.iter().all(|role| order.contains(role)));
        let position = |role| order.iter().position(|r| *r == role).unwrap();
        assert!(
            position(ProcessKind::Agent) < position(ProcessKind::Nats)
                && position(ProcessKind::Scheduler) < position(ProcessKind::Etcd)
        );
    }
}
