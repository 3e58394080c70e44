//! Logging to standard error, as text for people or JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Settings of the log.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// What is logged: a level, or a filter such as `info,fabric=debug`
    #[arg(long, env = "DEPLOYD_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// How it is logged: text for people, json for machines
    #[arg(long, env = "DEPLOYD_LOG_FORMAT", default_value = "text", value_enum)]
    pub log_format: Format,
}

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For machines.
    Json,
}

impl Args {
    /// Checks the filter.
    pub fn check(&self) -> Result<(), String> {
        self.filter().map(drop)
    }

    fn filter(&self) -> Result<EnvFilter, String> {
        EnvFilter::try_new(&self.log)
            .map_err(|error| format!("--log {:?}: {error}; write a level such as info, or info,fabric=debug", self.log))
    }
}

/// Starts logging; a second call does nothing. Exits if the filter is malformed, because that is a bad setting.
pub fn init(args: &Args) {
    let filter = match args.filter() {
        Ok(filter) => filter,
        Err(flaw) => crate::process::exit_bad_config(flaw),
    };
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match args.log_format {
        Format::Text => logs.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init(),
        Format::Json => logs.json().flatten_event(true).try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "logging was already set up");
    }
}
