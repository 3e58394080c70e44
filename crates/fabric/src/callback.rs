//! Settings of the callback filter, the same in apiservers and notifiers.

use std::net::SocketAddr;

use contract::callback_address::{Filter, Refused, Rule};
use reqwest::Url;

/// Which addresses callbacks may have.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Opens addresses or names that are not public (loopback, private and link-local ones are closed) to callbacks, for one port or
    /// all but the default ports of deployd, NATS and etcd; repeatable. Set it alike in apiservers and notifiers
    #[arg(
        long = "callback-allow",
        env = "DEPLOYD_CALLBACK_ALLOW",
        value_delimiter = ',',
        value_name = "CIDR|HOST[:PORT]"
    )]
    pub allow: Vec<Rule>,
    /// Closes addresses or names to callbacks, even if --callback-allow opens them; repeatable
    #[arg(
        long = "callback-deny",
        env = "DEPLOYD_CALLBACK_DENY",
        value_delimiter = ',',
        value_name = "CIDR|HOST[:PORT]"
    )]
    pub deny: Vec<Rule>,
    /// `enforce` refuses callbacks on closed addresses; `report` refuses denied ones only and logs the others, for an upgrade
    #[arg(long = "callback-filter", env = "DEPLOYD_CALLBACK_FILTER", default_value = "enforce", value_enum)]
    pub mode: Mode,
}

/// What happens to a callback on a closed address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// It is refused.
    Enforce,
    /// It is accepted and logged, unless it is denied.
    Report,
}

impl Args {
    /// The policy of a process that listens on `listen` and uses these NATS servers: both are closed to callbacks.
    pub fn policy(&self, listen: SocketAddr, nats: &crate::nats::Args) -> Policy {
        let filter = Filter::new(self.allow.clone(), self.deny.clone());
        let filter = filter.deny_own(&listen.ip().to_string(), listen.port());
        let filter = nats.servers().fold(filter, |filter, (host, port)| filter.deny_own(&host, port));
        Policy { filter, mode: self.mode }
    }
}

/// Rules, and whether they are enforced.
#[derive(Debug, Clone)]
pub struct Policy {
    filter: Filter,
    mode: Mode,
}

impl Policy {
    /// Decides about a URL that a user registers.
    pub fn check_new(&self, url: &Url) -> Result<(), Refused> {
        self.judge(self.filter.check_new(url))
    }

    /// Decides about a URL whose host is an address, before a connection.
    pub fn check_literal(&self, url: &Url) -> Result<(), Refused> {
        self.judge(self.filter.check_literal(url))
    }

    /// Decides about a connection to `address`, which `host` resolved to.
    pub fn check(&self, host: &str, address: SocketAddr) -> Result<(), Refused> {
        self.judge(self.filter.check(host, address))
    }

    /// The policy for callbacks that a cluster had before this version: internal addresses are logged and not refused.
    #[must_use]
    pub fn for_former(&self) -> Self {
        Self { mode: Mode::Report, ..self.clone() }
    }

    fn judge(&self, decision: Result<(), Refused>) -> Result<(), Refused> {
        match (decision, self.mode) {
            (Err(refused @ Refused::Internal { .. }), Mode::Report) => {
                tracing::warn!(%refused, "callback accepted; --callback-filter enforce would refuse it");
                Ok(())
            }
            (decision, _) => decision,
        }
    }
}
