//! Access: identifies the client of each request.
//!
//! The schedulers keep the switch and the tokens. An apiserver caches them ([`known`]), asks for changes every few seconds,
//! and at once for a token that it does not know. A client without a token is identified by its address or user, if a binding
//! of `--anonymous` is for it. The rights of the client are checked by the caller, and for changes again by the leader.
//!
//! Example: a token that is revoked at another apiserver is refused here after [`POLL`] at the latest, and by the leader
//! immediately.

mod bearer;
mod client;
mod failures;
mod known;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use contract::access::AnonymousBinding;
use contract::access::binding::Peer;
use contract::access::table::AccessTable;
use contract::access::token::Token;
use contract::query::{Answer, Query};
use contract::subjects;
use fabric::clock::Clock;
use fabric::shutdown::Shutdown;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::http::respond::Refused;
use crate::peers::{self, Source};
use crate::queries::Queries;
use bearer::HeaderFlaw;
pub use client::{Client, text as peer_text};
use failures::Failures;
use known::{Heard, Identification, Known, Local, News, TableUpdate};

/// How often the table is read again. With the time of an answer this keeps a revocation below 5 s.
const POLL: Duration = Duration::from_secs(4);
/// The same before the first answer.
const FIRST_POLL: Duration = Duration::from_millis(500);
/// Deadline of one try with one scheduler.
const ONE_TRY: Duration = Duration::from_millis(500);
/// Pause between refreshes that requests cause, for all requests together.
const BETWEEN_REFRESHES: Duration = Duration::from_secs(1);
/// How long a request waits for the first table: a new apiserver gets it within milliseconds.
const FIRST_TABLE: Duration = Duration::from_secs(1);
/// Pause between tries while a request waits for the first table.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

const LOG_IN: &str = "log in again with `deployctl login`, or ask an admin for a token (`deployctl token create`)";

/// Identifies clients; clones share the table.
#[derive(Debug, Clone)]
pub struct Access(Arc<AccessState>);

#[derive(Debug)]
struct AccessState {
    queries: Queries,
    clock: Clock,
    local: Local,
    known: Mutex<Known>,
    failures: Mutex<Failures>,
    /// Start of the last refresh. One refresh runs at a time; requests that arrived before it started share its result.
    refreshed: tokio::sync::Mutex<Option<Instant>>,
}

impl Access {
    pub fn new(queries: Queries, bindings: Vec<AnonymousBinding>) -> Self {
        let local = Local { bindings, uid: rustix::process::getuid().as_raw() };
        Self(Arc::new(AccessState {
            queries,
            clock: Clock::start(),
            local,
            known: Mutex::default(),
            failures: Mutex::default(),
            refreshed: tokio::sync::Mutex::default(),
        }))
    }

    /// Reads the table now and then until shutdown.
    pub async fn follow(self, shutdown: Shutdown) {
        loop {
            let pause = if self.refresh().await { POLL } else { FIRST_POLL };
            tokio::select! {
                () = sleep(pause) => {}
                () = shutdown.wait() => return,
            }
        }
    }

    /// The client of a request, or why it is refused.
    pub async fn identify(&self, headers: &HeaderMap, peer: Peer) -> Result<Client, Refused> {
        let arrived = Instant::now();
        let token = bearer::read(headers).map_err(|flaw| self.malformed(flaw, peer))?;
        let token = token.as_ref();
        match self.judge(token, peer) {
            Identification::UnknownToken => {
                self.may_fail(peer)?;
                self.look_again(arrived).await;
                let is_fresh = lock(&self.0.known).is_confirmed_since(arrived);
                let identification = self.judge(token, peer);
                let is_unsure = matches!(identification, Identification::UnknownToken) && !is_fresh;
                self.conclude(if is_unsure { Identification::NoTable } else { identification }, peer)
            }
            Identification::NoTable => {
                // After the deadline the last identification counts.
                let _ = timeout(FIRST_TABLE, self.wait_for_table(token, peer)).await;
                self.conclude(self.judge(token, peer), peer)
            }
            Identification::Unconfirmed(_) => {
                let _ = timeout(FIRST_TABLE, self.refresh_after(arrived)).await;
                self.conclude(self.judge(token, peer), peer)
            }
            identification => self.conclude(identification, peer),
        }
    }

