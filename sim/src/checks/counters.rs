//! What only grows: versions of instances, and drift counts. Clients and agents know containers by both.

use contract::record::Slot;

use crate::checks::commit_changes::{Change, Transition, identity};

/// An instance whose version or drift count went down, if any.
pub fn decline(change: &Change) -> Option<String> {
    let has_strategy = change.is.record.spec.has_strategy();
    let is_less = |transition: &Transition<'_>| {
        let (was, is) = (transition.was, transition.is);
        // A pod of a higher version has a name of its own, whatever its drift count.
        let has_own_name = has_strategy && is.version > was.version;
        // Nor has one that stood beside the one before: it keeps the name it was made with when it takes over, while the one
        // before may have been made anew meanwhile.
        let was_beside = was.next.as_deref().is_some_and(|next: &Slot| identity(next) == identity(is));
        is.version < was.version || (is.drift < was.drift && !has_own_name && !was_beside)
    };
    // Who takes a number that was given up since the commit before is made at whatever version the release stands at, which may
    // be lower; its drift count is higher than that of the one before, so it has a name of its own.
    let wrong = change.transitions().find(|transition| is_less(transition) && !change.is_another(transition))?;
    Some(format!("{}: {:?} became {:?}", wrong.instance, wrong.was, wrong.is))
}
