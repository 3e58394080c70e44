//! Versions and drift counts of instances never decrease: clients and agents identify containers by them.

use contract::record::Instance;

use crate::checks::commit_changes::{Change, Transition, identity};

/// An instance whose version or drift count went down, if any.
pub fn decreased(change: &Change) -> Option<String> {
    let has_strategy = change.is.record.spec.has_strategy();
    let is_less = |transition: &Transition<'_>| {
        let (was, is) = (transition.was, transition.is);
        // A pod of a higher version has another name, whatever its drift count.
        let has_own_name = has_strategy && is.version > was.version;
        // A surge pod keeps its name when it replaces the current pod, which may have been recreated meanwhile.
        let was_beside = was.next.as_deref().is_some_and(|next: &Instance| identity(next) == identity(is));
        is.version < was.version || (is.drift < was.drift && !has_own_name && !was_beside)
    };
    // A reused number may have a lower version; its higher drift count gives it another name.
    let wrong = change.transitions().find(|transition| is_less(transition) && !change.is_another(transition))?;
    Some(format!("{}: {:?} became {:?}", wrong.instance, wrong.was, wrong.is))
}
