//! The last log line of an exited container.

use std::time::Duration;

use contract::exit::clean_line;
use futures_util::StreamExt as _;
use tracing::debug;

use super::{Engine, LogsOptionsBuilder};
use crate::core::io::ContainerSeen;
use crate::fault::Error;

/// A restart waits at most this long for the log line.
const LOG: Duration = Duration::from_secs(2);
/// Lines requested: the last ones may be blank.
const LINES: &str = "5";

impl Engine {
    /// The container with its last log line; none when it is gone. The line is empty when the log driver cannot be read.
    pub async fn read_end(&self, id: &str) -> Result<Option<ContainerSeen>, Error> {
        let last_line = tokio::time::timeout(LOG, self.last_line(id)).await.unwrap_or_default();
        Ok(self.seen(id).await?.map(|seen| ContainerSeen { last_line, ..seen }))
    }

    async fn last_line(&self, id: &str) -> String {
        let _permit = self.reads.acquire().await;
        let Ok(docker) = self.docker() else { return String::new() };
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail(LINES).build();
        let mut lines = std::pin::pin!(docker.logs(id, Some(options)));
        let mut last = String::new();
        while let Some(line) = lines.next().await {
            match line.map(|line| clean_line(&line.into_bytes())) {
                Ok(line) if line.is_empty() => {}
                Ok(line) => last = line,
                Err(reason) => {
                    debug!(container = %id, %reason, "cannot read the log");
                    return last;
                }
            }
        }
        last
    }
}
