//! Leader election in etcd.
//!
//! Every candidate creates one key under the prefix, tied to a new lease. The candidate with the oldest key leads, and
//! the key's create revision is its term. A leader that cannot renew its lease steps down by its own clock before the
//! lease can expire, so two processes never both believe that they lead; besides, the term guards every write. The
//! clock also counts suspended time ([`crate::boot`]).
//!
//! etcd's campaign call is not used: it blocks without a limit.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::backoff;
use crate::etcd::{Change, Effort, Error, Store};
use crate::shutdown::Shutdown;
use crate::tasks::Scoped;

/// One short try; the renewal loop retries.
const SHORT: Effort = Effort { per_try: Duration::from_secs(1), tries: 1 };

/// Timing of an election.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The lease expires this long after its last renewal. etcd rounds up to whole seconds, at least 2.
    pub ttl: Duration,
    /// Interval of renewals.
    pub renew: Duration,
    /// A leader steps down this long after it sent the last renewal that etcd answered. Must be less than `ttl`.
    pub step_down_after: Duration,
    /// Clock for leases: time since a fixed moment, including suspended time.
    pub clock: fn() -> Duration,
}

/// How often a leader compares its clock with the end of its lease. After a longer gap it reads its key again.
const CHECK: Duration = Duration::from_secs(1);

/// A leader that led this long before it resigned may stand again immediately.
const LONG_TERM: Duration = Duration::from_secs(60);

impl Default for Settings {
    fn default() -> Self {
        // A killed leader is replaced after 5 s; a leader without etcd steps down 1.5 s earlier.
        Self {
            ttl: Duration::from_secs(5),
            renew: Duration::from_secs(1),
            step_down_after: Duration::from_millis(3500),
            clock: crate::boot::time,
        }
    }
}

/// Whether this process leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionRole {
    /// Another process leads, or none.
    Follower,
    /// This process leads; the guard must accompany every write.
    Leader(Guard),
}

/// Proof of leadership, checked by each write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    pub key: String,
    /// Create revision of the key.
    pub term: u64,
}

/// This process's candidate. Dropping it without shutdown is like a crash: the lease expires by itself.
#[derive(Debug)]
pub struct Election {
    role: watch::Receiver<ElectionRole>,
    /// By [`Settings::clock`].
    safe_until: watch::Receiver<Duration>,
    clock: fn() -> Duration,
    /// Capacity 1: further resignations before the first is handled are dropped.
    resign: mpsc::Sender<()>,
    _task: Scoped,
}

impl Election {
    /// Stands for election until shutdown.
    pub fn start(store: Store, prefix: &str, name: &str, settings: Settings, shutdown: Shutdown) -> Self {
        let (role_sender, role) = watch::channel(ElectionRole::Follower);
        let (safe_until_sender, safe_until) = watch::channel(Duration::ZERO);
        let (resign, resigned) = mpsc::channel(1);
        let candidate = Candidate {
            store,
            prefix: prefix.to_owned(),
            name: name.to_owned(),
            settings,
            role: role_sender,
            safe_until: safe_until_sender,
            resigned,
            shutdown,
        };
        let clock = settings.clock;
        Self { role, safe_until, clock, resign, _task: crate::tasks::spawn_scoped("election", candidate.run()) }
    }

    /// The role and its changes. The channel closes when the election has ended and the lease is revoked.
    pub fn role(&self) -> watch::Receiver<ElectionRole> {
        self.role.clone()
    }

    /// Whether this process leads and no other process can have started to. Check it immediately before answering a
    /// query: a process that was suspended learns later that it lost the leadership.
    pub fn holds(&self) -> bool {
        matches!(*self.role.borrow(), ElectionRole::Leader(_)) && (self.clock)() < *self.safe_until.borrow()
    }

    /// Gives up leadership immediately, so that another process can lead, and stands again with a new lease:
    /// immediately the first time, later each further time that it resigns without having led for a minute.
    pub fn resign(&self) {
        if self.resign.try_send(()).is_err() {
            tracing::debug!("a resignation is already in progress");
        }
    }

    /// Returns when the election has ended after shutdown.
    pub async fn ended(&self) {
        let mut role = self.role.clone();
        while role.changed().await.is_ok() {}
    }
}

struct Candidate {
    store: Store,
    prefix: String,
    name: String,
    settings: Settings,
    role: watch::Sender<ElectionRole>,
    safe_until: watch::Sender<Duration>,
    resigned: mpsc::Receiver<()>,
    shutdown: Shutdown,
}

/// A lease and the key tied to it.
struct Candidacy {
    lease: i64,
    guard: Guard,
    /// The leader must step down by then, by [`Settings::clock`].
    safe_until: Duration,
    /// By the same clock; none while it does not lead.
    leads_since: Option<Duration>,
}

/// Why a candidacy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Resigned,
    /// Any other reason, as text for the log.
    Other(&'static str),
}

