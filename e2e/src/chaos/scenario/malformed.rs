//! Sends unreadable messages to every subject: no process panics, good messages pass, and each bad one becomes a dead letter.
//!
//! Three subjects have no dead letters: a request for a full report has no content, readers of events skip unreadable ones, and
//! agents reject orders without a signature unread.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use contract::bus::Member;
use contract::notice::DeadLetter;
use contract::subjects;
use fabric::nats::Bus;
use reqwest::Method;
use testkit::random::Random;

use super::{Findings, Scenario, command, create, delete, group_on};
use crate::chaos::checks::Promise;
use crate::chaos::fault::InjectedFault;
use crate::cluster::{Answer, Cluster, Error, Request, eventually, process};

const NODE: &str = "node-1";
/// The messages are spread over this many waves.
const WAVES: usize = 10;
const BETWEEN_WAVES: Duration = Duration::from_millis(500);
/// Every letter is synced to disk; thousands take time on a busy machine.
const KEPT: Duration = Duration::from_secs(150);
const SOON: Duration = Duration::from_secs(60);
const PART: u64 = 1_000;

#[derive(Debug)]
pub(crate) struct Malformed {
    each: usize,
    findings: Findings,
}

#[derive(Debug, Clone)]
struct Subject {
    sender: Member,
    subject: String,
    letters: Letters,
}

/// Which unreadable messages become dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    None,
    All,
    /// The first [`OF_A_NODE`] in a minute, of both subjects of the node together.
    FirstOfNode,
}

/// Dead letters that schedulers store of one node in a minute.
const OF_A_NODE: usize = 10;

impl Malformed {
    pub(crate) fn new(each: usize) -> Self {
        Self { each, findings: Findings::default() }
    }

    async fn flood(&self, cluster: &Cluster) -> Result<(), Error> {
        let failed = |error: fabric::nats::Error| Error::Run(std::io::Error::other(error));
        let senders = senders(cluster).await?;
        let per_wave = self.each.div_ceil(WAVES);
        for wave in 0..WAVES {
            for (index, subject) in all_subjects()?.iter().enumerate() {
                for number in (wave * per_wave..self.each).take(per_wave) {
                    let bus = &senders[&subject.sender];
                    let payload = Bytes::from(payload(index, number));
                    bus.publish_bytes(&subject.subject, Some(bus.inbox()), payload).await.map_err(failed)?;
                }
            }
            for bus in senders.values() {
                bus.flush().await.map_err(failed)?;
            }
            tokio::time::sleep(BETWEEN_WAVES).await;
        }
        Ok(())
    }

