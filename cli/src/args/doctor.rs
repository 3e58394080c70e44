//! The flags of `doctor`.

use clap::Args as ClapArgs;

use super::Output;

/// `deployctl doctor`
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Each line is a check: ok, a warning, or a failure with its remedy. A warning may be meant, for example a machine without Docker \
that only controls a cluster. Exit code 1 when a check failed.

Examples:
  deployctl doctor
  deployctl doctor --output json")]
pub struct Doctor {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}
