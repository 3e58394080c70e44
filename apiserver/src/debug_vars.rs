//! Request statistics of `/debug/vars`, which monitors of the original read. Counting is pure: time is an argument.
//!
//! The page omits command-line arguments: it is public, and a URL may contain a password.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use contract::time::Timestamp;
use serde::Serialize;

/// Latencies kept, as in the original.
const MOST_RECENT: usize = 50;
/// Length of the per-second history.
const KEPT_SECONDS: u64 = 300;

#[derive(Debug)]
pub struct DebugVars {
    started: Instant,
    started_at: Timestamp,
    counts: Mutex<Counts>,
}

/// `GET /debug/vars`.
#[derive(Debug, Serialize)]
pub struct DebugVarsBody {
    cmdline: Vec<&'static str>,
    at_server_start: String,
    cpu_count: usize,
    hits_total: u64,
    hits_per_minute: u64,
    hits_4xx_per_5min: u64,
    hits_5xx_per_5min: u64,
    hits_pageviews: BTreeMap<&'static str, u64>,
    latency_recent: String,
    latency_max: String,
    latency_min: String,
    latency_p95: String,
    latency_p50: String,
}

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub struct Hit {
    /// Path of the resource, or `other`.
    pub path: &'static str,
    pub status: u16,
    pub took: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    total: u64,
    pageviews: BTreeMap<&'static str, u64>,
    recent: VecDeque<Duration>,
    /// The last seconds with a request, oldest first.
    seconds: VecDeque<Second>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Second {
    number: u64,
    hits: u64,
    client_errors: u64,
    server_errors: u64,
}

impl DebugVars {
    pub fn new(started_at: Timestamp) -> Self {
        Self { started: Instant::now(), started_at, counts: Mutex::default() }
    }

    pub fn count(&self, hit: Hit) {
        let now = self.started.elapsed().as_secs();
        // A panic while counting leaves at worst a wrong count.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).count(hit, now);
    }

    pub fn page(&self) -> DebugVarsBody {
        let now = self.started.elapsed().as_secs();
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let start = self.started_at.to_string();
        DebugVarsBody {
            cmdline: vec!["deployd-apiserver"],
            at_server_start: start.get(..19).unwrap_or(&start).replace('T', " "),
            cpu_count: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            hits_total: counts.total,
            hits_per_minute: counts.sum(now, 60, |second| second.hits),
            hits_4xx_per_5min: counts.sum(now, KEPT_SECONDS, |second| second.client_errors),
            hits_5xx_per_5min: counts.sum(now, KEPT_SECONDS, |second| second.server_errors),
            hits_pageviews: counts.pageviews.clone(),
            latency_recent: counts.recent.iter().map(shown).collect::<Vec<_>>().join(","),
            latency_max: counts.latency(100),
            latency_min: counts.latency(0),
            latency_p95: counts.latency(95),
            latency_p50: counts.latency(50),
        }
    }
}

impl Counts {
    fn count(&mut self, hit: Hit, now: u64) {
        self.total += 1;
        *self.pageviews.entry(hit.path).or_default() += 1;
        self.recent.push_back(hit.took);
        if self.recent.len() > MOST_RECENT {
            self.recent.pop_front();
        }
        if self.seconds.back().is_none_or(|second| second.number != now) {
            self.seconds.push_back(Second { number: now, ..Second::default() });
        }
        while self.seconds.front().is_some_and(|second| second.number + KEPT_SECONDS <= now) {
            self.seconds.pop_front();
        }
        if let Some(second) = self.seconds.back_mut() {
            second.hits += 1;
            second.client_errors += u64::from((400..500).contains(&hit.status));
            second.server_errors += u64::from(hit.status >= 500);
        }
    }

    /// The sum over the last `span` seconds.
    fn sum(&self, now: u64, span: u64, part: impl Fn(&Second) -> u64) -> u64 {
        self.seconds.iter().filter(|second| second.number + span > now).map(part).sum()
    }

    /// Percentile of the recent latencies.
    fn latency(&self, percent: usize) -> String {
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(index).map(shown).unwrap_or_default()
    }
}

/// `81.5µs`: Rust's debug format of durations is Go's format.
fn shown(latency: &Duration) -> String {
    format!("{latency:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(status: u16, micros: u64) -> Hit {
        Hit { path: "/api/nodes", status, took: Duration::from_micros(micros) }
    }

    #[test]
    fn counts_cover_the_last_five_minutes() {
        let mut counts = Counts::default();
        counts.count(hit(404, 1), 0);
        counts.count(hit(503, 1), 10);
        counts.count(hit(200, 1), 299);
        let shown = |counts: &Counts, now| {
            (
                counts.sum(now, 60, |s| s.hits),
                counts.sum(now, 300, |s| s.client_errors),
                counts.sum(now, 300, |s| s.server_errors),
            )
        };
        assert_eq!(shown(&counts, 299), (1, 1, 1));
        assert_eq!(shown(&counts, 300), (1, 0, 1));
        counts.count(hit(200, 1), 400);
        assert_eq!((shown(&counts, 400), counts.seconds.len(), counts.total), ((1, 0, 0), 2, 4));
    }

    #[test]
    fn latencies_are_those_of_the_last_fifty_requests() {
        let mut counts = Counts::default();
        assert_eq!(counts.latency(50), "");
        for micros in 0..=100 {
            counts.count(hit(200, micros), 0);
        }
        assert_eq!(counts.recent.len(), MOST_RECENT);
        let latencies = [0, 50, 95, 100].map(|percent| counts.latency(percent));
        assert_eq!(latencies, ["51µs", "75µs", "98µs", "100µs"]);
    }
}
