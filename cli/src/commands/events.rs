//! `events` and `dead-letters`: prints events and undeliverable messages.
//!
//! `--follow` survives a lost connection: it resumes at any apiserver after the last event.

use std::time::Duration;

use contract::event::Event;
use contract::time::Timestamp;
use fabric::clock::Clock;
use reqwest::Response;
use tokio::time::{sleep, timeout};

use crate::api::{self, Api};
use crate::args::{self, Output};
use crate::output::{event, list, lists, print_yaml, terminal};

/// Reconnect after this time without data: the connection may be dead.
const SILENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);
/// Longest line of a stream; a longer one is not an event.
const LONGEST_LINE: usize = 1 << 20;

/// `deployctl events`
pub async fn events(api: &Api, asked: &args::Events) -> Result<(), api::Error> {
    let now = Clock::start().now();
    let params = Params::new(asked, asked.since.map(|span| now - span));
    if asked.follow {
        return follow(api, params, now, asked.output).await;
    }
    let events = api.events(&params.pairs(false)).await?;
    if events.is_empty() && asked.output == Output::Table {
        println!("no events");
    }
    for event in &events {
        print(event, asked.output);
    }
    Ok(())
}

/// `deployctl dead-letters`
pub async fn dead_letters(api: &Api, asked: &args::DeadLetters) -> Result<(), api::Error> {
    list::show(asked.listing, async || Ok(lists::dead_letters(&api.dead_letters(asked.limit).await?))).await
}

/// Prints events until Ctrl-C; only the first connection must succeed.
async fn follow(api: &Api, mut params: Params, started: Timestamp, output: Output) -> Result<(), api::Error> {
    let mut response = api.listen(api::EVENTS, &params.pairs(true), None).await?;
    let mut last = None;
    loop {
        let mut lines = Lines::default();
        while let Ok(Ok(Some(chunk))) = timeout(SILENCE, response.chunk()).await {
            for event in lines.events(&chunk) {
                print(&event, output);
            }
            last = lines.last.or(last);
        }
        if last.is_none() {
            // No event was printed yet: resume at the start of the command.
            params.since.get_or_insert_with(|| started.to_string());
        }
        response = again(api, &params, last).await;
    }
}

async fn again(api: &Api, params: &Params, last: Option<u64>) -> Response {
    loop {
        match api.listen(api::EVENTS, &params.pairs(true), last).await {
            Ok(response) => return response,
            Err(error) => eprintln!("waiting for the API: {error}"),
        }
        sleep(PAUSE).await;
    }
}

/// The query parameters.
struct Params {
    group: Option<String>,
    node: Option<String>,
    kind: Option<&'static str>,
    since: Option<String>,
    limit: Option<String>,
}

impl Params {
    fn new(asked: &args::Events, since: Option<Timestamp>) -> Self {
        Self {
            group: asked.group.clone(),
            node: asked.node.clone(),
            kind: asked.kind.map(contract::event::Kind::word),
            since: since.map(|since| since.to_string()),
            limit: asked.limit.map(|limit| limit.to_string()),
        }
    }

    fn pairs(&self, follow: bool) -> Vec<(&'static str, &str)> {
        let given = [
            ("group", self.group.as_deref()),
            ("node", self.node.as_deref()),
            ("kind", self.kind),
            ("since", self.since.as_deref()),
            ("limit", self.limit.as_deref()),
            ("follow", follow.then_some("true")),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Parses a stream: `data:` lines hold events, `id:` lines their sequence numbers, other lines keep the connection alive.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    /// Sequence number of the last event.
    last: Option<u64>,
}

impl Lines {
    fn events(&mut self, chunk: &[u8]) -> Vec<Event> {
        self.rest.extend_from_slice(chunk);
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Some(id) = line.strip_prefix(b"id:") {
                self.last = std::str::from_utf8(id).ok().and_then(|id| id.trim().parse().ok()).or(self.last);
            }
            let Some(data) = line.strip_prefix(b"data:") else { continue };
            match serde_json::from_slice(data) {
                Ok(event) => events.push(event),
                Err(error) => eprintln!("an event cannot be read: {error}"),
            }
        }
        if self.rest.len() > LONGEST_LINE {
            self.rest.clear();
        }
        events
    }
}

fn print(event: &Event, output: Output) {
    match output {
        Output::Table => println!("{}", event::text(event)),
        Output::Yaml => {
            println!("---");
            print_yaml(event);
        }
        Output::Json => {
            terminal::print_json(&serde_json::to_string(event).expect("an event has string keys only"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::event::tests::event;

    #[test]
    fn events_are_parsed_from_chunks_of_any_size() {
        let json = serde_json::to_string(&event("a")).unwrap();
        let stream = format!(
            ": alive\n\nid: 7\ndata: {json}\n\nevent: x\nid: 9\ndata:{json}\r\n\ndata: no json\n\ndata: {json}"
        );
        for size in [1, 7, stream.len()] {
            let mut lines = Lines::default();
            let events: Vec<Event> = stream.as_bytes().chunks(size).flat_map(|chunk| lines.events(chunk)).collect();
            assert_eq!(events, [event("a"), event("a")], "the last one has not ended yet");
            assert_eq!(lines.last, Some(9));
        }
    }

    #[tokio::test]
    async fn following_resumes_after_the_last_event_when_the_connection_is_lost() {
        let frame = format!("id: 7\ndata: {}\n\n", serde_json::to_string(&event("a")).unwrap());
        let (url, served) = crate::api::tests::server(&[(200, ": still here\n\n"), (200, &frame), (200, "")]).await;
        let api = Api::new(&[url]).unwrap();
        let params = Params { group: None, node: None, kind: Some("Placed"), since: None, limit: Some("5".to_owned()) };
        let asked = tokio::select! {
            ended = follow(&api, params, Timestamp::from_millis(0), Output::Json) => panic!("{ended:?}"),
            asked = served => asked.unwrap(),
        };
        let resumes =
            |request: &str| request.lines().find_map(|line| line.strip_prefix("last-event-id: ")).map(str::to_owned);
        assert!(asked[0].starts_with("GET /api/events?kind=Placed&limit=5&follow=true "), "{}", asked[0]);
        assert!(asked[1].contains("&since=1970-01-01T00%3A00%3A00Z&"), "{}", asked[1]);
        assert_eq!(
            asked.iter().map(|request| resumes(request)).collect::<Vec<_>>(),
            [None, None, Some("7".to_owned())]
        );
    }
}
