//! The expected state of every object of the workload, computed from the outcomes of commands.
//!
//! One command per object is in flight, so the sequence of outcomes is known. A refusal is evidence, too: "no such group" about a
//! group that must exist is a lost command.

use std::collections::BTreeSet;

use testkit::random::Random;

/// Moves leave one of these nodes.
pub(crate) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Create {
        count: u32,
    },
    Replica {
        count: u32,
    },
    Spec {
        mark: u32,
    },
    Start {
        instance: u32,
    },
    Stop {
        instance: u32,
    },
    Restart {
        instance: u32,
    },
    Drift {
        from: &'static str,
    },
    Delete,
    /// Sets a constraint or adds a callback.
    Set {
        mark: u32,
    },
    Unset,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Accepted,
    Refused {
        status: u16,
        message: String,
    },
    /// No outcome in time.
    Unknown {
        last: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A group with at most `most` instances; 0 needs no containers.
    Group {
        most: u32,
    },
    Constraint,
    Callback,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExpectedState {
    /// Number of accepted patches.
    pub(crate) version: u32,
    pub(crate) count: u32,
    pub(crate) stopped: BTreeSet<u32>,
    /// The mark of the last accepted change.
    pub(crate) mark: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) expected: Option<ExpectedState>,
    /// The last accepted command, for a repeat.
    pub(crate) last: Option<(String, Change)>,
    /// Accepted commands, for failure messages.
    pub(crate) history: Vec<String>,
    /// An outcome stayed unknown, so nothing is expected any more.
    pub(crate) doubtful: bool,
    marks: u32,
}

impl Object {
    pub(crate) fn new(kind: Kind, name: String) -> Self {
        Self { kind, name, expected: None, last: None, history: Vec::new(), doubtful: false, marks: 0 }
    }

    pub(crate) fn choose(&mut self, random: &mut Random) -> Change {
        self.marks += 1;
        let mark = self.marks;
        match (self.kind, &self.expected) {
            (Kind::Group { most }, None) => {
                let count = u32::try_from(random.index(2)).unwrap_or(0) + 1;
                Change::Create { count: count.min(most) }
            }
            (Kind::Group { most: 0 }, Some(_)) => match random.index(10) {
                0 => Change::Delete,
                _ => Change::Spec { mark },
            },
            (Kind::Group { most }, Some(expected)) => Self::choose_for_group(most, expected, mark, random),
            (Kind::Constraint | Kind::Callback, Some(_)) if random.chance(50) => Change::Unset,
            (Kind::Constraint | Kind::Callback, _) => Change::Set { mark },
        }
    }

    fn choose_for_group(most: u32, expected: &ExpectedState, mark: u32, random: &mut Random) -> Change {
        let below = |random: &mut Random, bound: u32| u32::try_from(random.index(bound as usize)).unwrap_or(0);
        let instance = below(random, expected.count + 1);
        match random.index(20) {
            0..=5 => Change::Replica { count: below(random, most) + 1 },
            6..=10 => Change::Spec { mark },
            11 | 12 => Change::Stop { instance },
            13 | 14 => Change::Start { instance },
            15 => Change::Restart { instance },
            16 | 17 => Change::Drift { from: NODES[random.index(NODES.len())] },
            _ => Change::Delete,
        }
    }

    pub(crate) fn accept(&mut self, key: &str, change: &Change) {
        self.history.push(format!("{key} {change:?}"));
        self.last = Some((key.to_owned(), change.clone()));
        match change {
            Change::Create { count } => {
                self.expected = Some(ExpectedState { count: *count, ..ExpectedState::default() })
            }
            Change::Delete | Change::Unset => self.expected = None,
            Change::Set { mark } => self.expected = Some(ExpectedState { mark: *mark, ..ExpectedState::default() }),
            Change::Replica { .. }
            | Change::Spec { .. }
            | Change::Start { .. }
            | Change::Stop { .. }
            | Change::Restart { .. }
            | Change::Drift { .. } => {
                if let Some(expected) = &mut self.expected {
                    expected.change(change);
                }
            }
        }
    }

