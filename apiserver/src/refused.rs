//! Counts the requests that this apiserver refuses because of who sent them, and reports them to the leader, which writes them
//! into the second audit log.
//!
//! A command that the leader refuses is in the log of commands already and is not counted here. The table is bounded: strangers
//! choose their addresses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use contract::access::audit::{MOST_REFUSED, RefusedRequests};
use contract::access::token::Credentials;
use contract::command::{Command, Verb};
use contract::digest::Digest;
use fabric::shutdown::Shutdown;
use tokio::time::sleep;

use crate::access::Access;
use crate::commands::{Commands, Error};

/// Pause between two reports: one record for each apiserver that refused something.
const EVERY: Duration = Duration::from_secs(60);
/// The statuses that are counted. Each has a row for all clients beyond the limit.
const COUNTED: [StatusCode; 3] = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];

/// Requests since the last report; clones share them.
#[derive(Debug, Clone, Default)]
pub struct RefusedLog(Arc<Mutex<Rows>>);

/// By the row without its number.
type Rows = BTreeMap<RefusedRequests, u64>;

impl RefusedLog {
    /// Counts a request if it was refused because of who sent it. `peer` is an address or `uid:N`.
    pub fn note(&self, (peer, principal): (String, String), route: String, status: StatusCode) {
        if COUNTED.contains(&status) {
            let row = RefusedRequests { peer, principal, route, status: status.as_u16(), count: 0 };
            self.with(|rows| add(rows, row, 1));
        }
    }

    fn take(&self) -> Vec<RefusedRequests> {
        let rows = self.with(std::mem::take);
        rows.into_iter().map(|(row, count)| RefusedRequests { count, ..row }).collect()
    }

    fn put_back(&self, requests: Vec<RefusedRequests>) {
        self.with(|rows| {
            for row in requests {
                let count = row.count;
                add(rows, RefusedRequests { count: 0, ..row }, count);
            }
        });
    }

    /// No code panics while it holds the lock, so a poisoned value is still consistent.
    fn with<T>(&self, act: impl FnOnce(&mut Rows) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn add(rows: &mut Rows, row: RefusedRequests, count: u64) {
    let is_full = rows.len() >= MOST_REFUSED - COUNTED.len() && !rows.contains_key(&row);
    let others = || RefusedRequests {
        peer: String::new(),
        principal: String::new(),
        route: String::new(),
        status: row.status,
        count: 0,
    };
    let total = rows.entry(if is_full { others() } else { row }).or_default();
    *total = total.saturating_add(count);
}

/// Sends the reports.
#[derive(Debug, Clone)]
pub struct Reporter {
    pub log: RefusedLog,
    pub commands: Commands,
    pub access: Access,
    /// Name of this apiserver.
    pub name: String,
}

impl Reporter {
    /// Reports every minute until shutdown.
    pub async fn run(self, shutdown: Shutdown) {
        loop {
            tokio::select! {
                () = sleep(EVERY) => self.report().await,
                () = shutdown.wait() => return,
            }
        }
    }

    /// Reports what was refused since the last report, if the schedulers know such reports.
    pub async fn report(&self) {
        if !self.access.has_table() {
            return;
        }
        let requests = self.log.take();
        if requests.is_empty() {
            return;
        }
        let id = ulid::Ulid::generate().to_string().parse().expect("a ULID is 26 letters and digits");
        let verb = Verb::ReportRefused { requests: requests.clone() };
        let digest = Digest::of(&requests);
        let credentials = Credentials { apiserver: self.name.clone(), peer: String::new(), proof: None };
        let command = self.commands.command(id, None, verb, digest);
        let command = Command { credentials: Some(Box::new(credentials)), ..command };
        match self.commands.send(&command).await {
            Ok(_) => {}
            // It may be stored; counted twice would be worse than lost.
            Err(error @ Error::Unknown { .. }) => tracing::warn!(%error, "a report of refused requests may be lost"),
            Err(error) => {
                tracing::debug!(%error, "refused requests are reported later");
                self.log.put_back(requests);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(log: &RefusedLog, peer: &str, status: u16) {
        let who = (peer.to_owned(), String::new());
        log.note(who, "GET /api/nodes".to_owned(), StatusCode::from_u16(status).expect("a status"));
    }

    #[test]
    fn refused_requests_are_counted_by_client_route_and_status_in_a_bounded_table() {
        let log = RefusedLog::default();
        for number in 0..10_000 {
            note(&log, &format!("10.0.{}.{}", number / 250, number % 250), if number % 2 == 0 { 401 } else { 429 });
        }
        note(&log, "10.0.0.0", 401);
        note(&log, "10.0.0.0", 404);
        let rows = log.take();
        assert!(rows.len() <= MOST_REFUSED, "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 10_001, "404 does not count, all others do");
        let of = |peer: &str| rows.iter().filter(|row| row.peer == peer).map(|row| row.count).collect::<Vec<_>>();
        assert_eq!((of("10.0.0.0"), of("").len()), (vec![2], 2));
        assert_eq!(log.take(), []);
        log.put_back(rows);
        note(&log, "10.0.0.0", 401);
        assert_eq!(log.take().iter().map(|row| row.count).sum::<u64>(), 10_002);
    }
}
