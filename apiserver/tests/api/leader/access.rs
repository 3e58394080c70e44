//! Access of the fake leader: it checks commands by the same tables as the real one.

use std::collections::BTreeMap;

use contract::access::audit::{AuditHead, AuditPage, AuditRecord};
use contract::access::table::AccessTable;
use contract::access::token::{Proof, TokenRecord};
use contract::access::{CommandTarget, Principal, Right};
use contract::command::{Command, Refusal, Verb};
use contract::time::Timestamp;

use super::State;

/// What the fake leader answers; an open cluster unless a test says otherwise.
pub(super) struct Known(pub(super) AccessTable);

impl Default for Known {
    fn default() -> Self {
        Self(table(false, Vec::new()))
    }
}

pub(super) fn table(enforced: bool, tokens: Vec<TokenRecord>) -> AccessTable {
    AccessTable { version: "0".to_owned(), enforced, tokens, anonymous: Vec::new(), as_of: None }
}

/// The table, unless the apiserver has it.
pub(super) fn news(table: &AccessTable, known: Option<&str>) -> Option<Box<AccessTable>> {
    (known != Some(table.version.as_str())).then(|| Box::new(table.clone()))
}

pub(super) fn change(table: &mut AccessTable, verb: &Verb) -> Result<(), Refusal> {
    match verb {
        Verb::CreateToken { token } => table.tokens.push((**token).clone()),
        Verb::RevokeToken { id } if table.tokens.iter().any(|token| token.id == *id) => {
            table.tokens.retain(|token| token.id != *id);
        }
        Verb::RevokeToken { id } => return Err(Refusal::TokenUnknown { id: id.clone() }),
        Verb::EnforceAccess { enforced } => table.enforced = *enforced,
        other => panic!("does not concern access: {other:?}"),
    }
    table.version.push('+');
    Ok(())
}

/// Refuses what the client of the command may not do. Objects of other namespaces look like ones that do not exist.
pub(super) fn authorize(state: &State, command: &Command) -> Result<(), Refusal> {
    let (principal, right) = (identify(&state.access.0, command)?, command.verb.right());
    let denied = |object: &str| {
        let (principal, object) = (principal.name.clone(), object.to_owned());
        Refusal::Denied { principal, right: right.word().to_owned(), object }
    };
    let check = |namespace: Option<&str>, object: &str, unknown: Refusal| match namespace {
        Some(namespace) if principal.may(right, Some(namespace)) => Ok(()),
        Some(namespace) if !principal.may(Right::Read, Some(namespace)) => Err(unknown),
        Some(_) => Err(denied(object)),
        None if principal.may_somewhere(right) => Ok(()),
        None => Err(denied(object)),
    };
    match command.verb.target() {
        CommandTarget::New(namespace) if principal.may(right, Some(namespace)) => Ok(()),
        CommandTarget::New(namespace) => Err(denied(namespace)),
        CommandTarget::Cluster if principal.may(right, None) => Ok(()),
        CommandTarget::Cluster => Err(denied("the cluster")),
        CommandTarget::Group(name) => {
            let namespace = state.groups.get(name.as_str()).map(|group| group.namespace.as_str());
            check(namespace, name.as_str(), Refusal::GroupUnknown)
        }
        CommandTarget::Dependency(name) => {
            let namespace = state.dependencies.get(name).map(|pod| pod.namespace.as_str());
            check(namespace, name, Refusal::DependencyUnknown)
        }
    }
}

/// The owner of the token of a command.
pub(super) fn owner(table: &AccessTable, command: &Command) -> Option<String> {
    match command.credentials.as_ref()?.proof.as_ref()? {
        Proof::Token(proof) => table.verify(proof, command.at).map(|principal| principal.name),
        Proof::Anonymous(_) => None,
    }
}

fn identify(table: &AccessTable, command: &Command) -> Result<Principal, Refusal> {
    let unproven = || Refusal::Unauthenticated { reason: "the leader does not know the client".to_owned() };
    if matches!(command.verb, Verb::Join { .. }) {
        // Its own token is its proof.
        return Ok(Principal { name: "join".to_owned(), bindings: vec!["monitor".parse().expect("a binding")] });
    }
    match command.credentials.as_ref().and_then(|credentials| credentials.proof.as_ref()) {
        Some(Proof::Token(proof)) => table.verify(proof, command.at).ok_or_else(unproven),
        Some(Proof::Anonymous(anonymous)) if table.anonymous.contains(anonymous) || !table.enforced => {
            Ok(Principal { name: anonymous.to_string(), bindings: vec![anonymous.binding.clone()] })
        }
        None if !table.enforced => {
            Ok(Principal { name: "open".to_owned(), bindings: vec!["admin".parse().expect("a binding")] })
        }
        Some(Proof::Anonymous(_)) | None => Err(unproven()),
    }
}

/// A log of three records.
pub(super) fn audit(after: u64, limit: u32) -> AuditPage {
    let record = |number: u64, previous: &str| {
        let record = AuditRecord {
            number,
            at: Timestamp::from_millis(1_700_000_000_000),
            principal: "root".to_owned(),
            token: None,
            said_by: String::new(),
            peer: "127.0.0.1".to_owned(),
            apiserver: "api-1".to_owned(),
            verb: "RunEngine".to_owned(),
            object: String::new(),
            namespace: String::new(),
            refused: None,
            requests: Vec::new(),
            command: format!("c{number}").parse().unwrap(),
            details: String::new(),
            later: BTreeMap::new(),
            hash: String::new(),
        };
        AuditRecord { hash: record.hash_after(previous), ..record }
    };
    let mut all: Vec<AuditRecord> = Vec::new();
    for number in 1..=3 {
        let previous = all.last().map(|last| last.hash.clone()).unwrap_or_default();
        all.push(record(number, &previous));
    }
    let last = all.last().unwrap();
    let head = AuditHead { last: last.number, hash: last.hash.clone(), ..AuditHead::default() };
    let limit = usize::try_from(limit).unwrap();
    let mut records: Vec<AuditRecord> = all.into_iter().filter(|record| record.number > after).collect();
    let is_more = records.len() > limit;
    records.truncate(limit);
    let next = records.last().filter(|_| is_more).map(|record| record.number);
    AuditPage { head, records, next }
}