    async fn wait_for_table(&self, token: Option<&Token>, peer: Peer) {
        while matches!(self.judge(token, peer), Identification::NoTable) {
            self.refresh_after(Instant::now()).await;
            sleep(BETWEEN_TRIES).await;
        }
    }

    /// The client of a request if it is known already. Asks no scheduler and counts no failure.
    pub fn glance(&self, headers: &HeaderMap, peer: Peer) -> Option<Client> {
        let token = bearer::read(headers).ok()?;
        match self.judge(token.as_ref(), peer) {
            Identification::Client(client) | Identification::Unconfirmed(client) => Some(client),
            Identification::UnknownToken
            | Identification::BadToken
            | Identification::NoToken
            | Identification::NoTable
            | Identification::NoTokens => None,
        }
    }

    /// Whether the client would still be identified: its token is not revoked and has not expired.
    pub fn still_knows(&self, client: &Client) -> bool {
        lock(&self.0.known).still_knows(client, (Instant::now(), self.0.clock.now()))
    }

    /// Whether a scheduler that knows access control has answered.
    pub fn has_table(&self) -> bool {
        lock(&self.0.known).table().is_some()
    }

    /// Whether clients must prove who they are.
    pub fn is_enforced(&self) -> bool {
        !lock(&self.0.known).is_open(Instant::now())
    }

    /// The bindings of clients without a token.
    pub fn anonymous(&self) -> &[AnonymousBinding] {
        &self.0.local.bindings
    }

    /// Reads the table now; false when no scheduler answered.
    pub async fn refresh(&self) -> bool {
        let mut refreshed = self.0.refreshed.lock().await;
        *refreshed = Some(Instant::now());
        self.ask().await
    }

    /// Reads the table unless another request has begun to since `arrived`.
    async fn refresh_after(&self, arrived: Instant) {
        let mut refreshed = self.0.refreshed.lock().await;
        if refreshed.is_none_or(|last| last < arrived) {
            *refreshed = Some(Instant::now());
            self.ask().await;
        }
    }

    /// Reads a table that is newer than `arrived`: a token may have been created a moment ago at another apiserver.
    async fn look_again(&self, arrived: Instant) {
        let mut refreshed = self.0.refreshed.lock().await;
        if let Some(last) = *refreshed {
            if last >= arrived {
                return;
            }
            sleep_until(last + BETWEEN_REFRESHES).await;
        }
        *refreshed = Some(Instant::now());
        self.ask().await;
    }

    /// Asks the leader, then a standby; whether one gave an answer that can be used.
    async fn ask(&self) -> bool {
        for subject in [subjects::QUERY_LEADER, subjects::QUERY_STANDBY] {
            if let Some(heard) = self.ask_at(subject).await
                && self.take(heard) != TableUpdate::Ignored
            {
                return true;
            }
        }
        false
    }

    /// A scheduler of a version without access control does not answer the query and keeps it as a dead letter, so a scheduler
    /// that is not known yet first says in the answer to another query whether it knows this one.
    async fn ask_at(&self, subject: &str) -> Option<Heard> {
        let queries = &self.0.queries;
        let known = lock(&self.0.known).table().map(|table| table.version.clone());
        if known.is_none() {
            let reply = queries.ask_once(subject, &Query::Engine, ONE_TRY).await?;
            if !reply.checks_access {
                return Some(Heard { news: News::BeforeAccess, is_stale: reply.stale });
            }
        }
        let is_known = known.is_some();
        let reply = queries.ask_once(subject, &Query::Access { known }, ONE_TRY).await?;
        let news = match reply.answer {
            Answer::Access(Some(table)) => News::Table(table),
            Answer::Access(None) if is_known => News::Unchanged,
            _ => return None,
        };
        Some(Heard { news, is_stale: reply.stale })
    }