/// Consecutive resignations after short leaderships. A process that cannot lead, for example because it cannot read a
/// record, resigns in each term after reading the whole state; the back-off makes that rare.
#[derive(Debug, Default)]
struct Resignations(usize);

impl Resignations {
    /// How long this process does not stand after it led for `led` and resigned: 0, then about 0.1, 0.2, 0.4 … 10 s.
    fn wait(&mut self, led: Duration) -> Duration {
        self.0 = if led >= LONG_TERM { 1 } else { self.0.saturating_add(1) };
        match self.0 {
            1 => Duration::ZERO,
            again => backoff::delay(again - 1, Duration::from_millis(100), Duration::from_secs(10)),
        }
    }
}

/// Result of a renewal.
#[derive(Debug, Clone, Copy)]
enum Renewal {
    /// etcd answered; sent at this time, by [`Settings::clock`].
    Sent(Duration),
    LeaseGone,
}

impl Candidate {
    async fn run(mut self) {
        let (mut attempt, mut resignations) = (0, Resignations::default());
        while !self.shutdown.is_triggered() {
            let candidacy = tokio::select! {
                candidacy = self.stand() => candidacy,
                () = self.shutdown.wait() => return,
            };
            match candidacy {
                Ok(candidacy) => {
                    attempt = 0;
                    let (end, led) = self.serve(candidacy).await;
                    if end == End::Resigned {
                        self.pause(resignations.wait(led)).await;
                    }
                }
                Err(error) => {
                    attempt += 1;
                    tracing::warn!(%error, attempt, "cannot stand for election, retrying");
                    self.pause(backoff::delay(attempt, Duration::from_millis(100), Duration::from_secs(1))).await;
                }
            }
        }
    }

    /// Waits until shutdown at most.
    async fn pause(&self, wait: Duration) {
        tokio::select! { () = tokio::time::sleep(wait) => {}, () = self.shutdown.wait() => {} }
    }

    /// Creates a lease and the key. The lease id is part of the key's name, so a retried put is idempotent.
    async fn stand(&self) -> Result<Candidacy, Error> {
        let sent = (self.settings.clock)();
        let lease = self.store.grant_lease(self.settings.ttl).await?;
        let key = format!("{}{lease:x}", self.prefix);
        let put = TxnOp::put(key.as_str(), self.name.as_str(), Some(PutOptions::new().with_lease(lease)));
        let read = TxnOp::get(key.as_str(), None);
        let transaction = Txn::new()
            .when([Compare::create_revision(key.as_str(), CompareOp::Equal, 0)])
            .and_then([put])
            .or_else([read]);
        let put = self
            .store
            .call("standing for election", self.store.effort(), |mut client| {
                let transaction = transaction.clone();
                async move { client.txn(transaction).await }
            })
            .await?;
        let revision = match put.succeeded() {
            true => put.header().map_or(0, etcd_client::ResponseHeader::revision),
            false => put.op_responses().iter().find_map(created_at).unwrap_or(0),
        };
        let guard = Guard { key, term: u64::try_from(revision).unwrap_or(0) };
        Ok(Candidacy { lease, guard, safe_until: sent + self.settings.step_down_after, leads_since: None })
    }

    /// Waits for its turn, leads, and revokes the lease afterwards. Returns the reason for the end and how long it led.
    async fn serve(&mut self, mut candidacy: Candidacy) -> (End, Duration) {
        let (renewals_sender, renewals) = watch::channel(Renewal::Sent((self.settings.clock)()));
        let keeper = keep_alive(self.store.clone(), candidacy.lease, self.settings, renewals_sender);
        // Scoped: dropping the candidate must also stop the renewals.
        let _keeper = crate::tasks::spawn_scoped("election lease", keeper);
        let end = self.hold(&mut candidacy, renewals).await;
        let led = candidacy.leads_since.map(|since| (self.settings.clock)().saturating_sub(since));
        // Stop leading before the lease is revoked and another process can lead.
        self.role.send_replace(ElectionRole::Follower);
        if led.is_some() {
            let reason = match end {
                End::Resigned => "resigned",
                End::Other(reason) => reason,
            };
            tracing::info!(term = candidacy.guard.term, reason, "leads no more");
        }
        if let Err(error) = self.store.revoke_lease(candidacy.lease).await {
            tracing::debug!(%error, "cannot revoke the lease; it expires by itself");
        }
        (end, led.unwrap_or_default())
    }

