//! Commands that the agent runs in containers.

use std::time::Duration;

use contract::exit::clean_line;
use futures_util::StreamExt as _;

use super::{Engine, ExecConfig, READ, StartExecResults};
use crate::fault::Error;

/// A command that ran in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    pub exit_code: i64,
    /// Last line of its output.
    pub last_line: String,
}

impl Engine {
    /// Prepares a command; returns Docker's id of it.
    pub async fn prepare_exec(&self, container: &str, command: &[String]) -> Result<String, Error> {
        let config = ExecConfig {
            cmd: Some(command.to_vec()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        Ok(self.call(READ, async |docker| docker.create_exec(container, config).await).await?.id)
    }

    /// Runs a prepared command; none when it has not ended in time. Docker cannot end it.
    pub async fn run_exec(&self, id: &str, limit: Duration) -> Result<Option<Executed>, Error> {
        // A slow command says nothing about the engine, so its output is awaited outside of `call`.
        let started = self.call(READ, async |docker| docker.start_exec(id, None).await).await?;
        let StartExecResults::Attached { mut output, .. } = started else { return Ok(None) };
        let mut last_line = String::new();
        let drain = async {
            while let Some(Ok(part)) = output.next().await {
                let line = clean_line(&part.into_bytes());
                if !line.is_empty() {
                    last_line = line;
                }
            }
        };
        if tokio::time::timeout(limit, drain).await.is_err() {
            return Ok(None);
        }
        let ended = self.call(READ, async |docker| docker.inspect_exec(id).await).await?;
        Ok(ended.exit_code.map(|exit_code| Executed { exit_code, last_line }))
    }

    /// Whether a command still runs.
    pub async fn exec_runs(&self, id: &str) -> Result<bool, Error> {
        let found = self.call(READ, async |docker| docker.inspect_exec(id).await).await;
        match found {
            Ok(exec) => Ok(exec.running.unwrap_or(false)),
            Err(error) if error.status() == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }
}
