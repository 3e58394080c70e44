//! Access: what a client of the API may do, and how it proves who it is.
//!
//! A client is a [`Principal`](binding::Principal) with [`Binding`]s: a [`Role`] in a pattern of namespaces. A role has
//! [`Right`]s, by the table [`Role::has`]. The apiserver checks the right of a route ([`routes`]), the leader checks the
//! right of each command ([`Verb::right`](crate::command::Verb::right)) again with the proof that the client gave, so an
//! apiserver cannot invent principals. One that was taken over can send the proofs again that it finds in commands, until their
//! tokens are revoked (docs/security.md).
//!
//! Example: the binding `deployer@shop` creates groups in the namespace `shop`. `GET` of a group of another namespace is
//! answered 404, as if the group did not exist. Rights over the whole cluster need a binding for `*`.

pub mod audit;
pub mod binding;
pub mod join;
pub mod routes;
pub mod table;
pub mod token;
mod verbs;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use binding::{AnonymousBinding, Binding, Namespaces, Principal, Source};
pub use verbs::CommandTarget;

/// Replaces the values of environment variables for clients that may not see them.
pub const REDACTED: &str = "[redacted]";

/// What a client may do. Each role lists its rights in [`Role::has`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads, also logs. Environment values are redacted.
    Viewer,
    /// Reads and controls rollouts that others started: confirm, pause, gates, drained.
    Releaser,
    /// Reads, creates, changes and removes groups and dependency pods.
    Deployer,
    /// A deployer that also operates nodes, switches, constraints and callbacks.
    Operator,
    /// Everything: tokens, policies, audit log, backup and restore.
    Admin,
    /// Reads metrics and the status of the scheduler.
    Monitor,
}

/// One kind of access, as routes and commands need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// See whether the cluster works.
    Status,
    /// See groups, rollouts, nodes, events and policies.
    Read,
    /// Read what containers write to their logs.
    Logs,
    /// Control rollouts: confirm, skip, pause, resume, freeze, gates, drained.
    Release,
    /// Create, change, move and remove groups and dependency pods.
    Deploy,
    /// Change nodes, switches, constraints and callbacks.
    Operate,
    /// See metrics and statistics of requests.
    Monitor,
    /// Manage tokens and policies, read the audit log, back up and restore.
    Administer,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 8] = [
        Self::Status,
        Self::Read,
        Self::Logs,
        Self::Release,
        Self::Deploy,
        Self::Operate,
        Self::Monitor,
        Self::Administer,
    ];

    /// The word in messages and in `deployctl auth matrix`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Read => "read",
            Self::Logs => "logs",
            Self::Release => "release",
            Self::Deploy => "deploy",
            Self::Operate => "operate",
            Self::Monitor => "monitor",
            Self::Administer => "administer",
        }
    }

    /// Whether the right concerns objects of a namespace. The other rights concern the whole cluster and need a binding
    /// for `*`, except the status, which any binding shows.
    pub fn is_per_namespace(self) -> bool {
        match self {
            Self::Read | Self::Logs | Self::Release | Self::Deploy => true,
            Self::Status | Self::Operate | Self::Monitor | Self::Administer => false,
        }
    }
}

impl Role {
    /// All roles, in the order of the matrix.
    pub const ALL: [Self; 6] =
        [Self::Viewer, Self::Releaser, Self::Deployer, Self::Operator, Self::Admin, Self::Monitor];

    /// Whether the role has the right.
    pub fn has(self, right: Right) -> bool {
        let rights: &[Right] = match self {
            Self::Viewer => &[Right::Status, Right::Read, Right::Logs],
            Self::Releaser => &[Right::Status, Right::Read, Right::Logs, Right::Release],
            Self::Deployer => &[Right::Status, Right::Read, Right::Logs, Right::Release, Right::Deploy],
            Self::Operator => &[
                Right::Status,
                Right::Read,
                Right::Logs,
                Right::Release,
                Right::Deploy,
                Right::Operate,
                Right::Monitor,
            ],
            Self::Admin => &Right::ALL,
            Self::Monitor => &[Right::Status, Right::Monitor],
        };
        rights.contains(&right)
    }

    /// Whether the role sees the values of environment variables.
    pub fn sees_environment(self) -> bool {
        match self {
            Self::Viewer | Self::Monitor => false,
            Self::Releaser | Self::Deployer | Self::Operator | Self::Admin => true,
        }
    }

    /// The word in bindings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Releaser => "releaser",
            Self::Deployer => "deployer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Monitor => "monitor",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.word() == text);
        found.ok_or_else(|| {
            format!("{text:?} is not a role; write viewer, releaser, deployer, operator, admin or monitor")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_but_monitor_has_the_rights_of_the_one_before_it() {
        let ordered = [Role::Viewer, Role::Releaser, Role::Deployer, Role::Operator, Role::Admin];
        for pair in ordered.windows(2) {
            for right in Right::ALL {
                assert!(!pair[0].has(right) || pair[1].has(right), "{} lacks {}", pair[1], right.word());
            }
        }
        assert!(!Role::Monitor.has(Right::Read) && Role::Monitor.has(Right::Monitor));
    }

    #[test]
    fn a_role_is_read_as_it_is_written() {
        for role in Role::ALL {
            assert_eq!(role.word().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().unwrap_err().contains("operator, admin"));
    }
}
