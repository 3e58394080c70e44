//! Hears what happens to the containers of one contestant, and waits until they stand as they shall.

use std::time::{Duration, Instant, SystemTime};

use fabric::tasks::{Scoped, spawn_scoped};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::super::containers::{ContainerEvent, Containers, Kind};
use super::{Docker, Error, EventMessage, EventsOptionsBuilder, HashMap, RUN, VERSION};

/// What is heard and not read yet. More than three events for each container of the largest race; when it is full the
/// engine waits, and nothing is lost.
const UNREAD: usize = 4096;

/// The containers of one contestant as they change.
#[derive(Debug)]
pub(crate) struct EventWatch {
    events: mpsc::Receiver<ContainerEvent>,
    containers: Containers,
    _ear: Scoped,
}

impl EventWatch {
    pub(super) fn begin(docker: Docker, mark: String) -> Self {
        let (told, events) = mpsc::channel(UNREAD);
        // By the engine's memory nothing is missed between this moment and the first read.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ear = spawn_scoped("bench events", hear(docker, mark, since, told));
        Self { events, containers: Containers::default(), _ear: ear }
    }

    /// Waits until exactly so many run in this version; says when that was.
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

    /// Waits for the next container that is started; says when that was.
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

async fn hear(docker: Docker, mark: String, since: Duration, told: mpsc::Sender<ContainerEvent>) {
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
            && told.send(event).await.is_err()
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
