//! What every change has in common: its id, its way to the leader, and its translation to HTTP.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use contract::api::Accepted;
use contract::command::{Outcome, Refusal, Verb, Verdict};
use contract::name::CommandId;
use contract::validate::LARGEST_BODY;

use super::Api;
use super::respond::{self, Answer, Refused};
use crate::commands::{self, Fate};

/// A client's own id for its request: the same key twice is the same change.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Largest command sent: defaults written out may double a body, and the bus carries at most 1 MiB.
const LARGEST_COMMAND: usize = 3 * LARGEST_BODY;

/// What a client is told when its change is accepted.
#[derive(Debug, Clone)]
pub struct Promise {
    /// Where to look.
    pub check_url: String,
    /// What will happen.
    pub message: &'static str,
}

/// A change that is in effect, or will be.
#[derive(Debug, Clone)]
pub struct Settled {
    /// The command.
    pub id: CommandId,
    /// Durable, but no leader has decided yet.
    pub queued: bool,
}

/// Asks for `verb` and answers what became of it.
pub async fn change(api: &Api, headers: &HeaderMap, verb: Verb, promise: Promise) -> Answer {
    settle(api, headers, verb).await.map(|settled| accepted(&settled, promise))
}

/// Asks for `verb` and says what became of it.
pub async fn settle(api: &Api, headers: &HeaderMap, verb: Verb) -> Result<Settled, Refused> {
    let command = api.commands.command(command_id(headers)?, verb);
    let size = serde_json::to_vec(&command).map_or(usize::MAX, |encoded| encoded.len());
    if size > LARGEST_COMMAND {
        let message = format!("written out in full this is {size} bytes, at most {LARGEST_COMMAND} are accepted");
        return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    match api.commands.send(&command).await {
        Ok(Fate::Decided(outcome)) => decided(outcome),
        Ok(Fate::Queued) => Ok(Settled { id: command.id, queued: true }),
        Err(error) => Err(undelivered(&error)),
    }
}

fn command_id(headers: &HeaderMap) -> Result<CommandId, Refused> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        let minted = ulid::Ulid::generate().to_string();
        return Ok(minted.parse().expect("a ULID is 26 letters and digits"));
    };
    let key = key.to_str().map_err(|_| Refused::bad_request("Idempotency-Key: is not plain text"))?;
    key.parse().map_err(|error| Refused::bad_request(format!("Idempotency-Key: {error}")))
}

fn decided(outcome: Outcome) -> Result<Settled, Refused> {
    match outcome.verdict {
        Verdict::Accepted => Ok(Settled { id: outcome.id, queued: false }),
        Verdict::Refused(Refusal::ReadOnly) => Err(Refused::read_only()),
        Verdict::Refused(refusal) => Err(Refused::new(status_of(&refusal), refusal.to_string())),
    }
}

/// The usual answer to an accepted change.
pub fn accepted(settled: &Settled, promise: Promise) -> Response {
    let body = Accepted {
        check_url: promise.check_url,
        message: promise.message.to_owned(),
        operation: settled.id.to_string(),
        queued: settled.queued,
    };
    respond::json(StatusCode::ACCEPTED, &body)
}

fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::GroupUnknown
        | Refusal::InstanceUnknown { .. }
        | Refusal::DependencyUnknown
        | Refusal::CallbackUnknown
        | Refusal::ConstraintUnknown => StatusCode::NOT_FOUND,
        Refusal::ReadOnly => StatusCode::FORBIDDEN,
        Refusal::GroupExists | Refusal::DependencyExists => StatusCode::METHOD_NOT_ALLOWED,
        Refusal::GroupRemoving => StatusCode::INTERNAL_SERVER_ERROR,
        Refusal::Locked { .. } => StatusCode::LOCKED,
        Refusal::Limit { .. } | Refusal::Malformed { .. } => StatusCode::BAD_REQUEST,
    }
}

fn undelivered(error: &commands::Error) -> Refused {
    tracing::warn!(%error, source = std::error::Error::source(error), "command not delivered");
    Refused::unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use contract::command::Operation;

    use super::*;

    #[test]
    fn every_refusal_has_deployds_status_and_text() {
        let locked = Refusal::Locked { operation: Operation::Scheduling };
        for (refusal, status, text) in [
            (Refusal::GroupUnknown, 404, "PodGroup not existed"),
            (Refusal::GroupExists, 405, "PodGroup has already existed"),
            (Refusal::GroupRemoving, 500, "PodGroup is removing, need to wait for that"),
            (locked, 423, "Another operation \"Scheduling\" is progressing"),
            (Refusal::InstanceUnknown { instance: 3, instances: 2 }, 404, "instance 3 not existed, the PodGroup has 2"),
            (Refusal::DependencyUnknown, 404, "DependencyPod not existed"),
            (Refusal::DependencyExists, 405, "DependencyPod has already existed"),
            (Refusal::CallbackUnknown, 404, "Notify uri not existed"),
            (Refusal::ConstraintUnknown, 404, "Constraint not existed"),
            (Refusal::ReadOnly, 403, "Do ReadOnly Permitted."),
            (Refusal::Limit { what: "instances".to_owned(), limit: 9 }, 400, "instances would pass the limit of 9"),
            (Refusal::Malformed { reason: "x".to_owned() }, 400, "the command could not be read: x"),
        ] {
            assert_eq!((status_of(&refusal).as_u16(), refusal.to_string().as_str()), (status, text));
        }
    }

    #[test]
    fn a_command_id_is_minted_or_taken_from_the_client() {
        let mut headers = HeaderMap::new();
        assert_ne!(command_id(&headers).unwrap(), command_id(&headers).unwrap());
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("retry-7"));
        assert_eq!(command_id(&headers).unwrap().as_str(), "retry-7");
        for bad in ["", "a b", "a/b", "..", "*", ">"] {
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_str(bad).unwrap());
            assert_eq!(command_id(&headers).unwrap_err().status, StatusCode::BAD_REQUEST, "{bad:?}");
        }
    }
}