    /// Measures commands, and the time from a new group to its report.
    async fn measure(&mut self, cluster: &Cluster, words: [&'static str; 3], times: usize) -> Result<(), Error> {
        let [key, commands, rounds] = words;
        for round in 0..times {
            let key = format!("{key}-{round}");
            for number in 0..5 {
                let begun = Instant::now();
                let path = format!("/api/constraints?type=good-{number}&value=on&equal=false&soft=true");
                let request = Request { method: Method::PATCH, path, body: None };
                command(cluster, &format!("good-{key}-{number}"), &request).await?;
                self.findings.time(commands, None, begun.elapsed());
            }
            let name = format!("good{key}-{}.web.web", cluster.tag());
            let begun = Instant::now();
            create(cluster, &key, group_on(&name, 1, None, |_| {})).await?;
            eventually(SOON, "a good group runs", async || {
                let said = cluster.api.get(0, &format!("/api/podgroups?name={name}")).await;
                let Answer::Said { status: 200, body } = said else { return None };
                (body["Pods"][0]["State"] == 2).then_some(())
            })
            .await?;
            self.findings.time(rounds, None, begun.elapsed());
            delete(cluster, &key, &name).await?;
        }
        Ok(())
    }

    /// Waits for the dead letter of every message.
    async fn letters(&mut self, cluster: &Cluster) -> Result<(), Error> {
        let failed = |error: fabric::nats::Error| Error::Run(std::io::Error::other(error));
        let bus = cluster.bus(&process(Member::Apiserver, "apiserver-1")?).await?;
        let all_subjects = all_subjects()?;
        let buried = all_subjects.iter().enumerate().filter(|(_, subject)| subject.letters == Letters::All);
        let wanted: BTreeSet<String> =
            buried.flat_map(|(index, _)| (0..self.each).map(move |number| token(index, number))).collect();
        let begun = Instant::now();
        let (missing, found) = loop {
            let found = found(&bus).await.map_err(failed)?;
            let missing: Vec<&String> = wanted.difference(&found).collect();
            if missing.is_empty() || begun.elapsed() > KEPT {
                break (missing.into_iter().cloned().collect::<Vec<_>>(), found);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        self.findings.time("every bad message is a dead letter after", None, begun.elapsed());
        self.findings.count("bad messages sent", None, all_subjects.len() * self.each);
        self.findings.count("of these on subjects with dead letters", None, wanted.len());
        self.findings.count("bad messages without a dead letter and its reason", Some("0"), missing.len());
        let is_of_node = |token: &&String| {
            let mut limited = all_subjects.iter().enumerate().filter(|(_, one)| one.letters == Letters::FirstOfNode);
            limited.any(|(index, _)| token.starts_with(&format!("bad{index}x")))
        };
        let of_node = found.iter().filter(is_of_node).count();
        self.findings.count("dead letters of one node", Some("at least 10"), of_node);
        if of_node < OF_A_NODE.min(self.each) {
            self.findings.broke(Promise::Buried, format!("only {of_node} dead letters of one node"));
        }
        for (index, subject) in all_subjects.iter().enumerate() {
            let of_place: Vec<&String> =
                missing.iter().filter(|token| token.starts_with(&format!("bad{index}x"))).collect();
            if let Some(first) = of_place.first() {
                let what = format!("{} messages on {}, the first is {first}", of_place.len(), subject.subject);
                self.findings.broke(Promise::Buried, what);
            }
        }
        Ok(())
    }
}

impl Scenario for Malformed {
    async fn inject_faults(&mut self, cluster: &Cluster, _chance: &mut Random) -> Result<Vec<InjectedFault>, Error> {
        let before = ["before", "before: a command is accepted", "before: a new group is reported running"];
        self.measure(cluster, before, 2).await?;
        let happened = InjectedFault::now("malformed messages", "every subject");
        let flooding = Self::new(self.each);
        let flooding = flooding.flood(cluster);
        let during = [
            "during",
            "bad messages arrive: a command is accepted",
            "bad messages arrive: a new group is reported running",
        ];
        let (flooded, measured) = tokio::join!(Box::pin(flooding), Box::pin(self.measure(cluster, during, 3)));
        flooded?;
        measured?;
        self.letters(cluster).await?;
        Ok(vec![happened])
    }

    async fn findings(&mut self, cluster: &Cluster) -> Result<Findings, Error> {
        let mut findings = std::mem::take(&mut self.findings);
        let panics = panics(cluster);
        let restarts = cluster.children().iter().map(|child| child.restarts as usize).sum::<usize>();
        findings.count("panics", Some("0"), panics.len());
        findings.count("processes that ended", Some("0"), restarts);
        for what in panics {
            findings.broke(Promise::Buried, format!("a panic: {what}"));
        }
        if restarts > 0 {
            findings.broke(Promise::Buried, format!("{restarts} processes ended"));
        }
        for path in ["/api/events?limit=10", "/api/deadletters?limit=10"] {
            if !matches!(cluster.api.get(0, path).await, Answer::Said { status: 200, .. }) {
                findings.broke(Promise::Buried, format!("{path} does not answer any more"));
            }
        }
        Ok(findings)
    }
}

/// The subjects, each with the process that may publish there.
fn all_subjects() -> Result<Vec<Subject>, Error> {
    let node = NODE.parse().map_err(|_| Error::State)?;
    let subject = |sender, subject: String, letters| Subject { sender, subject, letters };
    Ok(vec![
        subject(Member::Apiserver, subjects::COMMANDS.to_owned(), Letters::All),
        subject(Member::Agent, subjects::report(&node), Letters::FirstOfNode),
        // Agents reject orders without a signature before they read them.
        subject(Member::Scheduler, subjects::order(&node), Letters::None),
        subject(Member::Apiserver, subjects::inspect(&node), Letters::FirstOfNode),
        subject(Member::Apiserver, subjects::QUERY_LEADER.to_owned(), Letters::All),
        subject(Member::Apiserver, subjects::QUERY_STANDBY.to_owned(), Letters::All),
        subject(Member::Scheduler, subjects::notice("proof"), Letters::All),
        subject(Member::Scheduler, subjects::resync(&node), Letters::None),
        subject(Member::Scheduler, subjects::EVENTS.to_owned(), Letters::None),
    ])
}

/// A connection for each kind of sender.
async fn senders(cluster: &Cluster) -> Result<BTreeMap<Member, Bus>, Error> {
    let mut senders = BTreeMap::new();
    for (member, name) in
        [(Member::Scheduler, "scheduler-1"), (Member::Apiserver, "apiserver-1"), (Member::Agent, NODE)]
    {
        senders.insert(member, cluster.bus(&process(member, name)?).await?);
    }
    Ok(senders)
}

fn token(subject: usize, number: usize) -> String {
    format!("bad{subject}x{number}y")
}

/// Not JSON, cut JSON, not text, another type, other fields.
fn payload(subject: usize, number: usize) -> Vec<u8> {
    let token = token(subject, number);
    match number % 5 {
        0 => token.into_bytes(),
        1 => format!("{{\"Group\":{{\"name\":\"{token}").into_bytes(),
        2 => [&[0xff, 0xfe, 0x00][..], token.as_bytes()].concat(),
        3 => format!("\"{token}\"").into_bytes(),
        _ => format!("{{\"{token}\":[[[[{{}}]]]]}}").into_bytes(),
    }
}

async fn found(bus: &Bus) -> Result<BTreeSet<String>, fabric::nats::Error> {
    let mut found = BTreeSet::new();
    let Some(mut reader) = bus.read_back(subjects::DEAD_LETTERS_STREAM).await? else { return Ok(found) };
    while let Some(part) = reader.part(PART).await? {
        let letters = part.iter().filter_map(|stored| serde_json::from_slice::<DeadLetter>(&stored.payload).ok());
        found.extend(letters.filter(|letter| !letter.reason.is_empty()).filter_map(|letter| token_in(&letter.payload)));
    }
    Ok(found)
}

fn token_in(text: &str) -> Option<String> {
    let begin = text.find("bad")?;
    let end = begin + text[begin..].find('y')?;
    Some(text[begin..=end].to_owned())
}

/// Panics in the logs.
fn panics(cluster: &Cluster) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(cluster.run_folder().join("logs")).into_iter().flatten().flatten() {
        let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default()).into_owned();
        let lines = text.lines().filter(|line| line.contains("panicked"));
        found.extend(lines.map(|line| format!("{}: {line}", entry.file_name().to_string_lossy())));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_found_again_by_its_token() {
        for number in 0..10 {
            let text = String::from_utf8_lossy(&payload(3, number)).into_owned();
            assert_eq!(token_in(&text), Some(token(3, number)), "{text}");
        }
        assert_eq!(token_in("{}"), None);
    }

    #[test]
    fn no_payload_is_readable() {
        for number in 0..5 {
            let bytes = payload(0, number);
            assert!(serde_json::from_slice::<contract::command::Command>(&bytes).is_err());
            assert!(serde_json::from_slice::<contract::query::Query>(&bytes).is_err());
            assert!(serde_json::from_slice::<contract::query::InspectRequest>(&bytes).is_err());
            assert!(serde_json::from_slice::<contract::report::ReportMessage>(&bytes).is_err());
            assert!(serde_json::from_slice::<contract::order::OrderMessage>(&bytes).is_err());
            assert!(serde_json::from_slice::<contract::notice::Notice>(&bytes).is_err());
        }
    }
}
