//! Common to all changes: the command id, sending, and the HTTP answer.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use contract::access::token::Credentials;
use contract::api::Accepted;
use contract::command::{Command, Decision, Outcome, Refusal, Verb};
use contract::digest::Digest;
use contract::name::CommandId;
use contract::validate::LARGEST_BODY;
use serde::Serialize;
use serde_json::Value;

use super::respond::{self, HttpResult, Refused};
use super::{Api, Call, guard, visible};
use crate::commands::{self, Submission, is_same_request};

/// A client's id for its request: the same key twice is the same change.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The user, as the client states it.
const USER: &str = "x-deployd-user";
/// Longest user name; every revision stores one.
const LONGEST_USER: usize = 128;
/// Largest command: defaults written out may double a body, and NATS carries at most 1 MiB.
const LARGEST_COMMAND: usize = 3 * LARGEST_BODY;

/// The body of the answer to an accepted change.
#[derive(Debug, Clone)]
pub struct Promise {
    pub check_url: String,
    pub message: &'static str,
}

/// An accepted change.
#[derive(Debug, Clone)]
pub struct Settled {
    pub id: CommandId,
    /// Stored, but no leader has decided yet.
    pub queued: bool,
}

/// Sends a command and answers with its outcome.
pub async fn change(api: &Api, call: &Call, verb: Verb, promise: Promise) -> HttpResult {
    settle(api, call, verb).await.map(|settled| accepted(&settled, promise))
}

/// Sends a command and waits for its outcome.
pub async fn settle(api: &Api, call: &Call, verb: Verb) -> Result<Settled, Refused> {
    let right = verb.right();
    guard::check(&call.client, right, call.resource.path())?;
    let (id, said) = (command_id(&call.headers)?, user(&call.headers)?);
    let by = call.client.proven_name().map(str::to_owned).or(said);
    let proof = call.client.proof(right, visible::namespace_for_proof(api, &call.client, &verb).await?.as_deref());
    let credentials = Credentials { apiserver: api.name.clone(), peer: call.client.peer(), proof };
    let command = api.commands.command(id, by, verb, digest(call));
    let command = Command { credentials: Some(Box::new(credentials)), ..command };
    check_size(&command)?;
    let submission = api.commands.send(&command).await;
    if let Ok(Submission::Decided(outcome)) = &submission
        && matches!(outcome.decision, Decision::Refused(Refusal::Unauthenticated { .. }))
    {
        // The leader knows more than this apiserver: reads must not lag behind.
        api.access.refresh().await;
    }
    match submission {
        Ok(Submission::Decided(outcome)) if !belongs_to(&outcome, call.client.proven_name()) => {
            Err(key_taken(&command.id, &format!("sent by another client and decided at {}", outcome.at)))
        }
        Ok(Submission::Decided(outcome)) if is_same_request(outcome.digest, command.digest) => decided(outcome),
        Ok(Submission::Decided(outcome)) => Err(key_taken(&command.id, &format!("decided at {}", outcome.at))),
        Ok(Submission::KeyTaken { at }) => {
            Err(key_taken(&command.id, &format!("sent at {at} and waits for a decision")))
        }
        Ok(Submission::Queued) => Ok(Settled { id: command.id, queued: true }),
        Err(error) => Err(undelivered(&error)),
    }
}

/// Distinguishes two requests with one key. It covers the request as sent, not the decoded verb: an apiserver of another
/// version may decode more fields, and a retry through it is still the same request.
fn digest(call: &Call) -> Digest {
    // Form values are among the parameters; the boundary of a multipart body differs in each attempt.
    let body = if call.consumed { &[] } else { call.body.as_ref() };
    let body = serde_json::from_slice(body).map_or_else(|_| Digest::of_bytes(body), |json: Value| Digest::of(&json));
    Digest::of(&(call.method.word(), call.resource.path(), &call.rest, &call.params, body))
}

