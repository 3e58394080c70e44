//! The records of the whole cluster: switches, constraints of every placement, callbacks.
//!
//! A stored record that cannot be read stays "unread" until a command replaces it. Example: the constraints are unread. Nothing is
//! placed, because a placement could violate one of them, until a user sets a constraint.

use std::collections::{BTreeMap, BTreeSet};

use contract::record::CallbacksRecord;
use contract::switches::{Constraint, ConstraintsRecord, EngineRecord};

#[derive(Debug, Default)]
pub(in crate::core) struct Cluster {
    switches: EngineRecord,
    are_switches_unread: bool,
    /// By type.
    constraints: BTreeMap<String, Constraint>,
    are_constraints_unread: bool,
    callbacks: BTreeSet<String>,
    are_callbacks_unread: bool,
}

impl Cluster {
    /// Whether nothing is reconciled: the engine is stopped, or the constraints on placement cannot be read.
    pub(in crate::core) fn is_paused(&self) -> bool {
        !self.switches.running || self.are_constraints_unread
    }

    pub(in crate::core) fn switches(&self) -> EngineRecord {
        self.switches
    }

    /// Changes the switches and returns what they were; none when the stored record stays as it is.
    pub(in crate::core) fn set_switches(&mut self, switches: EngineRecord) -> Option<EngineRecord> {
        let before = std::mem::replace(&mut self.switches, switches);
        let was_unread = std::mem::take(&mut self.are_switches_unread);
        (before != switches || was_unread).then_some(before)
    }

    pub(super) fn load_switches<E>(&mut self, read: Result<Option<EngineRecord>, E>) -> Result<(), E> {
        self.are_switches_unread = read.is_err();
        // The switches are unknown: nothing is reconciled until a user starts the engine.
        let unread = EngineRecord { running: false, ..EngineRecord::default() };
        self.switches = read.as_ref().map_or(unread, |switches| switches.unwrap_or_default());
        read.map(drop)
    }

    pub(in crate::core) fn constraints(&self) -> &BTreeMap<String, Constraint> {
        &self.constraints
    }

    pub(in crate::core) fn are_constraints_unread(&self) -> bool {
        self.are_constraints_unread
    }

    pub(in crate::core) fn set_constraint(&mut self, constraint: Constraint) {
        self.are_constraints_unread = false;
        self.constraints.insert(constraint.kind.clone(), constraint);
    }

    /// Whether there was a constraint of this type.
    pub(in crate::core) fn remove_constraint(&mut self, kind: &str) -> bool {
        let is_known = self.constraints.remove(kind).is_some();
        self.are_constraints_unread &= !is_known;
        is_known
    }

    pub(in crate::core) fn constraints_record(&self) -> ConstraintsRecord {
        ConstraintsRecord { constraints: self.constraints.clone() }
    }

    pub(super) fn load_constraints<E>(&mut self, read: Result<Option<ConstraintsRecord>, E>) -> Result<(), E> {
        self.are_constraints_unread = read.is_err();
        self.constraints = read?.unwrap_or_default().constraints;
        Ok(())
    }

    pub(in crate::core) fn callbacks(&self) -> &BTreeSet<String> {
        &self.callbacks
    }

    pub(in crate::core) fn are_callbacks_unread(&self) -> bool {
        self.are_callbacks_unread
    }

    pub(in crate::core) fn add_callback(&mut self, url: String) {
        self.are_callbacks_unread = false;
        self.callbacks.insert(url);
    }

    /// Whether there was such a callback.
    pub(in crate::core) fn remove_callback(&mut self, url: &str) -> bool {
        let is_known = self.callbacks.remove(url);
        self.are_callbacks_unread &= !is_known;
        is_known
    }

    pub(in crate::core) fn callbacks_record(&self) -> CallbacksRecord {
        CallbacksRecord { urls: self.callbacks.clone() }
    }

    pub(super) fn load_callbacks<E>(&mut self, read: Result<Option<CallbacksRecord>, E>) -> Result<(), E> {
        self.are_callbacks_unread = read.is_err();
        self.callbacks = read?.unwrap_or_default().urls;
        Ok(())
    }
}
