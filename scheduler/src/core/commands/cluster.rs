//! The switches of the cluster and the constraints of every placement.
//!
//! While the engine is stopped nothing is reconciled; marks and commands collect until it starts. Agents get the switches with
//! their orders, after they are committed. A restart policy is not part of a plan, so a change of it reaches agents even while
//! the engine is stopped.

use contract::command::Refusal;
use contract::keys;
use contract::switches::{Constraint, EngineRecord};
use planner::expression::{Expression, ExpressionKind};

use crate::core::commit::{self, Bundle};
use crate::core::events;
use crate::core::io::Mutant;
use crate::core::leader::Leading;
use crate::core::state::Warning;

/// Limit, because every placement evaluates each of them.
const MOST_CONSTRAINTS: usize = 64;
/// Longest type or value of a constraint: a label and a regular expression fit.
const LONGEST_TEXT: usize = 512;
const CONSTRAINTS_UNREAD: &str = "the record of the constraints cannot be read: nothing is placed or changed until a constraint is \
     set anew (PATCH /api/constraints, which replaces the record); the dead letters hold its text";
const CALLBACKS_UNREAD: &str = "the record of the callbacks cannot be read: notices wait until a callback is added anew, which \
     replaces the record; the dead letters hold its text";

/// Changes what of the configuration is given.
pub(super) fn configure(leading: &mut Leading<'_>, readonly: Option<bool>, maintenance: Option<bool>) -> Bundle {
    let engine = leading.state.cluster.switches();
    switch(
        leading,
        EngineRecord {
            readonly: readonly.unwrap_or(engine.readonly),
            maintenance: maintenance.unwrap_or(engine.maintenance),
            ..engine
        },
    )
}

/// Starts or stops reconciliation.
pub(in crate::core) fn run_engine(leading: &mut Leading<'_>, running: bool) -> Bundle {
    switch(leading, EngineRecord { running, ..leading.state.cluster.switches() })
}

/// Switches the guard on or off.
pub(super) fn guard(leading: &mut Leading<'_>, guarding: bool) -> Bundle {
    switch(leading, EngineRecord { guarding, ..leading.state.cluster.switches() })
}

fn switch(leading: &mut Leading<'_>, engine: EngineRecord) -> Bundle {
    let Some(before) = leading.state.cluster.set_switches(engine) else { return Bundle::default() };
    if before.running != engine.running || before.guarding != engine.guarding {
        // Every group may hold something that was left alone.
        leading.lead.queue.mark_all(leading.state.groups.keys().cloned());
    }
    let writes = vec![commit::put(keys::ENGINE.to_owned(), &engine)];
    let effects = events::switched(before, engine, leading.now);
    Bundle { writes, effects, switches: Some(engine.switches()), ..Bundle::default() }
}

/// Whether nothing is reconciled.
pub(in crate::core) fn is_paused(leading: &Leading<'_>) -> bool {
    leading.state.cluster.is_paused() && !leading.has_mutant(Mutant::IgnoresSwitches)
}

/// Warns of records of the whole cluster that cannot be read.
pub(in crate::core) fn warn_of_unread(leading: &mut Leading<'_>) {
    let unread = [
        (leading.state.cluster.are_constraints_unread(), Warning::ConstraintsUnread, CONSTRAINTS_UNREAD),
        (leading.state.cluster.are_callbacks_unread(), Warning::CallbacksUnread, CALLBACKS_UNREAD),
    ];
    for (_, warning, text) in unread.into_iter().filter(|(is_unread, ..)| *is_unread) {
        leading.state.warn(warning, text);
        leading.emit(vec![events::engine(text.to_owned(), leading.now)]);
    }
}

pub(super) fn set_constraint(leading: &mut Leading<'_>, constraint: Constraint) -> Result<Bundle, Refusal> {
    if constraint.kind.len().max(constraint.value.len()) > LONGEST_TEXT {
        return Err(Refusal::Limit { what: "a constraint's text".to_owned(), limit: LONGEST_TEXT as u64 });
    }
    // What cannot be read is met by no node: it would end all placement.
    if let ExpressionKind::Unreadable(reason) = Expression::parse(&constraint.expression()).kind() {
        return Err(Refusal::Malformed { reason: format!("constraint: {reason}") });
    }
    let constraints = leading.state.cluster.constraints();
    if !constraints.contains_key(&constraint.kind) && constraints.len() >= MOST_CONSTRAINTS {
        return Err(Refusal::Limit { what: "constraints".to_owned(), limit: MOST_CONSTRAINTS as u64 });
    }
    let message = format!("constraint {} holds for every placement", constraint.expression());
    leading.state.cluster.set_constraint(constraint);
    Ok(constraints_bundle(leading, message))
}

/// Drops the constraint of a type.
pub(super) fn remove_constraint(leading: &mut Leading<'_>, kind: &str) -> Result<Bundle, Refusal> {
    if !leading.state.cluster.remove_constraint(kind) {
        return Err(Refusal::ConstraintUnknown);
    }
    Ok(constraints_bundle(leading, format!("constraint {kind} was dropped")))
}

fn constraints_bundle(leading: &mut Leading<'_>, message: String) -> Bundle {
    leading.retry_unschedulable();
    leading.state.end_warning(Warning::ConstraintsUnread);
    let writes = vec![commit::put(keys::CONSTRAINTS.to_owned(), &leading.state.cluster.constraints_record())];
    Bundle { writes, effects: vec![events::engine(message, leading.now)], ..Bundle::default() }
}
