//! The leadership of this process: its term, what limits it and how it ends.

use contract::fence::Term;

/// How a leadership ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// After its last commit. The effects of the input are performed.
    StepDown { reason: String },
    /// Because another leader or another state of the store may be in place. The effects of the input are dropped.
    Resignation { reason: String },
}

#[derive(Debug)]
pub(super) struct Leadership {
    term: Term,
    ending: Option<Ending>,
    /// This leader only puts a backup in place.
    is_restoring: bool,
    /// The store came back with an older state: nothing is reconciled until a backup is restored.
    is_store_behind: bool,
}

impl Leadership {
    pub(super) fn new(term: Term, is_restoring: bool) -> Self {
        Self { term, ending: None, is_restoring, is_store_behind: false }
    }

    pub(super) fn term(&self) -> Term {
        self.term
    }

    pub(super) fn is_restoring(&self) -> bool {
        self.is_restoring
    }

    pub(super) fn is_store_behind(&self) -> bool {
        self.is_store_behind
    }

    pub(super) fn note_store_behind(&mut self) {
        self.is_store_behind = true;
    }

    /// Whether groups are reconciled and orders are sent.
    pub(super) fn may_reconcile(&self) -> bool {
        !self.is_restoring && !self.is_store_behind
    }

    pub(super) fn resign(&mut self, reason: impl Into<String>) {
        self.ending = Some(Ending::Resignation { reason: reason.into() });
    }

    /// Ends the leadership after the present input, unless it resigned already.
    pub(super) fn step_down(&mut self, reason: String) {
        if !matches!(self.ending, Some(Ending::Resignation { .. })) {
            self.ending = Some(Ending::StepDown { reason });
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub(super) fn take_ending(&mut self) -> Option<Ending> {
        self.ending.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resignation_replaces_a_step_down_and_not_the_reverse() {
        let mut leadership = Leadership::new(Term(1), false);
        leadership.step_down("a backup is in place".to_owned());
        leadership.resign("a write was fenced");
        leadership.step_down("a backup is in place".to_owned());
        let ending = leadership.take_ending();
        assert!(matches!(ending, Some(Ending::Resignation { reason }) if reason == "a write was fenced"));
        assert!(!leadership.is_ending());
    }
}
