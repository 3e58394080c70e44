//! Receives the events of one contestant's containers, and waits for a state.

use std::time::{Duration, Instant, SystemTime};

use fabric::tasks::{Scoped, spawn_scoped};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::super::containers::{ContainerEvent, Containers, Kind};
use super::{Docker, Error, EventMessage, EventsOptionsBuilder, HashMap, RUN, VERSION};

/// Unread events: more than three per container of the largest race. When the channel is full the engine waits; no event is lost.
const UNREAD: usize = 4096;

#[derive(Debug)]
pub(crate) struct EventWatch {
    events: mpsc::Receiver<ContainerEvent>,
    containers: Containers,
    _task: Scoped,
}

impl EventWatch {
    pub(super) fn begin(docker: Docker, mark: String) -> Self {
        let (sender, events) = mpsc::channel(UNREAD);
        // `since` also returns events between this moment and the first read.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let task = spawn_scoped("bench events", receive(docker, mark, since, sender));
        Self { events, containers: Containers::default(), _task: task }
    }

    pub(crate) async fn until(&mut self, count: u32, version: u32, within: Duration) -> Result<Instant, Error> {
        let mut last = Instant::now();
        let waiting = async {
            while !self.containers.is(count, version) {
                let event = self.events.recv().await.ok_or(Error::Deaf)?;
                self.containers.observe(&event);
                last = event.at;
            }
            Ok(last)
        };
        match tokio::time::timeout(within, waiting).await {
            Ok(done) => done,
            Err(_) => {
                let what = format!("{count} containers of version {version}");
                Err(Error::Late { what, within, containers: self.containers.shown() })
            }
        }
    }

    pub(crate) async fn started(&mut self, within: Duration) -> Result<Instant, Error> {
        let waiting = async {
            loop {
                let event = self.events.recv().await.ok_or(Error::Deaf)?;
                self.containers.observe(&event);
                if event.kind == Kind::Started {
                    return Ok(event.at);
                }
            }
        };
        match tokio::time::timeout(within, waiting).await {
            Ok(done) => done,
            Err(_) => Err(Error::Late { what: "a start".to_owned(), within, containers: self.containers.shown() }),
        }
    }
}

async fn receive(docker: Docker, mark: String, since: Duration, sender: mpsc::Sender<ContainerEvent>) {
    let filters = HashMap::from([
        ("type", vec!["container".to_owned()]),
        ("event", ["start", "die", "destroy"].map(str::to_owned).to_vec()),
        ("label", vec![format!("{RUN}={mark}")]),
    ]);
    let since = format!("{}.{:09}", since.as_secs(), since.subsec_nanos());
    let options = EventsOptionsBuilder::new().since(&since).filters(&filters).build();
    let mut events = std::pin::pin!(docker.events(Some(options)));
    while let Some(Ok(event)) = events.next().await {
        if let Some(event) = container_event(event)
            && sender.send(event).await.is_err()
        {
            return;
        }
    }
}

fn container_event(event: EventMessage) -> Option<ContainerEvent> {
    let kind = match event.action.as_deref()? {
        "start" => Kind::Started,
        "die" => Kind::Died,
        "destroy" => Kind::Removed,
        _ => return None,
    };
    let actor = event.actor?;
    let version = actor.attributes.unwrap_or_default().get(VERSION).and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(ContainerEvent { id: actor.id?, version, kind, at: Instant::now() })
}