    /// Why an outcome contradicts the expected state.
    pub(crate) fn contradiction(&self, change: &Change, outcome: &CommandOutcome) -> Option<String> {
        let there = self.expected.is_some();
        match outcome {
            CommandOutcome::Accepted if matches!(change, Change::Create { .. }) && there => {
                Some("was created though it must exist already".to_owned())
            }
            CommandOutcome::Accepted if !there && !matches!(change, Change::Create { .. } | Change::Set { .. }) => {
                // A move without a group does nothing.
                let harmless = matches!(change, Change::Drift { .. });
                (!harmless).then(|| "was changed though it must not exist".to_owned())
            }
            CommandOutcome::Refused { status: 404, message } if there => Some(format!("must exist, but: {message}")),
            CommandOutcome::Refused { status: 405, message } if !there => {
                Some(format!("must not exist, but: {message}"))
            }
            CommandOutcome::Refused { status: 404 | 405 | 423, .. } => None,
            // A group under removal cannot be created again yet.
            CommandOutcome::Refused { status: 500, message } if !there && message.contains("removing") => None,
            CommandOutcome::Refused { status, message } => Some(format!("unexpected refusal {status}: {message}")),
            CommandOutcome::Accepted | CommandOutcome::Unknown { .. } => None,
        }
    }
}

impl ExpectedState {
    fn change(&mut self, change: &Change) {
        match change {
            Change::Replica { count } => {
                self.count = *count;
                self.stopped.retain(|instance| instance <= count);
            }
            Change::Spec { mark } => (self.version, self.mark) = (self.version + 1, *mark),
            Change::Stop { instance } => self.stopped.extend(self.meant(*instance)),
            Change::Start { instance } | Change::Restart { instance } => {
                for instance in self.meant(*instance) {
                    self.stopped.remove(&instance);
                }
            }
            Change::Create { .. } | Change::Drift { .. } | Change::Delete | Change::Set { .. } | Change::Unset => {}
        }
    }

    /// Instance 0 means all of them.
    fn meant(&self, instance: u32) -> Vec<u32> {
        (1..=self.count).filter(|number| instance == 0 || *number == instance).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(changes: &[Change]) -> Object {
        let mut object = Object::new(Kind::Group { most: 2 }, "g.web.web".to_owned());
        for change in changes {
            object.accept("k", change);
        }
        object
    }

    #[test]
    fn accepted_changes_add_up() {
        let all = [
            Change::Create { count: 2 },
            Change::Spec { mark: 4 },
            Change::Stop { instance: 0 },
            Change::Start { instance: 1 },
            Change::Spec { mark: 7 },
            Change::Drift { from: "node-1" },
        ];
        let expected = ExpectedState { version: 2, count: 2, stopped: BTreeSet::from([2]), mark: 7 };
        assert_eq!(group(&all).expected, Some(expected));
    }

    #[test]
    fn an_instance_that_comes_back_after_a_scale_down_runs() {
        let all = [
            Change::Create { count: 2 },
            Change::Stop { instance: 2 },
            Change::Replica { count: 1 },
            Change::Replica { count: 2 },
        ];
        assert_eq!(group(&all).expected, Some(ExpectedState { count: 2, ..ExpectedState::default() }));
    }

    #[test]
    fn a_refusal_that_denies_an_accepted_command_is_a_contradiction() {
        let refused = |status, message: &str| CommandOutcome::Refused { status, message: message.to_owned() };
        let there = group(&[Change::Create { count: 1 }]);
        let gone = group(&[Change::Create { count: 1 }, Change::Delete]);
        let (create, delete) = (Change::Create { count: 1 }, Change::Delete);
        assert!(there.contradiction(&delete, &refused(404, "PodGroup not existed")).is_some());
        assert!(gone.contradiction(&create, &refused(405, "PodGroup has already existed")).is_some());
        assert!(gone.contradiction(&delete, &CommandOutcome::Accepted).is_some());
        assert!(there.contradiction(&create, &CommandOutcome::Accepted).is_some());
        for (object, change, outcome) in [
            (&there, &delete, refused(423, "locked")),
            (&gone, &delete, refused(404, "PodGroup not existed")),
            (&gone, &create, refused(500, "PodGroup is removing, need to wait for that")),
            (&there, &delete, CommandOutcome::Accepted),
        ] {
            assert_eq!(object.contradiction(change, &outcome), None);
        }
    }
}
