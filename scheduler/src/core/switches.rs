//! Applies what holds the whole cluster back: the engine's switches and the constraints of every placement.
//!
//! A stopped engine plans nothing; marks and commands pile up and are worked on when it starts. What nodes must know of
//! the switches leaves with the orders, and only once it is stored. The surprise: a restart policy is no plan, so a change
//! of it reaches the nodes even while the engine is stopped.

use contract::command::Refusal;
use contract::keys;
use contract::switches::{Constraint, ConstraintsRecord, EngineRecord, Switches};
use planner::expression::{Expression, ExpressionKind};

use super::commit::{self, Bundle};
use super::events;
use super::io::Mutant;
use super::leader::Leading;
use super::state::{State, Warning};

/// Constraints at most: every placement looks at each of them.
const MOST_CONSTRAINTS: usize = 64;
/// Longest type or value of a constraint: a label and a regular expression fit.
const LONGEST_TEXT: usize = 512;
const CONSTRAINTS_UNREAD: &str = "the record of the constraints cannot be read: nothing is placed or changed until a constraint is \
     set anew (PATCH /api/constraints, which replaces the record); the dead letters hold its text";
const CALLBACKS_UNREAD: &str = "the record of the callbacks cannot be read: notices wait until a callback is added anew, which \
     replaces the record; the dead letters hold its text";

impl State {
    /// Whether nothing may be planned: the engine is stopped, or which nodes are kept out of placement is not known.
    pub(super) fn is_held_back(&self) -> bool {
        !self.engine.running || self.constraints_unread
    }
}

impl Leading<'_> {
    /// Changes what of the configuration is given.
    pub(super) fn configure(&mut self, readonly: Option<bool>, maintenance: Option<bool>) -> Bundle {
        let engine = self.state.engine;
        self.switch(EngineRecord {
            readonly: readonly.unwrap_or(engine.readonly),
            maintenance: maintenance.unwrap_or(engine.maintenance),
            ..engine
        })
    }

    /// Starts or stops the making of plans.
    pub(super) fn run_engine(&mut self, running: bool) -> Bundle {
        self.switch(EngineRecord { running, ..self.state.engine })
    }

    /// Sends the guard to work or to sleep.
    pub(super) fn guard(&mut self, guarding: bool) -> Bundle {
        self.switch(EngineRecord { guarding, ..self.state.engine })
    }

    fn switch(&mut self, engine: EngineRecord) -> Bundle {
        let before = std::mem::replace(&mut self.state.engine, engine);
        if before == engine && !self.state.engine_unread {
            return Bundle::default();
        }
        self.state.engine_unread = false;
        if before.running != engine.running || before.guarding != engine.guarding {
            // Every group may hold something that was left alone.
            self.lead.dirty.extend(self.state.groups.keys().cloned());
        }
        let writes = vec![commit::put(keys::ENGINE.to_owned(), &engine)];
        let effects = events::switched(before, engine, self.now);
        Bundle { writes, effects, switches: Some(engine.switches()), ..Bundle::default() }
    }

    /// The brakes are stored: every node hears of them.
    pub(super) fn brake(&mut self, switches: Switches) {
        if std::mem::replace(&mut self.lead.switches, switches) == switches {
            return;
        }
        for (node, desk) in &mut self.lead.desks {
            desk.brake(switches);
            self.lead.line.insert(node.clone());
        }
    }

    /// Puts a constraint in the place of the one of its type.
    /// Whether nothing is planned.
    pub(super) fn is_held_back(&self) -> bool {
        self.state.is_held_back() && !self.has_mutant(Mutant::NoBrakes)
    }

    /// Warns of records of the whole cluster that cannot be read.
    pub(super) fn warn_of_unread(&mut self) {
        let unread = [
            (self.state.constraints_unread, Warning::ConstraintsUnread, CONSTRAINTS_UNREAD),
            (self.state.callbacks_unread, Warning::CallbacksUnread, CALLBACKS_UNREAD),
        ];
        for (_, warning, text) in unread.into_iter().filter(|(is_unread, ..)| *is_unread) {
            self.state.warnings.insert(warning, text.to_owned());
            self.tell(vec![events::engine(text.to_owned(), self.now)]);
        }
    }

    pub(super) fn set_constraint(&mut self, constraint: Constraint) -> Result<Bundle, Refusal> {
        if constraint.kind.len().max(constraint.value.len()) > LONGEST_TEXT {
            return Err(Refusal::Limit { what: "a constraint's text".to_owned(), limit: LONGEST_TEXT as u64 });
        }
        // What cannot be read is met by no node: it would end all placement.
        if let ExpressionKind::Unreadable(reason) = Expression::parse(&constraint.expression()).kind() {
            return Err(Refusal::Malformed { reason: format!("constraint: {reason}") });
        }
        let known = self.state.constraints.contains_key(&constraint.kind);
        if !known && self.state.constraints.len() >= MOST_CONSTRAINTS {
            return Err(Refusal::Limit { what: "constraints".to_owned(), limit: MOST_CONSTRAINTS as u64 });
        }
        let message = format!("constraint {} holds for every placement", constraint.expression());
        self.state.constraints.insert(constraint.kind.clone(), constraint);
        Ok(self.constraints_bundle(message))
    }

    /// Drops the constraint of a type.
    pub(super) fn remove_constraint(&mut self, kind: &str) -> Result<Bundle, Refusal> {
        self.state.constraints.remove(kind).ok_or(Refusal::ConstraintUnknown)?;
        Ok(self.constraints_bundle(format!("constraint {kind} was dropped")))
    }

    fn constraints_bundle(&mut self, message: String) -> Bundle {
        self.room_appeared();
        self.state.constraints_unread = false;
        self.state.warnings.remove(&Warning::ConstraintsUnread);
        let record = ConstraintsRecord { constraints: self.state.constraints.clone() };
        let writes = vec![commit::put(keys::CONSTRAINTS.to_owned(), &record)];
        Bundle { writes, effects: vec![events::engine(message, self.now)], ..Bundle::default() }
    }
}