/// Whether a client with this name may get the outcome. It may have no right to do what the first client did. Outcomes of clients
/// without a token and of older schedulers have no owner.
fn belongs_to(outcome: &Outcome, name: Option<&str>) -> bool {
    outcome.principal.as_deref().is_none_or(|owner| name == Some(owner))
}

/// Refuses commands too large for NATS.
pub fn check_size<T: Serialize>(message: &T) -> Result<(), Refused> {
    let size = serde_json::to_vec(message).map_or(usize::MAX, |encoded| encoded.len());
    if size > LARGEST_COMMAND {
        let message = format!("written out in full this is {size} bytes, at most {LARGEST_COMMAND} are accepted");
        return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    Ok(())
}

fn command_id(headers: &HeaderMap) -> Result<CommandId, Refused> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        let minted = ulid::Ulid::generate().to_string();
        return Ok(minted.parse().expect("a ULID is 26 letters and digits"));
    };
    let key = key.to_str().map_err(|_| Refused::bad_request("Idempotency-Key: is not plain text"))?;
    key.parse().map_err(|error| Refused::bad_request(format!("Idempotency-Key: {error}")))
}

/// The user that the client states, shown with events and revisions; not authenticated.
fn user(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let Some(user) = headers.get(USER) else { return Ok(None) };
    let is_fit = |user: &&str| (1..=LONGEST_USER).contains(&user.len());
    let user = user.to_str().ok().filter(is_fit);
    user.map(|user| Some(user.to_owned()))
        .ok_or_else(|| Refused::bad_request(format!("X-Deployd-User: must be 1 to {LONGEST_USER} plain letters")))
}

/// Refuses a key that was used for another change.
fn key_taken(id: &CommandId, first: &str) -> Refused {
    let message = format!(
        "Idempotency-Key: {id} was used for another change, which was {first}; nothing of this request was done; send it with \
         another key"
    );
    Refused::new(StatusCode::CONFLICT, message)
}

fn decided(outcome: Outcome) -> Result<Settled, Refused> {
    match outcome.decision {
        Decision::Accepted => Ok(Settled { id: outcome.id, queued: false }),
        Decision::Refused(refusal) => Err(refused(&refusal).decided()),
    }
}

/// The HTTP answer to a refusal of the leader.
pub fn refused(refusal: &Refusal) -> Refused {
    if matches!(refusal, Refusal::ReadOnly) {
        return Refused::read_only();
    }
    Refused::new(status_of(refusal), refusal.to_string())
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
        | Refusal::ReleaseUnknown { .. }
        | Refusal::RevisionUnknown { .. }
        | Refusal::DependencyUnknown
        | Refusal::NodeUnknown { .. }
        | Refusal::CallbackUnknown
        | Refusal::ConstraintUnknown
        | Refusal::PolicyUnknown
        | Refusal::TokenUnknown { .. }
        | Refusal::JoinTokenUnknown { .. } => StatusCode::NOT_FOUND,
        Refusal::Unauthenticated { .. } => StatusCode::UNAUTHORIZED,
        Refusal::ReadOnly | Refusal::Forbidden { .. } | Refusal::Denied { .. } => StatusCode::FORBIDDEN,
        Refusal::GroupExists | Refusal::DependencyExists => StatusCode::METHOD_NOT_ALLOWED,
        Refusal::GroupRemoving => StatusCode::INTERNAL_SERVER_ERROR,
        Refusal::Locked { .. } => StatusCode::LOCKED,
        Refusal::ReleaseOver { .. } | Refusal::NotWaiting { .. } | Refusal::OtherBatch { .. } => StatusCode::CONFLICT,
        Refusal::NodeBusy { .. } => StatusCode::CONFLICT,
        Refusal::StoreFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
        Refusal::Limit { .. } | Refusal::Malformed { .. } | Refusal::Unfit { .. } => StatusCode::BAD_REQUEST,
    }
}

