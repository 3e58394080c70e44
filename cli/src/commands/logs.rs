//! `logs`: prints what the containers of a PodGroup wrote.
//!
//! `--follow` survives a lost connection: it reads every container again from its last line, at any apiserver, and drops the
//! lines that it has printed.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::api::PodGroupWithSpec;
use contract::logs::{InstanceLine, LogPosition, LogRecord};
use contract::strict::nearest;
use contract::time::Timestamp;
use fabric::clock::Clock;
use reqwest::Response;
use tokio::time::{sleep, timeout};

use crate::api::{self, Api};
use crate::args::{Logs, Tail};
use crate::exit::Exit;
use crate::output::log::LogStyle;
use crate::output::terminal;

/// Reconnect after this time without data: the apiserver sends something every 15 s.
const SILENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);
/// Longest line of the answer; a longer one is not an object of ours.
const LONGEST_LINE: usize = 1 << 20;

/// `deployctl logs`
pub async fn logs(api: &Api, asked: &Logs) -> Result<Exit, api::Error> {
    let group = api.group(&asked.name).await?;
    let Some(group) = group else { return Err(unknown(api, &asked.name).await) };
    let since = asked.since.map(|span| Clock::start().now() - span);
    let mut reader = LogPrinter::new(asked, style(asked, &group), since);
    let mut response = reader.listen(api).await?;
    loop {
        let has_ended = reader.read(&mut response).await;
        if !asked.follow {
            // An answer that ended in the middle was cut off.
            return match has_ended {
                true if reader.has_problem => Ok(Exit::Failed),
                true => Ok(Exit::Done),
                false => Err(api::Error::refused(503, "the apiserver closed the connection before the end of the log")),
            };
        }
        if api.group(&asked.name).await.is_ok_and(|group| group.is_none()) {
            eprintln!("{} was removed", asked.name);
            return Ok(Exit::Done);
        }
        response = reader.again(api).await?;
    }
}

/// Names the most similar group, if there is one.
async fn unknown(api: &Api, name: &str) -> api::Error {
    let lines = api.groups().await.unwrap_or_default();
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    match nearest(name, &names) {
        Some(meant) => api::Error::NotFound(format!("no PodGroup {name:?}; did you mean {meant}?")),
        None => api::Error::no_group(name),
    }
}

fn style(asked: &Logs, group: &PodGroupWithSpec) -> LogStyle {
    let containers = group.spec.pod.containers.len();
    let has_containers = containers > 1 && asked.container.is_none();
    let has_instances = group.pods.len() > 1 && asked.instance.is_none();
    let last = asked.name.rsplit('.').next().unwrap_or(&asked.name).to_owned();
    let group = (asked.prefix || has_containers || has_instances).then_some(last);
    LogStyle { group, has_containers, timestamps: asked.timestamps }
}

/// Reads the answer, and knows how far each container was read.
struct LogPrinter<'a> {
    asked: &'a Logs,
    style: LogStyle,
    since: Option<Timestamp>,
    positions: BTreeMap<(u32, u32), LogPosition>,
    rest: Vec<u8>,
    has_problem: bool,
}

impl<'a> LogPrinter<'a> {
    fn new(asked: &'a Logs, style: LogStyle, since: Option<Timestamp>) -> Self {
        Self { asked, style, since, positions: BTreeMap::new(), rest: Vec::new(), has_problem: false }
    }

