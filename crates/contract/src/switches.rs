//! What holds the whole cluster back: the engine's switches and the constraints every placement obeys.
//!
//! The switches are one record, so a leader reads them with one look; what nodes must know of them travels in every
//! order as [`Switches`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The engine's switches: `/deployd/state/intent/engine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineRecord {
    /// Plans are made; otherwise accepted commands are kept and wait.
    pub running: bool,
    /// The guard works: missing instances are made anew.
    pub guarding: bool,
    /// Nothing but the engine's configuration may be changed.
    pub readonly: bool,
    /// As `readonly`, and nothing that ended is started again by itself.
    pub maintenance: bool,
}

impl Default for EngineRecord {
    fn default() -> Self {
        Self { running: true, guarding: true, readonly: false, maintenance: false }
    }
}

impl EngineRecord {
    /// Changes are refused.
    pub fn refuses_changes(self) -> bool {
        self.readonly || self.maintenance
    }
    /// What nodes must know.
    pub fn switches(self) -> Switches {
        Switches { hold_restarts: self.maintenance, hold_missing: !self.guarding, paused: !self.running }
    }
}

/// What an agent leaves undone until it is told otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Switches {
    /// An instance that ended is not started again, whatever its policy. Dependency pods are.
    pub hold_restarts: bool,
    /// An instance that vanished is not made again, not even by an agent that is alone. Dependency pods are.
    pub hold_missing: bool,
    /// The engine is stopped: nothing that ended or vanished comes back by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

impl Switches {
    /// Nothing is held.
    pub fn are_off(&self) -> bool {
        *self == Self::default()
    }
}

/// A condition on every placement; one per type. Also the body of `GET /api/constraints`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Constraint {
    /// `node`, or the label of a node that is compared.
    #[serde(rename = "Type")]
    pub kind: String,
    /// It must match; otherwise it must not.
    pub equal: bool,
    /// A text, a glob, or a regular expression between slashes.
    pub value: String,
    /// It is kept if possible, and dropped when no node would be left.
    pub soft: bool,
}

impl Constraint {
    /// The placement expression it stands for.
    pub fn expression(&self) -> String {
        let operator = if self.equal { "==" } else { "!=" };
        let wish = if self.soft { "~" } else { "" };
        format!("constraint:{}{operator}{wish}{}", self.kind, self.value)
    }
}

/// All constraints, by type: `/deployd/state/intent/constraints`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintsRecord {
    /// The constraints.
    pub constraints: BTreeMap<String, Constraint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_stands_for_deployds_expression() {
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
    fn a_record_that_says_nothing_holds_nothing_back() {
        let record: EngineRecord = serde_json::from_str("{}").expect("defaults");
        assert_eq!(record, EngineRecord::default());
        assert!(record.running && record.switches().are_off() && !record.refuses_changes());
    }

    #[test]
    fn nodes_are_told_of_maintenance_of_a_sleeping_guard_and_of_a_stopped_engine() {
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