fn undelivered(error: &commands::Error) -> Refused {
    tracing::warn!(%error, source = std::error::Error::source(error), "could not deliver the command");
    match error {
        commands::Error::Unknown { .. } => Refused::unknown(error.to_string()),
        commands::Error::Busy | commands::Error::Unreachable | commands::Error::StoreAway { .. } => {
            Refused::unavailable(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use contract::command::Operation;
    use contract::policy::Level;

    use super::*;
    use crate::http::params::Params;
    use crate::http::router;

    #[test]
    fn the_user_is_taken_from_the_header_when_it_is_printable() {
        let parse = |text: &str| {
            let value = HeaderValue::from_bytes(text.as_bytes()).expect("a header");
            user(&HeaderMap::from_iter([(axum::http::HeaderName::from_static(USER), value)]))
        };
        assert_eq!(user(&HeaderMap::new()).expect("no header"), None);
        assert_eq!(parse("alice@laptop").expect("a name"), Some("alice@laptop".to_owned()));
        for text in ["", "na\u{ef}ve", &"x".repeat(129)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_refusal_has_deployds_status_and_text() {
        let locked = Refusal::Locked { operation: Operation::Scheduling };
        for (refusal, status, text) in [
            (Refusal::GroupUnknown, 404, "PodGroup not existed"),
            (Refusal::GroupExists, 405, "PodGroup has already existed"),
            (Refusal::GroupRemoving, 500, "PodGroup is removing, need to wait for that"),
            (locked, 423, "Another operation \"Scheduling\" is progressing"),
            (Refusal::InstanceUnknown { instance: 3, instances: 2 }, 404, "instance 3 not existed, the PodGroup has 2"),
            (
                Refusal::ReleaseUnknown { release: Some(2), current: Some(3) },
                404,
                "revision 2 is not the current one; revision 3 is",
            ),
            (
                Refusal::RevisionUnknown { revision: Some(1), kept: vec![2, 3] },
                404,
                "revision 1 is not in the history; kept are: 2, 3",
            ),
            (Refusal::ReleaseOver { release: 3 }, 409, "the rollout to revision 3 has ended and cannot be changed"),
            (
                Refusal::NotWaiting { release: 3, group: 1 },
                409,
                "batch 1 of the rollout to revision 3 does not wait for confirmation; GET /api/rollouts shows what it waits for",
            ),
            (
                Refusal::OtherBatch { release: 3, asked: 1, current: 2 },
                409,
                "batch 1 is not the current batch of the rollout to revision 3; batch 2 is",
            ),
            (Refusal::Unfit { reason: "no such gate".to_owned() }, 400, "no such gate"),
            (Refusal::DependencyUnknown, 404, "DependencyPod not existed"),
            (Refusal::DependencyExists, 405, "DependencyPod has already existed"),
            (Refusal::CallbackUnknown, 404, "Notify uri not existed"),
            (
                Refusal::NodeUnknown { node: "n9".parse().unwrap() },
                404,
                "Node n9 not existed; `deployctl node list` shows those that do",
            ),
            (Refusal::NodeBusy { reason: "n1 is heard".to_owned() }, 409, "n1 is heard"),
            (Refusal::ConstraintUnknown, 404, "Constraint not existed"),
            (Refusal::ReadOnly, 403, "Do ReadOnly Permitted."),
            (Refusal::PolicyUnknown, 404, "the namespace has no policy of its own: that of * applies"),
            (
                Refusal::Forbidden { namespace: "shop".to_owned(), level: Level::Baseline, reason: "x".to_owned() },
                403,
                "the policy of namespace \"shop\" (baseline) does not allow it: x",
            ),
            (Refusal::Limit { what: "instances".to_owned(), limit: 9 }, 400, "instances would pass the limit of 9"),
            (
                Refusal::StoreFull { used: 3 << 30, quota: 4 << 30 },
                507,
                "etcd holds 3072 MiB of its quota of 4096 MiB, so creates, larger specs and scale-out are refused; delete what \
                 is not needed, or raise etcd's --quota-backend-bytes and the schedulers' --etcd-quota-bytes",
            ),
            (Refusal::Malformed { reason: "x".to_owned() }, 400, "the command could not be read: x"),
            (Refusal::Unauthenticated { reason: "the token has expired".to_owned() }, 401, "the token has expired"),
            (
                Refusal::Denied { principal: "bob".to_owned(), right: "deploy".to_owned(), object: "web".to_owned() },
                403,
                "bob may not deploy web; ask an admin for a binding that allows it (deployctl auth matrix shows the roles)",
            ),
            (
                Refusal::TokenUnknown { id: "0a".to_owned() },
                404,
                "there is no token \"0a\"; `deployctl token list` shows those that exist",
            ),
            (
                Refusal::JoinTokenUnknown { id: "0a".to_owned() },
                404,
                "there is no join token \"0a\", or it was revoked or has expired; `deployctl node token list` shows those that exist",
            ),
        ] {
            assert_eq!((status_of(&refusal).as_u16(), refusal.to_string().as_str()), (status, text));
        }
    }

    #[test]
    fn a_command_too_large_for_the_bus_is_refused() {
        assert!(check_size(&"x".repeat(LARGEST_COMMAND - 2)).is_ok());
        assert!(check_size(&"x".repeat(LARGEST_COMMAND)).is_err());
    }

    fn request(method: router::HttpMethod, query: &str, form: Option<(&str, &str)>, body: &'static str) -> Call {
        let form = form.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Call {
            method,
            resource: router::Resource::PodGroups,
            consumed: form.is_some(),
            params: Params::new(Some(query), form.into_iter().collect()),
            peer: crate::listen::Peer::of_user(None),
            client: crate::access::Client::open(
                Vec::new(),
                contract::access::binding::Peer { address: None, uid: None },
            ),
            headers: HeaderMap::new(),
            body: bytes::Bytes::from_static(body.as_bytes()),
            rest: String::new(),
        }
    }

    #[test]
    fn a_request_has_the_digest_that_other_versions_compute() {
        use router::HttpMethod::{Patch, Post, Put};
        let digest = |call: Call| digest(&call).to_string();
        let first = digest(request(Post, "strict=true", None, r#"{"Name": "web", "NumInstances": 2}"#));
        // A change of this value causes false conflicts for clients that retry during an upgrade.
        assert_eq!(first, "6fb9da645232300b");
        assert_eq!(first, digest(request(Post, "strict=true", None, r#"{"NumInstances":2,"Name":"web"}"#)));
        for other in [
            request(Put, "strict=true", None, r#"{"Name":"web","NumInstances":2}"#),
            request(Post, "", None, r#"{"Name":"web","NumInstances":2}"#),
            request(Post, "strict=true", None, r#"{"Name":"web","NumInstances":3}"#),
            request(Post, "strict=true", None, "not JSON"),
            Call { rest: "n1".to_owned(), ..request(Post, "strict=true", None, r#"{"Name":"web","NumInstances":2}"#) },
        ] {
            assert_ne!(first, digest(other));
        }
        let form = |number, body| digest(request(Patch, "name=web", Some(("num_instances", number)), body));
        assert_eq!(form("4", "--boundary-1"), form("4", "--boundary-2"));
        assert_ne!(form("4", "--boundary-1"), form("5", "--boundary-1"));
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

    #[test]
    fn a_refusal_by_policy_keeps_its_reason_and_is_not_mistaken_for_read_only() {
        let reason = "SystemVolumes[0]: host paths need the level trusted";
        let refusal =
            Refusal::Forbidden { namespace: "shop".to_owned(), level: Level::Baseline, reason: reason.to_owned() };
        let text = format!("{:?}", refused(&refusal));
        assert!(text.contains(reason), "{text}");
        assert_ne!(text, format!("{:?}", refused(&Refusal::ReadOnly)));
    }
}