    async fn listen(&self, api: &Api) -> Result<Response, api::Error> {
        let params = self.params();
        let pairs: Vec<(&'static str, &str)> = params.iter().map(|(name, value)| (*name, value.as_str())).collect();
        api.listen(api::LOGS, &pairs, None).await
    }

    fn params(&self) -> Vec<(&'static str, String)> {
        let asked = self.asked;
        let tail = match asked.tail {
            Tail::All => None,
            Tail::Last(lines) => Some(lines.to_string()),
        };
        let read = self.positions.iter().filter_map(|(key, position)| Some((key, position.since()?)));
        let after: Vec<String> =
            read.map(|((instance, container), time)| format!("{instance}.{container}={time}")).collect();
        let given = [
            ("name", Some(asked.name.clone())),
            ("instance", asked.instance.map(|instance| instance.to_string())),
            ("container", asked.container.map(|container| container.to_string())),
            ("tail", tail),
            ("since", self.since.map(|since| since.to_string())),
            ("previous", asked.previous.then(|| "true".to_owned())),
            ("follow", asked.follow.then(|| "true".to_owned())),
            ("after", Some(after.join(",")).filter(|after| !after.is_empty())),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Prints what comes; returns whether the answer ended as it should.
    async fn read(&mut self, response: &mut Response) -> bool {
        loop {
            match timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(chunk))) => self.take(&chunk),
                Ok(Ok(None)) => return true,
                Ok(Err(_)) | Err(_) => return false,
            }
        }
    }

    /// Connects again, and reads on from the last lines.
    async fn again(&mut self, api: &Api) -> Result<Response, api::Error> {
        self.rest.clear();
        self.positions.values_mut().for_each(LogPosition::restart);
        loop {
            match self.listen(api).await {
                Err(error) if error.is_temporary() => eprintln!("waiting for the API: {error}"),
                answered => return answered,
            }
            sleep(PAUSE).await;
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        let mut rest = std::mem::take(&mut self.rest);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for text in rest[..whole].split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
            match serde_json::from_slice(text) {
                Ok(LogRecord::Line(line)) => self.print(&line),
                Ok(LogRecord::Problem(problem)) => {
                    self.has_problem = true;
                    let source = self.style.source(&self.asked.name, problem.instance, problem.container);
                    eprintln!("{source}: {}", problem.error);
                }
                Err(error) => eprintln!("an object of the answer cannot be read: {error}"),
            }
        }
        rest.drain(..whole);
        if rest.len() > LONGEST_LINE {
            rest.clear();
        }
        self.rest = rest;
    }

    fn print(&mut self, line: &InstanceLine) {
        let position = self.positions.entry((line.instance, line.container)).or_default();
        if position.advance(&line.line) {
            terminal::print_log(&self.style.head(line), &line.line.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use contract::logs::{LogLine, LogStream, LogTime};

    use super::*;
    use crate::args::{Args, Command};

    fn asked(line: &str) -> Logs {
        match Args::try_parse_from(format!("deployctl logs {line}").split_whitespace()).unwrap().command {
            Command::Logs(logs) => logs,
            _ => panic!("not logs"),
        }
    }

    fn text(instance: u32, nanos: i64) -> String {
        let line = LogLine { time: LogTime::from_nanos(nanos), stream: LogStream::Stdout, line: "x".to_owned() };
        let record = LogRecord::Line(InstanceLine { instance, container: 0, node: "n1".to_owned(), line });
        serde_json::to_string(&record).unwrap() + "\n"
    }

    #[test]
    fn after_a_lost_connection_every_container_is_read_again_from_its_last_line() {
        let asked = asked("demo.web.web --follow --instance 2 --tail 5");
        let style = LogStyle { group: None, has_containers: false, timestamps: false };
        let mut reader = LogPrinter::new(&asked, style, None);
        let usual = "name=demo.web.web instance=2 tail=5 follow=true";
        let shown = |reader: &LogPrinter<'_>| {
            reader.params().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&reader), usual);
        let stream = format!("{}\n{}{}", text(2, 5), text(2, 7), &text(2, 9)[..10]);
        for chunk in stream.as_bytes().chunks(7) {
            reader.take(chunk);
        }
        assert_eq!(shown(&reader), format!("{usual} after=2.0=1970-01-01T00:00:00.000000007Z"));
        assert!(!reader.rest.is_empty() && !reader.has_problem);
    }
}
