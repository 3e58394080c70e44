//! The flags of `ca`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// `deployctl ca`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  deployctl ca init tls --host deployd.example --host 10.0.0.1
  deployctl ca issue tls nats-2 --host nats-2 --host 10.0.0.2
  deployctl ca issue tls agent-node-7")]
pub struct Ca {
    #[command(subcommand)]
    pub what: CaWhat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum CaWhat {
    /// Make a CA, and the first certificates: api, nats, etcd and client
    #[command(after_help = "\
Writes to DIR, each certificate with its key beside it (NAME-key.pem, readable for its owner only):
  ca.pem       what everything trusts; ca-key.pem signs certificates: keep it away from the machines of the cluster
  api.pem      for apiservers (--tls-cert)
  nats.pem     for NATS servers (tls { cert_file ... })
  etcd.pem     for etcd members (--cert-file, --peer-cert-file)
  client.pem   for the processes of deployd towards NATS and etcd (--nats-cert, --etcd-cert)

Example:
  deployctl ca init tls --host deployd.example --host 10.0.0.1")]
    Init {
        /// Directory of the CA; only its owner may enter it
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        certified: Certified,
    },
    /// Issue a certificate, or renew one of the same name
    #[command(after_help = "Example:\n  deployctl ca issue tls nats-2 --host nats-2 --host 10.0.0.2")]
    Issue {
        /// Directory of the CA
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Name of the certificate and of its files
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        #[command(flatten)]
        certified: Certified,
    },
}

/// What certificates say.
#[derive(Debug, Clone, ClapArgs)]
pub struct Certified {
    /// Name or address under which clients reach the server; may be repeated. This machine is always included. Without any, `issue`
    /// makes a certificate that only a client can use
    #[arg(long = "host", value_name = "NAME", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// How long certificates are valid; the CA itself is for 10 years
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
}

fn name(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_good || text.starts_with(['.', '-']) {
        return Err(format!("{text:?} is not a file name of letters, digits, dots and dashes"));
    }
    // These files hold the CA itself.
    if text == "ca" || text.ends_with("-key") {
        return Err(format!("{text:?} is kept for the CA and for keys; choose another name"));
    }
    Ok(text.to_owned())
}