    fn take(&self, heard: Heard) -> TableUpdate {
        let mut known = lock(&self.0.known);
        let taken = known.take(heard, Instant::now());
        if taken == TableUpdate::Changed {
            let describe = |table: &AccessTable| (table.enforced, table.tokens.len());
            let (enforced, tokens) = known.table().map_or((false, 0), describe);
            tracing::info!(enforced, tokens, "access table changed");
            for binding in known.table().map(|table| self.0.local.unknown_to(table)).unwrap_or_default() {
                tracing::warn!(
                    %binding,
                    "the schedulers do not have this --anonymous binding, so they refuse the changes of its clients; start both with \
                     the same --anonymous"
                );
            }
        }
        taken
    }

    fn judge(&self, token: Option<&Token>, peer: Peer) -> Identification {
        let at = (Instant::now(), self.0.clock.now());
        lock(&self.0.known).judge(&self.0.local, token, peer, at)
    }

    fn conclude(&self, identification: Identification, peer: Peer) -> Result<Client, Refused> {
        match identification {
            Identification::Client(client) | Identification::Unconfirmed(client) => Ok(client),
            Identification::UnknownToken => {
                Err(self.failed(peer, &format!("the token is unknown or was revoked; {LOG_IN}")))
            }
            Identification::BadToken => Err(self.failed(peer, &format!("the token is wrong or has expired; {LOG_IN}"))),
            Identification::NoToken => Err(unauthenticated(
                "this cluster answers only clients that it knows: log in with `deployctl login`, or send a token in the header \
                 Authorization: Bearer",
            )),
            Identification::NoTable => Err(Refused::unavailable(
                "cannot check who you are yet: no scheduler has answered which tokens are valid; try again in a moment",
            )),
            Identification::NoTokens => Err(Refused::unavailable(
                "cannot check the token: the scheduler that leads is of a version without tokens; upgrade the schedulers",
            )),
        }
    }

    /// Refuses a client that has shown wrong join tokens too often.
    pub fn may_join(&self, client: &Client) -> Result<(), Refused> {
        self.may_fail(client.origin())
    }

    /// Counts a wrong join token and refuses it.
    pub fn refuse(&self, client: &Client, message: &str) -> Refused {
        self.failed(client.origin(), message)
    }

    fn malformed(&self, flaw: HeaderFlaw, peer: Peer) -> Refused {
        match flaw {
            HeaderFlaw::Twice => Refused::bad_request("the header Authorization was sent twice; send it once"),
            HeaderFlaw::Malformed => match self.may_fail(peer) {
                Ok(()) => self.failed(peer, &format!("the header Authorization holds no token; {LOG_IN}")),
                Err(refused) => refused,
            },
        }
    }

    /// Refuses when the peer has failed too often.
    fn may_fail(&self, peer: Peer) -> Result<(), Refused> {
        match lock(&self.0.failures).pause(source(peer), Instant::now()) {
            None => Ok(()),
            Some(pause) => {
                let seconds = u32::try_from(pause.as_secs().saturating_add(1)).unwrap_or(60);
                let message = format!("too many requests of this address had a wrong token; {LOG_IN}");
                Err(Refused::too_often(message, seconds))
            }
        }
    }

    /// Counts a failed attempt and refuses it.
    fn failed(&self, peer: Peer, message: &str) -> Refused {
        if let Err(refused) = self.may_fail(peer) {
            return refused;
        }
        lock(&self.0.failures).count(source(peer), Instant::now());
        unauthenticated(message)
    }
}

/// 401; the answer names the scheme.
fn unauthenticated(message: &str) -> Refused {
    Refused::new(StatusCode::UNAUTHORIZED, message)
}

/// Whose limit applies.
pub fn source(peer: Peer) -> Source {
    peer.address.map_or(Source::User(peer.uid), peers::of)
}

/// No code panics while it holds one of these locks, so a poisoned value is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
