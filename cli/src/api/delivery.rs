//! Delivers a change: sends it until the API accepts or refuses it, and waits until a leader has decided it.
//!
//! A change carries an `Idempotency-Key`, so repeating it after a lost answer cannot make it twice. After "another operation is
//! progressing" the key must be new, because the scheduler remembers that refusal. Once the outcome of an attempt is unknown, it
//! stays unknown until `/api/operations` shows the outcome of the key: a later attempt that was not accepted proves nothing
//! about an earlier one.

use std::time::{SystemTime, UNIX_EPOCH};

use contract::api::{Accepted, OperationStatus};
use reqwest::{Method, StatusCode};

use super::error::RetryWith;
use super::{Api, Error, Reply, Request, Retry};

/// State of an operation that a leader accepted.
const ACCEPTED: &str = "accepted";
/// Why the outcome of a queued change is unknown.
const UNDECIDED: &str = "the change is stored, no scheduler has decided it yet";

/// The answer to a change, and the key of the attempt that it answers.
pub(super) struct Delivered {
    pub(super) reply: Reply,
    pub(super) key: String,
}

impl Api {
    /// Makes a change and waits until a leader has decided it.
    pub(super) async fn change(&self, request: Request<'_>, retry: &mut Retry) -> Result<(), Error> {
        let accepted: Accepted = self.deliver(request, retry).await?.reply.read()?;
        if accepted.queued && !accepted.operation.is_empty() {
            self.until_decided(&accepted.operation, retry).await?;
        }
        Ok(())
    }

    /// The same for a change whose answer does not say whether a leader has decided it.
    pub(super) async fn change_blindly(&self, request: Request<'_>, retry: &mut Retry) -> Result<(), Error> {
        let key = self.deliver(request, retry).await?.key;
        self.until_decided(&key, retry).await
    }

    /// Sends a change until the API accepts or refuses it.
    pub(super) async fn deliver(&self, request: Request<'_>, retry: &mut Retry) -> Result<Delivered, Error> {
        let mut key = fresh_key();
        let mut doubt: Option<String> = None;
        loop {
            let attempt = self.attempt(&request, Some(&key)).await;
            if request.method != Method::GET {
                doubt = doubt.or(attempt.doubt);
            }
            let refusal = match attempt.answer {
                Ok(reply) if reply.status.is_success() => return Ok(Delivered { reply, key }),
                Ok(reply) => reply.refusal(),
                Err(error) => error,
            };
            if let Some(reason) = &doubt {
                match self.decided(&key).await {
                    Some(operation) if operation.state == ACCEPTED => return Ok(self.accepted(key)),
                    Some(operation) if refusal.retry_with() == RetryWith::SameKey => {
                        return Err(Error::refused(409, operation.message));
                    }
                    // The scheduler refused the key, and `refusal` is that answer.
                    Some(_) => doubt = None,
                    None => {
                        wait_in_doubt(refusal, &key, reason, retry).await?;
                        continue;
                    }
                }
            }
            match refusal.retry_with() {
                RetryWith::NewKey => key = fresh_key(),
                RetryWith::SameKey => {}
                RetryWith::Nothing => return Err(refusal),
            }
            retry.after_error(refusal).await?;
        }
    }

    /// Waits until a leader has accepted an operation: a queued change is durable, but no leader has read it yet.
    pub(super) async fn until_decided(&self, id: &str, retry: &mut Retry) -> Result<(), Error> {
        loop {
            match self.decided(id).await {
                Some(operation) if operation.state == ACCEPTED => return Ok(()),
                Some(operation) => return Err(Error::refused(409, operation.message)),
                None => {}
            }
            let unknown = |_| Error::Unknown { operation: id.to_owned(), reason: UNDECIDED.to_owned() };
            retry.pause(UNDECIDED).await.map_err(unknown)?;
        }
    }

    /// The outcome of an operation; none while it is undecided or the API does not answer.
    async fn decided(&self, id: &str) -> Option<OperationStatus> {
        let reply = self.get("/api/operations", &[("id", id)]).await.ok()?;
        reply.read().ok()
    }

    /// The answer to a change that `/api/operations` shows as accepted.
    fn accepted(&self, key: String) -> Delivered {
        let accepted = Accepted { operation: key.clone(), ..Accepted::default() };
        let body = serde_json::to_vec(&accepted).expect("bodies of the API have string keys only");
        let (url, status) = (self.targets[0].url.clone(), StatusCode::ACCEPTED);
        Delivered { reply: Reply { url, status, is_unknown: false, is_stale: false, retry_after: None, body }, key }
    }
}

/// Waits before the next attempt while the outcome of an earlier one is unknown. A definite refusal of this attempt is final.
async fn wait_in_doubt(refusal: Error, key: &str, reason: &str, retry: &mut Retry) -> Result<(), Error> {
    let (operation, reason) = (key.to_owned(), reason.to_owned());
    if refusal.retry_with() == RetryWith::Nothing {
        return Err(Error::RetryRefused { refusal: Box::new(refusal), operation, reason });
    }
    // The refusal is about this attempt only; it may say that nothing was accepted.
    let waited = retry.pause_for(&reason, refusal.retry_after()).await;
    waited.map_err(|_| Error::Unknown { operation, reason })
}

/// A unique key: the time to the nanosecond and the process.
fn fresh_key() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("deployctl-{:x}-{:x}", now.as_nanos(), std::process::id())
}
