//! Cluster-wide switches (read-only, maintenance, guard, scheduling on/off) and placement constraints.
//!
//! The scheduler stores the switches in one record. Agents receive their part of it, [`Switches`], in every order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The switches, as users set them: `/deployd/state/intent/engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineRecord {
    /// Scheduling is on (default). While it is off, the leader accepts commands but does not reconcile groups.
    pub running: bool,
    /// The guard is on (default): missing instances are recreated.
    pub guarding: bool,
    /// The leader refuses every change but [`crate::command::Verb::Configure`].
    pub readonly: bool,
    /// Like `readonly`, and agents do not restart instances that exited.
    pub maintenance: bool,
}

impl Default for EngineRecord {
    fn default() -> Self {
        Self { running: true, guarding: true, readonly: false, maintenance: false }
    }
}

impl EngineRecord {
    /// Whether the leader refuses changes by users.
    pub fn refuses_changes(self) -> bool {
        self.readonly || self.maintenance
    }
    /// The switches that agents must know.
    pub fn switches(self) -> Switches {
        Switches { hold_restarts: self.maintenance, hold_missing: !self.guarding, paused: !self.running }
    }
}

/// The switches as an order carries them: what an agent must not do on its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Switches {
    /// Do not restart instances that exited, whatever their restart policy. Dependency pods are restarted.
    pub hold_restarts: bool,
    /// Do not recreate missing instances, not even while the agent has no contact to the scheduler. Dependency pods are
    /// recreated.
    pub hold_missing: bool,
    /// Scheduling is off: neither restart nor recreate anything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

impl Switches {
    /// True when nothing is suspended.
    pub fn are_off(&self) -> bool {
        *self == Self::default()
    }
}

/// A constraint on every placement; one per type. Also a row of `GET /api/constraints`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Constraint {
    /// What is compared: `node` for the node's name, otherwise the key of a node label.
    #[serde(rename = "Type")]
    pub kind: String,
    /// True: the value must match. False: it must not match.
    pub equal: bool,
    /// A literal text, a glob, or a regular expression between slashes.
    pub value: String,
    /// A preference: placement ignores it when no node would be left.
    pub soft: bool,
}

impl Constraint {
    /// The placement expression, for example `constraint:node!=~a`.
    pub fn expression(&self) -> String {
        let operator = if self.equal { "==" } else { "!=" };
        let preference = if self.soft { "~" } else { "" };
        format!("constraint:{}{operator}{preference}{}", self.kind, self.value)
    }
}

/// All constraints: `/deployd/state/intent/constraints`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintsRecord {
    /// The constraints by their type.
    pub constraints: BTreeMap<String, Constraint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_becomes_a_placement_expression() {
        for (equal, soft, expected) in [
            (false, true, "constraint:node!=~a"),
            (false, false, "constraint:node!=a"),
            (true, true, "constraint:node==~a"),
            (true, false, "constraint:node==a"),
        ] {
            let constraint = Constraint { kind: "node".to_owned(), equal, value: "a".to_owned(), soft };
            assert_eq!(constraint.expression(), expected);
        }
    }

    #[test]
    fn an_empty_engine_record_suspends_nothing() {
        let record: EngineRecord = serde_json::from_str("{}").expect("defaults");
        assert_eq!(record, EngineRecord::default());
        assert!(record.running && record.switches().are_off() && !record.refuses_changes());
    }

    #[test]
    fn orders_carry_maintenance_guard_and_scheduling_switches() {
        let usual = EngineRecord::default();
        let switches = |hold_restarts, hold_missing| Switches { hold_restarts, hold_missing, paused: false };
        assert_eq!(EngineRecord { maintenance: true, ..usual }.switches(), switches(true, false));
        assert_eq!(EngineRecord { guarding: false, ..usual }.switches(), switches(false, true));
        assert_eq!(
            EngineRecord { running: false, ..usual }.switches(),
            Switches { paused: true, ..switches(false, false) }
        );
        assert_eq!(EngineRecord { readonly: true, ..usual }.switches(), switches(false, false));
    }
}
