//! The log of a container: its last line after an exit, and the lines that users ask for.

use std::time::Duration;

use contract::docker_inspect::State;
use contract::exit::clean_line;
use contract::logs::{LogLine, LogStream, LogTime};
use contract::pod_id::PodId;
use contract::session::LogSelection;
use contract::time::Timestamp;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use tracing::debug;

use super::{Engine, LogOutput, LogsOptions, LogsOptionsBuilder, calls, labels};
use crate::core::io::ContainerSeen;
use crate::fault::Error;

/// A restart waits at most this long for the log line.
const LOG: Duration = Duration::from_secs(2);
/// Lines requested: the last ones may be blank.
const LINES: &str = "5";
/// Docker notes the start of a container up to this long after its process has begun to write.
const START_SLACK: Duration = Duration::from_millis(100);
const NANOS: i64 = 1_000_000_000;

/// A container whose log can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSource {
    pub id: String,
    /// Its log driver.
    pub driver: String,
    pub started_at: Timestamp,
    /// Lines from before its last start are older.
    last_start: LogTime,
}

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

    /// A container of a pod on this node; none when there is no such container.
    pub async fn log_source(&self, pod: &PodId, container: u32) -> Result<Option<LogSource>, Error> {
        let (instance, index) = (pod.instance.to_string(), container.to_string());
        let of = [
            (labels::POD_NAME, pod.group.as_str()),
            (labels::INSTANCE, instance.as_str()),
            (labels::CONTAINER_INDEX, index.as_str()),
        ];
        for id in self.list(&of).await? {
            let Some((detail, _)) = self.inspect(&id).await? else { continue };
            let texts = detail.config.labels.as_ref();
            let get = |key: &str| texts.and_then(|texts| texts.get(key)).map(String::as_str);
            if labels::identify(&self.host.owner, get).is_some_and(|identity| identity.pod == *pod) {
                return Ok(Some(LogSource {
                    last_start: last_start(&detail.state),
                    started_at: detail.state.started_at,
                    driver: detail.host_config.log_config.kind,
                    id,
                }));
            }
        }
        Ok(None)
    }

    /// The selected lines, until there are no more or, when they are followed, until the container exits. Docker keeps what is not
    /// taken yet.
    pub async fn log_lines(
        &self,
        source: &LogSource,
        selection: &LogSelection,
    ) -> Result<impl Stream<Item = Result<LogLine, Error>> + Send + use<>, Error> {
        let mut skipped = 0;
        if selection.previous
            && let Some(tail) = selection.tail
        {
            // Docker counts the last lines from the end of the log, so those before the start are counted here.
            let lines = self.lines(source, selection)?;
            let count = lines.try_fold(0_usize, async |count, _| Ok(count + 1)).await?;
            skipped = count.saturating_sub(usize::try_from(tail).unwrap_or(usize::MAX));
        }
        Ok(self.lines(source, selection)?.skip(skipped))
    }

    fn lines(
        &self,
        source: &LogSource,
        selection: &LogSelection,
    ) -> Result<impl Stream<Item = Result<LogLine, Error>> + Send + use<>, Error> {
        let outputs = self.docker()?.logs(&source.id, Some(options(source, selection)));
        let (since, mut last) = (selection.since, LogTime::from_nanos(0));
        let before = selection.previous.then_some(source.last_start);
        let lines = outputs.map(move |output| {
            // A log that ends early says nothing about the engine's health.
            let line = line(output.map_err(|error| calls::fault(&error))?, last);
            last = line.time;
            Ok(line)
        });
        Ok(lines.filter(move |line| {
            let time = line.as_ref().ok().map(|line| line.time);
            let is_selected = time.is_none_or(|time| {
                since.is_none_or(|since| time >= since) && before.is_none_or(|before| time < before)
            });
            std::future::ready(is_selected)
        }))
    }
}

/// Docker takes whole seconds: lines of the first and of the last second are filtered by the reader.
fn options(source: &LogSource, selection: &LogSelection) -> LogsOptions {
    let seconds = |time: LogTime| i32::try_from(time.as_nanos() / NANOS).unwrap_or(i32::MAX);
    let mut options = LogsOptionsBuilder::new().stdout(true).stderr(true).timestamps(true).follow(selection.follow);
    if let Some(since) = selection.since {
        options = options.since(seconds(since));
    }
    if selection.previous {
        options = options.until(seconds(source.last_start).saturating_add(1));
    } else if let Some(tail) = selection.tail {
        options = options.tail(&tail.to_string());
    }
    options.build()
}

/// A time between the last line of the previous run and the first one of the present run.
///
/// Docker may note the start after the process has written its first lines. While the container runs, its last exit is known, and
/// half of the pause between the exit and the start is on the right side of both.
fn last_start(state: &State) -> LogTime {
    let (started, finished) = (state.started_at, state.finished_at);
    let time = if finished.happened() && finished < started {
        finished + started.since(finished) / 2
    } else {
        started - START_SLACK
    };
    LogTime::from_nanos(time.as_millis().saturating_mul(1_000_000))
}

/// A line with the time that Docker writes before it. Without one, it has the time of the line before.
fn line(output: LogOutput, last: LogTime) -> LogLine {
    let stream = match output {
        LogOutput::StdErr { .. } => LogStream::Stderr,
        LogOutput::StdOut { .. } | LogOutput::StdIn { .. } | LogOutput::Console { .. } => LogStream::Stdout,
    };
    let bytes = output.into_bytes();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match text.split_once(' ').map(|(time, rest)| (LogTime::parse(time), rest)) {
        Some((Ok(time), rest)) => LogLine { time, stream, line: rest.to_owned() },
        // An empty line has no space after its time.
        Some((Err(_), _)) | None => match LogTime::parse(text) {
            Ok(time) => LogLine { time, stream, line: String::new() },
            Err(_) => LogLine { time: last, stream, line: text.to_owned() },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (String, String) {
        let output = LogOutput::StdErr { message: text.to_owned().into() };
        let line = line(output, LogTime::from_nanos(7));
        (line.time.to_string(), line.line)
    }

    #[test]
    fn a_line_is_split_from_its_time_and_its_line_break() {
        let time = "2026-11-16T02:03:50.610864592Z";
        assert_eq!(of(&format!("{time}  two words \n")), (time.to_owned(), " two words ".to_owned()));
        assert_eq!(of(&format!("{time}\n")), (time.to_owned(), String::new()));
        assert_eq!(of(&format!("{time} \n")), (time.to_owned(), String::new()));
        assert_eq!(of("no time\n"), ("1970-01-01T00:00:00.000000007Z".to_owned(), "no time".to_owned()));
    }

    #[test]
    fn the_last_start_lies_between_the_runs_although_docker_notes_it_late() {
        let at = |millis| Timestamp::from_millis(millis);
        let nanos = |started, finished| {
            let state = State { started_at: at(started), finished_at: finished, ..State::default() };
            last_start(&state).as_nanos() / 1_000_000
        };
        assert_eq!(nanos(10_000, at(9_000)), 9_500, "restarted");
        assert_eq!(nanos(10_000, Timestamp::NEVER), 9_900, "never exited");
        assert_eq!(nanos(10_000, at(12_000)), 9_900, "exited since");
    }
}
