//! Decides the next state of a pod that is updated in place or removed, when others have hooks on it (section 5.2).
//!
//! A pod in any state but `Normal` is unavailable. Two things that were got wrong elsewhere: a revert while hooks are being
//! waited for leads back to `Normal`, and a pod that waits for its hooks to come back can be updated again. A grace period
//! changes what is done in `Updating`, not the state.

/// Where a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Being made.
    PreparingNormal,
    /// Serving.
    Normal,
    /// To be updated, when its hooks have let go.
    PreparingUpdate,
    /// Being updated.
    Updating,
    /// Updated, until its hooks are back.
    Updated,
    /// To be removed, when its hooks have let go.
    PreparingDelete,
    /// Gone.
    Deleted,
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It has a place and runs.
    Scheduled,
    /// It is to be updated.
    StartUpdate,
    /// A hook let go of it.
    HookReleased,
    /// What it runs is what it is to run (D-25).
    UpdateComplete,
    /// A hook is back on it.
    HookRestored,
    /// It is to stay what it was.
    Revert,
    /// It is to be removed.
    StartDelete,
}

/// What others have on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hooks {
    /// Any hook for updates is on it.
    pub update: bool,
    /// All hooks for updates are on it.
    pub all_update: bool,
    /// Any hook for removal is on it.
    pub delete: bool,
}

impl State {
    /// Pods in any other state do not count as available.
    pub fn may_be_available(self) -> bool {
        self == Self::Normal
    }
}

/// The state after an event; the same where the event means nothing.
pub fn next(state: State, event: Event, hooks: Hooks) -> State {
    let is = |states: &[State]| states.contains(&state);
    let (is_meant, then) = match event {
        Event::Scheduled => (is(&[State::PreparingNormal]), State::Normal),
        Event::StartUpdate => {
            let then = if hooks.update { State::PreparingUpdate } else { State::Updating };
            (is(&[State::PreparingNormal, State::Normal, State::Updated]), then)
        }
        Event::HookReleased if is(&[State::PreparingDelete]) => (!hooks.delete, State::Deleted),
        Event::HookReleased => (is(&[State::PreparingUpdate]) && !hooks.update, State::Updating),
        Event::UpdateComplete => {
            (is(&[State::Updating]), if hooks.all_update { State::Normal } else { State::Updated })
        }
        Event::HookRestored => (is(&[State::Updated]) && hooks.all_update, State::Normal),
        Event::Revert => (is(&[State::PreparingUpdate, State::PreparingDelete]), State::Normal),
        Event::StartDelete => {
            (!is(&[State::Deleted]), if hooks.delete { State::PreparingDelete } else { State::Deleted })
        }
    };
    if is_meant { then } else { state }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rollout::properties::property;

    const NONE: Hooks = Hooks { update: false, all_update: true, delete: false };
    const HELD: Hooks = Hooks { update: true, all_update: true, delete: true };

    #[test]
    fn without_hooks_an_update_is_two_steps() {
        let updating = next(State::Normal, Event::StartUpdate, NONE);
        assert_eq!(updating, State::Updating);
        assert_eq!(next(updating, Event::UpdateComplete, NONE), State::Normal);
    }

    #[test]
    fn with_hooks_it_waits_for_them_before_and_after() {
        let preparing = next(State::Normal, Event::StartUpdate, HELD);
        assert_eq!(preparing, State::PreparingUpdate);
        assert_eq!(next(preparing, Event::HookReleased, HELD), State::PreparingUpdate, "another one still holds it");
        assert_eq!(next(preparing, Event::HookReleased, NONE), State::Updating);
        let missing = Hooks { all_update: false, ..NONE };
        assert_eq!(next(State::Updating, Event::UpdateComplete, missing), State::Updated);
        assert_eq!(next(State::Updated, Event::HookRestored, missing), State::Updated);
        assert_eq!(next(State::Updated, Event::HookRestored, HELD), State::Normal);
    }

    #[test]
    fn what_was_got_wrong_elsewhere() {
        assert_eq!(next(State::PreparingUpdate, Event::Revert, HELD), State::Normal);
        assert_eq!(next(State::Updated, Event::StartUpdate, NONE), State::Updating);
    }

    #[test]
    fn a_removal_waits_for_its_own_hooks() {
        assert_eq!(next(State::Normal, Event::StartDelete, NONE), State::Deleted);
        assert_eq!(next(State::Updating, Event::StartDelete, HELD), State::PreparingDelete);
        assert_eq!(next(State::PreparingDelete, Event::HookReleased, HELD), State::PreparingDelete);
        assert_eq!(next(State::PreparingDelete, Event::HookReleased, NONE), State::Deleted);
    }

    #[test]
    fn an_event_out_of_place_changes_nothing() {
        assert_eq!(next(State::Normal, Event::UpdateComplete, NONE), State::Normal);
        assert_eq!(next(State::Updating, Event::StartUpdate, HELD), State::Updating);
        assert_eq!(next(State::Deleted, Event::StartUpdate, NONE), State::Deleted);
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let all = [
            Event::Scheduled,
            Event::StartUpdate,
            Event::HookReleased,
            Event::UpdateComplete,
            Event::HookRestored,
            Event::Revert,
            Event::StartDelete,
        ];
        prop::sample::select(all.to_vec())
    }

    property! {
        fn a_hook_is_never_passed_by(events in prop::collection::vec((any_event(), any::<[bool; 3]>()), 0..30)) {
            let mut state = State::PreparingNormal;
            for (event, [update, all_update, delete]) in events {
                let hooks = Hooks { update, all_update, delete };
                let then = next(state, event, hooks);
                prop_assert!(state != State::Deleted || then == State::Deleted, "gone is gone");
                prop_assert!(then == state || then != State::Updating || !update, "an update waits for its hooks");
                prop_assert!(then == state || then != State::Deleted || !delete, "a removal waits for its hooks");
                let is_back = state == State::Updating || state == State::Updated;
                prop_assert!(then != State::Normal || !is_back || all_update, "all hooks are back before it serves");
                state = then;
            }
        }
    }
}
