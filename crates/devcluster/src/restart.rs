//! Decides when a process that ended is started again, and in which order processes stop.
//!
//! Time is an argument. The wait doubles from one second to thirty and starts anew after ten seconds of running well,
//! so that a crash now and then costs a second and a broken process does not burn the machine.

use std::time::Duration;

use crate::state::Role;

/// First wait.
const LEAST: Duration = Duration::from_secs(1);
/// Longest wait.
const MOST: Duration = Duration::from_secs(30);
/// A process that ran this long was well: one that is broken ends sooner, and one start in ten seconds burns nothing.
const WELL: Duration = Duration::from_secs(10);

/// The memory of one process's ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restarts {
    in_a_row: u32,
}

impl Restarts {
    /// The process ended after `ran`: how long to wait before it is started again.
    pub fn ended_after(&mut self, ran: Duration) -> Duration {
        if ran >= WELL {
            self.in_a_row = 0;
        }
        let wait = LEAST.saturating_mul(2_u32.saturating_pow(self.in_a_row.min(10))).min(MOST);
        self.in_a_row = self.in_a_row.saturating_add(1);
        wait
    }
}

/// The roles in the order in which they stop, those of one step together: first nobody asks, then nobody decides,
/// then nobody works, and the servers that all of them need go last.
pub const STOPPING: [&[Role]; 4] =
    [&[Role::Apiserver, Role::Notifier], &[Role::Scheduler], &[Role::Agent], &[Role::Nats, Role::Etcd]];

/// How long a process gets to stop by itself: an agent may be in the middle of a call to the engine.
pub fn grace(role: Role) -> Duration {
    match role {
        Role::Agent => Duration::from_secs(15),
        Role::Etcd | Role::Nats | Role::Scheduler | Role::Apiserver | Role::Notifier => Duration::from_secs(5),
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
    fn a_process_that_ends_at_once_waits_ever_longer_up_to_the_bound() {
        assert_eq!(seconds(&[0, 0, 0, 0, 0, 0, 0]), [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn ten_seconds_of_running_well_are_a_new_beginning() {
        assert_eq!(seconds(&[0, 0, 9, 10, 0]), [1, 2, 4, 1, 2]);
    }

    #[test]
    fn every_role_stops_exactly_once_and_the_servers_last() {
        let order: Vec<Role> = STOPPING.concat();
        let all = [Role::Etcd, Role::Nats, Role::Scheduler, Role::Agent, Role::Apiserver, Role::Notifier];
        assert_eq!(order.len(), all.len());
        assert!(all.iter().all(|role| order.contains(role)));
        let position = |role| order.iter().position(|r| *r == role).unwrap();
        assert!(position(Role::Agent) < position(Role::Nats) && position(Role::Scheduler) < position(Role::Etcd));
    }
}
