//! A constant rate of requests: reads and changes, on kept-alive and on new connections.
//!
//! A request is sent once. Whatever is not answered with success counts as failed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Clients that keep their connections.
const KEEPERS: usize = 8;
/// Most requests in flight: a machine that cannot keep up gets them later.
const IN_FLIGHT: usize = 256;
/// Callbacks at most, also when a busy machine lets them pile up: fewer than a cluster takes.
const CALLBACKS: usize = 60;
/// Longer than any deadline of the API.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where requests go and what became of them.
pub(crate) struct Load {
    url: String,
    keepers: Vec<Client>,
    fresh: Client,
    answered: AtomicUsize,
    seen: Mutex<Seen>,
}

/// What became of the requests.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) reads: usize,
    pub(crate) changes: usize,
    pub(crate) failed: Vec<String>,
    pub(crate) longest: Duration,
    /// The callbacks there must be in the end.
    pub(crate) standing: BTreeSet<String>,
    /// Those of them that were accepted and may be removed, oldest first.
    removable: VecDeque<String>,
    /// Those that are being added.
    adding: usize,
}

/// One request.
enum LoadRequest {
    Read(&'static str),
    Add(String),
    Remove(String),
}

impl Load {
    pub(crate) fn new(url: String) -> Arc<Self> {
        let builder = || Client::builder().timeout(PATIENCE).no_proxy();
        fabric::http::install_crypto();
        Arc::new(Self {
            url,
            keepers: (0..KEEPERS).map(|_| builder().build().expect("a client")).collect(),
            fresh: builder().pool_max_idle_per_host(0).build().expect("a client"),
            answered: AtomicUsize::new(0),
            seen: Mutex::default(),
        })
    }

    /// Requests answered so far.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Sends `count` requests, one per `every`; returns how long that took.
    pub(crate) async fn run(self: &Arc<Self>, count: usize, every: Duration) -> Duration {
        let (started, places) = (Instant::now(), Arc::new(Semaphore::new(IN_FLIGHT)));
        let mut ticks = interval(every);
        // A late tick is made up for: it is the number of requests that was promised.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut in_flight = JoinSet::new();
        for number in 0..count {
            ticks.tick().await;
            let place = places.clone().acquire_owned().await.expect("never closed");
            let (load, request) = (self.clone(), self.request(number));
            in_flight.spawn(async move {
                load.send(number, request).await;
                drop(place);
            });
            while in_flight.try_join_next().is_some() {}
        }
        while let Some(ended) = in_flight.join_next().await {
            ended.expect("a request ends");
        }
        started.elapsed()
    }

    /// What the request of this number asks for: every second is a change.
    fn request(&self, number: usize) -> LoadRequest {
        let mut seen = self.seen();
        let is_full = seen.standing.len() + seen.adding >= CALLBACKS;
        match number % 4 {
            0 => LoadRequest::Read("/api/nodes"),
            2 => LoadRequest::Read("/api/cluster"),
            1 if !is_full => {
                seen.adding += 1;
                // Nothing listens there, and the test causes no notices.
                LoadRequest::Add(format!("http://callback.invalid/{number}"))
            }
            _ => match seen.removable.pop_front() {
                Some(callback) => LoadRequest::Remove(callback),
                None => LoadRequest::Read("/api/engine/config"),
            },
        }
    }

    async fn send(&self, number: usize, request: LoadRequest) {
        // The two ways of each kind of request in turn.
        let client = if number % 8 < 4 { &self.fresh } else { &self.keepers[number / 8 % KEEPERS] };
        let (method, path) = match &request {
            LoadRequest::Read(path) => (Method::GET, (*path).to_owned()),
            LoadRequest::Add(callback) => (Method::POST, format!("/api/notifies?callback={callback}")),
            LoadRequest::Remove(callback) => (Method::DELETE, format!("/api/notifies?callback={callback}")),
        };
        let started = Instant::now();
        let answer = async {
            let response = client.request(method.clone(), format!("{}{path}", self.url)).send().await?;
            let status = response.status();
            Ok::<_, reqwest::Error>((status, response.text().await?))
        };
        let failure = match answer.await {
            Ok((status, _)) if status.is_success() => None,
            Ok((status, text)) => Some(format!("{status} {text}")),
            Err(error) => Some(format!("{error:?}")),
        };
        self.note(request, failure.map(|why| format!("{number}: {method} {path}: {why}")), started.elapsed());
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn note(&self, request: LoadRequest, failure: Option<String>, took: Duration) {
        let mut seen = self.seen();
        seen.longest = seen.longest.max(took);
        match request {
            LoadRequest::Read(_) => seen.reads += 1,
            LoadRequest::Add(callback) => {
                seen.changes += 1;
                seen.adding -= 1;
                if failure.is_none() {
                    seen.standing.insert(callback.clone());
                    seen.removable.push_back(callback);
                }
            }
            LoadRequest::Remove(callback) => {
                seen.changes += 1;
                seen.standing.remove(&callback);
            }
        }
        seen.failed.extend(failure);
    }

    pub(crate) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("no holder of the lock panics")
    }
}
