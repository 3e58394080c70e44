//! The flags of `login`, `logout`, `context` and `proxy`.

use std::net::SocketAddr;

use clap::{Args as ClapArgs, Subcommand};

use super::Output;

/// `deployctl login`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
The token is read from --token-file, DEPLOYD_TOKEN or the standard input; on a terminal deployctl asks for it and does not \
show what is typed. deployctl asks the API whether it accepts the token before it stores anything. Token, URLs and certificate \
authorities are stored in ~/.config/deployd/contexts.json, which only you can read; the token is sent to these URLs only.

Examples:
  deployctl login https://deployd.example:9003
  deployctl login https://10.0.0.1:9003,https://10.0.0.2:9003 --name prod --ca ca.pem
  deployctl login https://deployd.example:9003 --token-file me.token")]
pub struct Login {
    /// URLs of the API, comma separated
    #[arg(value_name = "URL", value_delimiter = ',', required = true)]
    pub urls: Vec<String>,
    /// Name of the context [default: the host of the first URL]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// `deployctl logout`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Removes the context with its token from this machine. The token remains valid; `deployctl token revoke ID` ends it.

Examples:
  deployctl logout
  deployctl logout prod")]
pub struct Logout {
    /// Name of the context [default: the one in use]
    pub name: Option<String>,
}

/// `deployctl context`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl context list
  deployctl context use prod
  deployctl context use local     the local cluster again
  deployctl context show")]
pub struct ContextArgs {
    #[command(subcommand)]
    pub what: ContextWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum ContextWhat {
    /// List the clusters that you have logged in to
    List {
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Use another context from now on
    Use {
        /// Name of the context, or `local` for the local cluster
        name: String,
    },
    /// Show which API the next command uses, and why
    Show {
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
}

/// `deployctl proxy`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
For programs that cannot send a token: they call the proxy, which adds yours and passes the request on. A program that uses the \
proxy acts as you, so the proxy listens on this machine only, accepts programs of your own user, and refuses requests of web pages. \
A request that has a token of its own keeps it.

Examples:
  deployctl proxy
  deployctl proxy --listen 127.0.0.1:9100 --allow-uid 33")]
pub struct Proxy {
    /// Address to listen on; only addresses of this machine itself
    #[arg(long, default_value = "127.0.0.1:9003", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Accept programs of this user too. May be repeated
    #[arg(long = "allow-uid", value_name = "UID")]
    pub allowed_uids: Vec<u32>,
}
