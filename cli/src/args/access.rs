//! The flags of `token`, `auth` and `audit`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use contract::access::{Binding, Namespaces};

use super::{Listing, Output};

/// `deployctl token`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
A token belongs to a principal, whose name the audit log and the history show. It allows what its bindings allow: a role in a \
namespace, `deployer@shop`; in those that begin alike, `viewer@team-*`; or in all, `admin@*`. `deployctl auth matrix` shows the \
roles. A token is shown once, when it is created, and it ends after its time or when it is revoked.

Examples:
  deployctl token create alice --role deployer --namespace shop --output alice.token
  deployctl token create ci --role deployer@shop --role viewer@* --ttl 30d
  deployctl token list
  deployctl token revoke 0001020304050607")]
pub struct TokenArgs {
    #[command(subcommand)]
    pub what: TokenWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum TokenWhat {
    /// Create a token and print it
    Create(NewToken),
    /// List all tokens, without their secrets
    List {
        #[command(flatten)]
        listing: Listing,
    },
    /// End a token: at once for changes, within 5 s for reads
    Revoke {
        /// Id of the token, as `deployctl token list` shows it
        id: String,
    },
}

#[derive(Debug, Clone, ClapArgs)]
pub struct NewToken {
    /// Whose actions are recorded under the token: a person or a program
    pub principal: String,
    /// A role, or a role in namespaces such as deployer@shop. May be repeated
    #[arg(long = "role", value_name = "ROLE[@NAMESPACE]", required = true)]
    pub roles: Vec<String>,
    /// Namespace of the roles without one: a name, `team-*` or `*`. May be repeated [default: *]
    #[arg(long = "namespace", short, value_name = "NAMESPACE")]
    pub namespaces: Vec<String>,
    /// How long the token is valid, such as 12h or 90d; at most 3650d
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = days)]
    pub ttl: Duration,
    /// Write the token to a new file that only you can read, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl NewToken {
    /// The bindings: each role without a namespace in each of the namespaces.
    pub fn bindings(&self) -> Result<Vec<Binding>, String> {
        let namespaces: Vec<Namespaces> = self.namespaces.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let mut bindings = Vec::new();
        for text in &self.roles {
            let binding: Binding = text.parse()?;
            if text.contains('@') || namespaces.is_empty() {
                bindings.push(binding);
            } else {
                bindings.extend(namespaces.iter().map(|it| Binding { role: binding.role, namespaces: it.clone() }));
            }
        }
        Ok(bindings)
    }
}

/// `deployctl auth`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl auth whoami
  deployctl auth status
  deployctl auth matrix
  deployctl auth matrix --routes
  deployctl auth enforce
  deployctl auth enforce --off")]
pub struct AuthArgs {
    #[command(subcommand)]
    pub what: AuthWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum AuthWhat {
    /// Show as which principal the API knows you, and what you may do
    Whoami {
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Show whether the cluster enforces access control, and which clients need no token
    Status {
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Show what each role may do; needs no cluster
    Matrix {
        /// Show each route of the API instead of the rights
        #[arg(long)]
        routes: bool,
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Ask every client of the API who it is, or open the API to all of them with --off
    #[command(after_help = "\
From then on a request needs a token, or a binding for clients without one (--anonymous of apiservers and schedulers). Other \
requests are answered 401. A cluster that was upgraded from a version without access control is open until this command.

Examples:
  deployctl auth enforce
  deployctl auth enforce --off --yes")]
    Enforce {
        /// Open the API: every client that reaches it may do everything
        #[arg(long)]
        off: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// `deployctl audit`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The leader writes one record for each command, in the transaction of its outcome, and each record holds the hash of the one \
before it. A second log has the requests that apiservers refused, counted by client and route. `verify` reads both and computes \
the hashes again: exit code 0 and the number of records, or 1 and the record that was changed or removed. The first log keeps \
the last 20000 records, the second 2000; when the oldest are dropped a scheduler signs where the rest begins, which --order-keys-file checks.

Examples:
  deployctl audit list
  deployctl audit list --refused
  deployctl audit list --limit 1000 --output json
  deployctl audit verify --order-keys-file keys/orders.pub")]
pub struct AuditArgs {
    #[command(subcommand)]
    pub what: AuditWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum AuditWhat {
    /// Show the last commands: when, by which principal, from where, and their outcome
    List {
        /// Show the last N records
        #[arg(long, short, value_name = "N", default_value_t = 100)]
        limit: u64,
        /// Show the requests that apiservers refused instead of the commands
        #[arg(long)]
        refused: bool,
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Check that no record was changed or removed
    Verify {
        /// Public keys of the schedulers (orders.pub of `deployctl bus-keys`), to check who dropped the oldest records
        #[arg(long, value_name = "FILE")]
        order_keys_file: Option<PathBuf>,
    },
}

/// A duration that may be in days: `90d`.
pub(super) fn days(text: &str) -> Result<Duration, String> {
    const DAY: u64 = 24 * 3600;
    let count = text.trim().strip_suffix('d').and_then(|count| count.parse::<u64>().ok());
    match count.and_then(|count| count.checked_mul(DAY)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => fabric::duration::parse(text).map_err(|_| format!("{text:?} is no time; write for example 12h or 90d")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bindings(roles: &[&str], namespaces: &[&str]) -> Result<String, String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let asked = NewToken {
            principal: "alice".to_owned(),
            roles: owned(roles),
            namespaces: owned(namespaces),
            ttl: Duration::ZERO,
            output: None,
        };
        Ok(asked.bindings()?.iter().map(Binding::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_role_without_a_namespace_gets_those_of_the_flag() {
        assert_eq!(bindings(&["deployer"], &["shop"]).as_deref(), Ok("deployer@shop"));
        let several = bindings(&["deployer", "viewer@*"], &["shop", "team-*"]);
        assert_eq!(several.as_deref(), Ok("deployer@shop deployer@team-* viewer@*"));
        assert_eq!(bindings(&["admin"], &[]).as_deref(), Ok("admin@*"));
        assert!(bindings(&["king"], &[]).is_err() && bindings(&["viewer"], &["a b"]).is_err());
    }

    #[test]
    fn a_time_may_be_in_days() {
        assert_eq!(days("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(days("12h"), Ok(Duration::from_secs(12 * 3600)));
        for text in ["", "d", "-1d", "99999999999999999999d", "soon"] {
            assert!(days(text).is_err_and(|why| why.contains("90d")), "{text:?}");
        }
    }
}
