//! What the accepted commands add up to: every object the workload works on, replayed from the outcomes alone.
//!
//! One command at a time is under way per object, so the order of its outcomes is known. It knows nothing of HTTP beyond what a
//! refusal says. The surprise: a refusal is evidence too; "no such group" about a group that must exist is a lost command.

use std::collections::BTreeSet;

use crate::chaos::random::Random;

/// Nodes of the cluster under test; drifts leave one of them.
pub(crate) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// A change that is asked for.
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
    /// Gives a constraint, or puts a callback in place.
    Set {
        mark: u32,
    },
    Unset,
}

/// What was decided about a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Accepted,
    Refused {
        status: u16,
        message: String,
    },
    /// Nobody said in time.
    Unknown {
        last: String,
    },
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A group with at most so many instances; one without any costs the engine nothing.
    Group {
        most: u32,
    },
    Constraint,
    Callback,
}

/// What must be found of an object that exists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExpectedState {
    /// Accepted patches.
    pub(crate) version: u32,
    pub(crate) count: u32,
    /// Instances that shall not run.
    pub(crate) stopped: BTreeSet<u32>,
    /// What the last accepted change wrote into it.
    pub(crate) mark: u32,
}

/// One thing that commands change.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) expected: Option<ExpectedState>,
    /// The last command that was accepted, to be sent once more.
    pub(crate) last: Option<(String, Change)>,
    /// Commands accepted in all, with their ids; shown when something is wrong.
    pub(crate) history: Vec<String>,
    /// A command's outcome never became known: nothing can be said about it any more.
    pub(crate) doubtful: bool,
    marks: u32,
}

impl Object {
    pub(crate) fn new(kind: Kind, name: String) -> Self {
        Self { kind, name, expected: None, last: None, history: Vec::new(), doubtful: false, marks: 0 }
    }

    /// The next thing to ask for.
    pub(crate) fn choose(&mut self, random: &mut Random) -> Change {
        self.marks += 1;
        let mark = self.marks;
        match (self.kind, &self.expected) {
            (Kind::Group { most }, None) => {
                let count = u32::try_from(random.below(2)).unwrap_or(0) + 1;
                Change::Create { count: count.min(most) }
            }
            (Kind::Group { most: 0 }, Some(_)) => match random.below(10) {
                0 => Change::Delete,
                _ => Change::Spec { mark },
            },
            (Kind::Group { most }, Some(expected)) => Self::choose_for_group(most, expected, mark, random),
            (Kind::Constraint | Kind::Callback, Some(_)) if random.percent(50) => Change::Unset,
            (Kind::Constraint | Kind::Callback, _) => Change::Set { mark },
        }
    }

    fn choose_for_group(most: u32, expected: &ExpectedState, mark: u32, random: &mut Random) -> Change {
        let below = |random: &mut Random, bound: u32| u32::try_from(random.below(bound as usize)).unwrap_or(0);
        let instance = below(random, expected.count + 1);
        match random.below(20) {
            0..=5 => Change::Replica { count: below(random, most) + 1 },
            6..=10 => Change::Spec { mark },
            11 | 12 => Change::Stop { instance },
            13 | 14 => Change::Start { instance },
            15 => Change::Restart { instance },
            16 | 17 => Change::Drift { from: NODES[random.below(NODES.len())] },
            _ => Change::Delete,
        }
    }

    /// Takes an accepted change into account.
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

    /// What a outcome about `change` says that cannot be true.
    pub(crate) fn contradiction(&self, change: &Change, outcome: &CommandOutcome) -> Option<String> {
        let there = self.expected.is_some();
        match outcome {
            CommandOutcome::Accepted if matches!(change, Change::Create { .. }) && there => {
                Some("was created though it must exist already".to_owned())
            }
            CommandOutcome::Accepted if !there && !matches!(change, Change::Create { .. } | Change::Set { .. }) => {
                // A drift that finds no group does nothing.
                let harmless = matches!(change, Change::Drift { .. });
                (!harmless).then(|| "was changed though it must not exist".to_owned())
            }
            CommandOutcome::Refused { status: 404, message } if there => Some(format!("must exist, but: {message}")),
            CommandOutcome::Refused { status: 405, message } if !there => {
                Some(format!("must not exist, but: {message}"))
            }
            CommandOutcome::Refused { status: 404 | 405 | 423, .. } => None,
            // What is being removed can be refused to be made anew.
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