    async fn hold(&mut self, candidacy: &mut Candidacy, mut renewals: watch::Receiver<Renewal>) -> End {
        let mut changes = self.store.watch(&self.prefix);
        // The watch triggers most checks; the interval covers a silent watch.
        let mut look = tokio::time::interval(self.settings.renew.min(CHECK));
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut looked_at = (self.settings.clock)();
        while self.resigned.try_recv().is_ok() {
            // Drop resignations from before this candidacy.
        }
        loop {
            let leads = candidacy.leads_since.is_some();
            let mut look_now = false;
            tokio::select! {
                biased;
                () = self.shutdown.wait() => return End::Other("shutting down"),
                Some(()) = self.resigned.recv() => return End::Resigned,
                () = tokio::time::sleep(candidacy.safe_until.saturating_sub((self.settings.clock)())) => {
                    return End::Other("no renewal was answered in time");
                }
                Ok(()) = renewals.changed() => match *renewals.borrow_and_update() {
                    Renewal::Sent(at) => {
                        candidacy.safe_until = at + self.settings.step_down_after;
                        self.safe_until.send_replace(candidacy.safe_until);
                    }
                    Renewal::LeaseGone => return End::Other("the lease is gone"),
                },
                Some(change) = changes.recv() => {
                    if removes(&change, &candidacy.guard.key) {
                        return End::Other("the key is gone");
                    }
                    // A put does not change which key is the oldest: a leader rewrites its key with every commit.
                    look_now = !leads && !matches!(change, Change::Put(_, _));
                }
                _ = look.tick() => {
                    let now = (self.settings.clock)();
                    let paused = now.saturating_sub(looked_at) >= self.settings.step_down_after;
                    looked_at = now;
                    if now >= candidacy.safe_until {
                        return End::Other("no renewal was answered in time");
                    }
                    if leads && paused && self.is_oldest(&candidacy.guard).await == Some(false) {
                        return End::Other("the key was gone after a pause");
                    }
                    look_now = !leads;
                }
            }
            if look_now
                && self.is_oldest(&candidacy.guard).await == Some(true)
                && (self.settings.clock)() < candidacy.safe_until
            {
                tracing::info!(term = candidacy.guard.term, name = self.name, "became leader");
                candidacy.leads_since = Some((self.settings.clock)());
                self.safe_until.send_replace(candidacy.safe_until);
                self.role.send_replace(ElectionRole::Leader(candidacy.guard.clone()));
            }
        }
    }

    /// Whether our key is the oldest; none when etcd does not answer.
    async fn is_oldest(&self, guard: &Guard) -> Option<bool> {
        let options = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend)
            .with_limit(1)
            .with_keys_only();
        let reading = self.store.call("reading the oldest election key", SHORT, |mut client| {
            let (prefix, options) = (self.prefix.clone(), options.clone());
            async move { client.get(prefix, Some(options)).await }
        });
        let oldest = tokio::select! {
            oldest = reading => oldest,
            () = self.shutdown.wait() => return None,
        };
        match oldest {
            Ok(found) => Some(found.kvs().first().is_some_and(|pair| {
                pair.key() == guard.key.as_bytes() && u64::try_from(pair.create_revision()) == Ok(guard.term)
            })),
            Err(error) => {
                tracing::debug!(%error, "cannot read the oldest election key");
                None
            }
        }
    }
}

fn created_at(response: &TxnOpResponse) -> Option<i64> {
    match response {
        TxnOpResponse::Get(found) => found.kvs().first().map(etcd_client::KeyValue::create_revision),
        TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => None,
    }
}

fn removes(change: &Change, key: &str) -> bool {
    match change {
        Change::Delete(gone) => gone == key,
        Change::Reset(pairs) => !pairs.iter().any(|(present, _)| present == key),
        Change::Put(_, _) => false,
    }
}

/// Renews the lease until it is gone. Counts from the moment a renewal is sent, because the lease cannot expire earlier
/// than `ttl` after that.
async fn keep_alive(store: Store, lease: i64, settings: Settings, renewals: watch::Sender<Renewal>) {
    loop {
        let (sent, began) = ((settings.clock)(), Instant::now());
        let answer = store
            .call("renewing the lease", SHORT, |client| async move {
                // The client turns an answer with a TTL of 0, which means that the lease is gone, into an error.
                client.lease_client().keep_alive(lease).await.map(|_| ())
            })
            .await;
        let next = match answer {
            Ok(()) => {
                renewals.send_replace(Renewal::Sent(sent));
                began + settings.renew
            }
            Err(Error::Failed { source: etcd_client::Error::LeaseKeepAliveError(_), .. }) => {
                renewals.send_replace(Renewal::LeaseGone);
                return;
            }
            Err(error) => {
                tracing::debug!(%error, "cannot renew the lease, retrying");
                Instant::now() + Duration::from_millis(100)
            }
        };
        tokio::time::sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_with_each_resignation_up_to_ten_seconds_and_a_minute_of_leadership_resets_it() {
        let mut resignations = Resignations::default();
        assert_eq!(resignations.wait(Duration::ZERO), Duration::ZERO);
        for longest in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
            let (longest, wait) = (Duration::from_millis(longest), resignations.wait(Duration::from_secs(59)));
            assert!(wait >= longest / 2 && wait <= longest, "{longest:?}: {wait:?}");
        }
        assert_eq!(resignations.wait(Duration::from_secs(60)), Duration::ZERO);
        assert!(resignations.wait(Duration::ZERO) <= Duration::from_millis(100));
    }
}
