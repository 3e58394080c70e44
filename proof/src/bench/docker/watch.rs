//! Hears what happens to the containers of one side, and waits until they stand as they shall.

use std::time::{Duration, Instant, SystemTime};

use fabric::tasks::{Scoped, spawn_scoped};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::super::standing::{Happening, Kind, Standing};
use super::{Docker, Error, EventMessage, EventsOptionsBuilder, HashMap, RUN, VERSION};

/// What is heard and not read yet. More than three happenings for each container of the largest race; when it is full the
/// engine waits, and nothing is lost.
const UNREAD: usize = 4096;

/// The containers of one side as they change.
#[derive(Debug)]
pub(crate) struct Watch {
    happenings: mpsc::Receiver<Happening>,
    standing: Standing,
    _ear: Scoped,
}

impl Watch {
    pub(super) fn begin(docker: Docker, mark: String) -> Self {
        let (told, happenings) = mpsc::channel(UNREAD);
        // By the engine's memory nothing is missed between this moment and the first read.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ear = spawn_scoped("bench events", hear(docker, mark, since, told));
        Self { happenings, standing: Standing::default(), _ear: ear }
    }

    /// Waits until exactly so many run in this version; says when that was.
    pub(crate) async fn until(&mut self, count: u32, version: u32, within: Duration) -> Result<Instant, Error> {
        let mut last = Instant::now();
        let waiting = async {
            while !self.standing.is(count, version) {
                let happening = self.happenings.recv().await.ok_or(Error::Deaf)?;
                self.standing.observe(&happening);
                last = happening.at;
            }
            Ok(last)
        };
        match tokio::time::timeout(within, waiting).await {
            Ok(done) => done,
            Err(_) => {
                let what = format!("{count} containers of version {version}");
                Err(Error::Late { what, within, standing: self.standing.shown() })
            }
        }
    }

    /// Waits for the next container that is started; says when that was.
    pub(crate) async fn started(&mut self, within: Duration) -> Result<Instant, Error> {
        let waiting = async {
            loop {
                let happening = self.happenings.recv().await.ok_or(Error::Deaf)?;
                self.standing.observe(&happening);
                if happening.kind == Kind::Started {
                    return Ok(happening.at);
                }
            }
        };
        match tokio::time::timeout(within, waiting).await {
            Ok(done) => done,
            Err(_) => Err(Error::Late { what: "a start".to_owned(), within, standing: self.standing.shown() }),
        }
    }
}

async fn hear(docker: Docker, mark: String, since: Duration, told: mpsc::Sender<Happening>) {
    let filters = HashMap::from([
        ("type", vec!["container".to_owned()]),
        ("event", ["start", "die", "destroy"].map(str::to_owned).to_vec()),
        ("label", vec![format!("{RUN}={mark}")]),
    ]);
    let since = format!("{}.{:09}", since.as_secs(), since.subsec_nanos());
    let options = EventsOptionsBuilder::new().since(&since).filters(&filters).build();
    let mut events = std::pin::pin!(docker.events(Some(options)));
    while let Some(Ok(event)) = events.next().await {
        if let Some(happening) = happening(event)
            && told.send(happening).await.is_err()
        {
            return;
        }
    }
}

fn happening(event: EventMessage) -> Option<Happening> {
    let kind = match event.action.as_deref()? {
        "start" => Kind::Started,
        "die" => Kind::Died,
        "destroy" => Kind::Removed,
        _ => return None,
    };
    let actor = event.actor?;
    let version = actor.attributes.unwrap_or_default().get(VERSION).and_then(|text| text.parse().ok()).unwrap_or(0);
    Some(Happening { id: actor.id?, version, kind, at: Instant::now() })
}
