//! Who may do what: checks each command, manages tokens, and writes the records of the audit log.
//!
//! The apiserver has checked the request already. The leader checks it again with the proof in the command, because an apiserver may
//! be out of date or not ours, and because only the leader knows the namespace of a group at this moment.
//!
//! Example: alice has `deployer@shop`. Her `PatchSpec` of a group in `shop` is applied; of a group in `bank` it is refused with
//! `PodGroup not existed`, as for a name that does not exist.

use std::collections::{BTreeMap, BTreeSet};

use contract::access::audit::{AuditRecord, MOST_REFUSED, RefusedRequests};
use contract::access::table::AccessRecord;
use contract::access::token::{Credentials, MOST_TOKENS, Proof, TokenRecord};
use contract::access::{Binding, CommandTarget, Namespaces, Principal, Right, Role};
use contract::backup::Step;
use contract::callback_url;
use contract::command::{Command, Refusal, RolloutAction, Verb};
use contract::keys;
use contract::name::{CommandId, GroupName};
use contract::notice::DeadLetter;
use contract::spec::Dependency;
use contract::time::Timestamp;

use crate::core::commit::{self, Bundle};
use crate::core::events;
use crate::core::io::Write;
use crate::core::leader::Leading;
use crate::core::state::State;

/// Limit of bytes of a refusal in the audit log.
const LONGEST_REASON: usize = 200;
/// Principal of clients of an open cluster.
const OPEN: &str = "open";

/// The client of a command: who it is, and its token if it has one.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) principal: Principal,
    token: Option<String>,
}

impl Client {
    /// The name that the client proved; none when it has no token.
    pub(super) fn proven_name(&self) -> Option<&str> {
        self.token.as_ref().map(|_| self.principal.name.as_str())
    }
}

/// The owner of the token of a command; only this client gets its outcome again. A join token has no owner.
pub(super) fn owner(command: &Command, client: &Client) -> Option<String> {
    let is_join = matches!(command.verb, Verb::Join { .. });
    client.proven_name().filter(|_| !is_join).map(str::to_owned)
}

/// Who sent a command; an error when the cluster wants to know and the client did not prove it.
pub(super) fn identify(leading: &Leading<'_>, command: &Command) -> Result<Client, Refusal> {
    let unproven = |reason: &str| Refusal::Unauthenticated { reason: reason.to_owned() };
    let for_itself = |name: String, token: Option<String>| {
        let bindings = vec![Binding { role: Role::Monitor, namespaces: Namespaces::All }];
        Client { principal: Principal { name, bindings }, token }
    };
    match &command.verb {
        // The apiserver speaks for itself, and changes nothing but the audit log.
        Verb::ReportRefused { .. } => return Ok(for_itself(String::new(), None)),
        Verb::Join { join } => {
            let token = leading.state.joins.token(&join.proof, leading.now);
            let token = token.ok_or_else(|| unproven("the join token is unknown, revoked or expired"))?;
            return Ok(for_itself(format!("join:{}", token.id), Some(token.id.clone())));
        }
        _ => {}
    }
    match command.credentials.as_deref().and_then(|credentials| credentials.proof.as_ref()) {
        Some(Proof::Token(proof)) => {
            let principal = leading.state.access.principal(proof, leading.now).ok_or_else(|| {
                unproven("the token is unknown, revoked or expired; log in again with `deployctl login`")
            })?;
            Ok(Client { principal, token: Some(proof.id.clone()) })
        }
        Some(Proof::Anonymous(_)) | None if !leading.state.access.is_enforced() => {
            let bindings = vec![Binding { role: Role::Admin, namespaces: Namespaces::All }];
            Ok(Client { principal: Principal { name: OPEN.to_owned(), bindings }, token: None })
        }
        Some(Proof::Anonymous(binding)) if leading.settings.anonymous.contains(binding) => {
            let bindings = vec![binding.binding.clone()];
            Ok(Client { principal: Principal { name: binding.to_string(), bindings }, token: None })
        }
        Some(Proof::Anonymous(binding)) => Err(unproven(&format!(
            "the apiserver has the binding '{binding}' and the scheduler does not; start both with the same --anonymous"
        ))),
        None => Err(unproven(
            "the command does not say who sent it; log in with `deployctl login`, or upgrade the apiserver if it is older than the \
             schedulers",
        )),
    }
}

/// Refuses a command that the roles of its client do not allow.
pub(super) fn authorize(leading: &Leading<'_>, verb: &Verb, principal: &Principal) -> Result<(), Refusal> {
    authorize_target(leading.state, verb, principal)?;
    authorize_dependencies(leading, verb, principal)
}

fn authorize_target(state: &State, verb: &Verb, principal: &Principal) -> Result<(), Refusal> {
    let right = verb.right();
    let denied =
        |object: String| Refusal::Denied { principal: principal.name.clone(), right: right.word().to_owned(), object };
    let judged = |namespace: Option<&str>, object: &str, unknown: Refusal| match namespace {
        // A right in all namespaces extends to objects that cannot be read, whose namespace is not known.
        _ if principal.may(right, namespace) => Ok(()),
        Some(namespace) if principal.may(Right::Read, Some(namespace)) => Err(denied(object.to_owned())),
        // An object of another namespace looks like one that does not exist, to every command.
        Some(_) | None if principal.may_somewhere(right) => Err(unknown),
        Some(_) | None => Err(denied(object.to_owned())),
    };
    match verb.target() {
        CommandTarget::New(namespace) if principal.may(right, Some(namespace)) => Ok(()),
        CommandTarget::New(namespace) => Err(denied(format!("in the namespace {namespace:?}"))),
        CommandTarget::Cluster if principal.may(right, None) => Ok(()),
        CommandTarget::Cluster => Err(denied("the cluster".to_owned())),
        CommandTarget::Group(name) => {
            let group = state.groups.get(name);
            let namespace = group.map(|group| group.record.spec.namespace.as_str());
            judged(namespace, name.as_str(), Refusal::GroupUnknown)
        }
        CommandTarget::Dependency(name) => judged(dependency_namespace(state, name), name, Refusal::DependencyUnknown),
    }
}

/// Refuses a command that makes a group need another dependency pod of a namespace that the client may not read: the leader would
/// start it with the environment of that namespace on a network of the group. A pod that does not exist gets the same answer,
/// because it may be created later.
fn authorize_dependencies(leading: &Leading<'_>, verb: &Verb, principal: &Principal) -> Result<(), Refusal> {
    if principal.may(Right::Read, None) {
        return Ok(());
    }
    let Some((name, wanted)) = needed_dependencies(leading, verb) else { return Ok(()) };
    let group = name.parse().ok().and_then(|name: GroupName| leading.state.groups.get(&name));
    let reads = |namespace: &str| principal.may(Right::Read, Some(namespace));
    let group = group.filter(|group| !group.is_removing() && reads(&group.record.spec.namespace));
    let present = group.map(|group| &group.record.spec.pod.dependencies);
    let is_new =
        |dependency: &&Dependency| present.into_iter().flatten().all(|present| present.pod_name != dependency.pod_name);
    let is_hidden =
        |dependency: &&Dependency| !dependency_namespace(leading.state, &dependency.pod_name).is_some_and(reads);
    match wanted.iter().filter(is_new).find(is_hidden) {
        Some(hidden) => Err(Refusal::Denied {
            principal: principal.name.clone(),
            right: Right::Read.word().to_owned(),
            object: format!("the DependencyPod {}, or there is none", shortened(hidden.pod_name.clone())),
        }),
        None => Ok(()),
    }
}

/// The group of a command that gives it a pod spec, and the dependency pods in that spec.
fn needed_dependencies<'a>(leading: &'a Leading<'_>, verb: &'a Verb) -> Option<(&'a str, &'a [Dependency])> {
    match verb {
        Verb::CreateGroup { spec } => Some((&spec.name, &spec.pod.dependencies)),
        Verb::PatchSpec { name, pod, .. } => Some((name.as_str(), &pod.dependencies)),
        Verb::Rollout { name, action: RolloutAction::Undo { revision, .. }, .. } => {
            // An undo that is not possible is refused when it is applied.
            let number = leading.admission().rollback_target(name, *revision).ok()?.number;
            let mut known = leading.state.groups.get(name)?.past.revisions.iter();
            let pod = &known.find(|known| known.number == number)?.pod;
            Some((name.as_str(), &pod.dependencies))
        }
        _ => None,
    }
}

fn dependency_namespace<'a>(state: &'a State, name: &str) -> Option<&'a str> {
    let name: GroupName = name.parse().ok()?;
    Some(state.dependencies.get(&name)?.record.spec.namespace.as_str())
}

/// The record of a command, which the outbox numbers; none for the parts of a restore, of which there are thousands.
pub(super) fn audited(leading: &Leading<'_>, command: &Command, client: Option<&Client>) -> Option<AuditRecord> {
    if matches!(command.verb, Verb::Restore { step: Step::Stage { .. } }) {
        return None;
    }
    let credentials = command.credentials.as_deref();
    // An apiserver that was taken over invents all of them, and each becomes a record.
    let text = |get: fn(&Credentials) -> &String| shortened(credentials.map(get).cloned().unwrap_or_default());
    let (object, namespace) = object(leading.state, &command.verb);
    let proven = credentials.and_then(|credentials| match &credentials.proof {
        Some(Proof::Token(proof)) => Some(shortened(proof.id.clone())),
        Some(Proof::Anonymous(_)) | None => None,
    });
    Some(AuditRecord {
        number: 0,
        at: leading.now,
        principal: client.map(|client| shortened(client.principal.name.clone())).unwrap_or_default(),
        token: client.and_then(|client| client.token.clone()).or(proven),
        said_by: shortened(command.by.clone()),
        peer: text(|credentials| &credentials.peer),
        apiserver: text(|credentials| &credentials.apiserver),
        verb: command.verb.name().to_owned(),
        object: shortened(object),
        namespace: shortened(namespace),
        refused: None,
        requests: refused_requests(&command.verb),
        command: command.id.clone(),
        details: shortened(command.verb.details()),
        later: BTreeMap::new(),
        hash: String::new(),
    })
}

/// The record of a message that is no command of this version. What it says of its sender cannot be read either.
pub(super) fn unreadable(command: CommandId, letter: &DeadLetter, at: Timestamp) -> Box<AuditRecord> {
    let refusal = Refusal::Malformed { reason: letter.reason.clone() };
    Box::new(AuditRecord {
        number: 0,
        at,
        principal: String::new(),
        token: None,
        said_by: String::new(),
        peer: String::new(),
        apiserver: String::new(),
        verb: "Unreadable".to_owned(),
        object: String::new(),
        namespace: String::new(),
        refused: Some(shortened(refusal.to_string())),
        requests: Vec::new(),
        command,
        details: String::new(),
        later: BTreeMap::new(),
        hash: String::new(),
    })
}

fn refused_requests(verb: &Verb) -> Vec<RefusedRequests> {
    let Verb::ReportRefused { requests } = verb else { return Vec::new() };
    let short = |row: &RefusedRequests| RefusedRequests {
        peer: shortened(row.peer.clone()),
        principal: shortened(row.principal.clone()),
        route: shortened(row.route.clone()),
        ..row.clone()
    };
    requests.iter().take(MOST_REFUSED).map(short).collect()
}

/// The object of a command and its namespace, as far as it has them.
fn object(state: &State, verb: &Verb) -> (String, String) {
    let namespace_of =
        |name: &GroupName| state.groups.get(name).map(|group| group.record.spec.namespace.clone()).unwrap_or_default();
    match verb {
        Verb::CreateGroup { spec } => (spec.name.clone(), spec.namespace.clone()),
        Verb::CreateDependency { pod } | Verb::UpdateDependency { pod } => (pod.name.clone(), pod.namespace.clone()),
        Verb::Evacuate { node } | Verb::Node { node, .. } => (node.to_string(), String::new()),
        Verb::Drift { drift, group: None } => (drift.from.to_string(), String::new()),
        Verb::SetPolicy { namespace, .. } | Verb::RemovePolicy { namespace } => (namespace.clone(), String::new()),
        Verb::CreateToken { token } => (token.id.clone(), String::new()),
        Verb::RevokeToken { id } | Verb::RevokeJoinToken { id } => (id.clone(), String::new()),
        Verb::CreateJoinToken { token } => (token.id.clone(), String::new()),
        Verb::Join { join } => (join.node.to_string(), String::new()),
        Verb::AddCallback { url } | Verb::RemoveCallback { url } => {
            (callback_url::shown(url).to_string(), String::new())
        }
        _ => match verb.target() {
            CommandTarget::Group(name) => (name.to_string(), namespace_of(name)),
            CommandTarget::Dependency(name) => {
                (name.to_owned(), dependency_namespace(state, name).unwrap_or_default().to_owned())
            }
            CommandTarget::New(_) | CommandTarget::Cluster => (String::new(), String::new()),
        },
    }
}

pub(super) fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_REASON));
    text
}

pub(super) fn create_token(leading: &mut Leading<'_>, token: TokenRecord, by: &str) -> Result<Bundle, Refusal> {
    let token = TokenRecord { by: by.to_owned(), created: leading.now, ..token };
    token.validate().map_err(|reason| Refusal::Malformed { reason })?;
    if token.expires <= leading.now {
        return Err(Refusal::Unfit { reason: "the token would have expired already".to_owned() });
    }
    let mut writes = drop_expired(leading);
    let access = &leading.state.access;
    if access.tokens().any(|other| other.id == token.id) {
        return Err(Refusal::Unfit { reason: format!("there is a token {:?} already; create another one", token.id) });
    }
    if access.tokens().count() >= MOST_TOKENS {
        return Err(Refusal::Limit { what: "tokens".to_owned(), limit: MOST_TOKENS as u64 });
    }
    writes.push(commit::put(keys::token(&token.id), &token));
    leading.state.access.put_token(token);
    Ok(Bundle { writes, ..Bundle::default() })
}

/// Forgets tokens that have expired, so that they do not count.
fn drop_expired(leading: &mut Leading<'_>) -> Vec<Write> {
    let now = leading.now;
    let expired = leading.state.access.tokens().filter(|token| token.expires <= now).map(|token| token.id.clone());
    // A transaction takes few writes; the rest goes with the next token.
    let expired: Vec<String> = expired.take(50).collect();
    for id in &expired {
        leading.state.access.remove_token(id);
    }
    expired.iter().map(|id| Write::Delete { key: keys::token(id) }).collect()
}

pub(super) fn revoke_token(leading: &mut Leading<'_>, id: &str) -> Result<Bundle, Refusal> {
    if !leading.state.access.remove_token(id) {
        return Err(Refusal::TokenUnknown { id: shortened(id.to_owned()) });
    }
    Ok(Bundle { writes: vec![Write::Delete { key: keys::token(id) }], ..Bundle::default() })
}

pub(super) fn enforce(leading: &mut Leading<'_>, enforced: bool) -> Result<Bundle, Refusal> {
    if enforced && !has_admin(leading) {
        let reason = "no token and no --anonymous binding of the schedulers has the role admin, so no client could manage \
                      the cluster; create one first: deployctl token create NAME --role admin";
        return Err(Refusal::Unfit { reason: reason.to_owned() });
    }
    // Enforced once, they are forgotten.
    let callbacks = if enforced { BTreeSet::new() } else { leading.state.access.former_callbacks() };
    Ok(set_mode(leading, enforced, callbacks))
}

fn has_admin(leading: &Leading<'_>) -> bool {
    let now = leading.now;
    let tokens = leading.state.access.tokens().filter(|token| token.expires > now).flat_map(|token| &token.bindings);
    let anonymous = leading.settings.anonymous.iter().map(|anonymous| &anonymous.binding);
    let bindings = tokens.chain(anonymous).cloned().collect();
    Principal { name: String::new(), bindings }.may(Right::Administer, None)
}

/// `callbacks` may have internal addresses while the API is open.
fn set_mode(leading: &mut Leading<'_>, enforced: bool, callbacks: BTreeSet<String>) -> Bundle {
    let mut message = match enforced {
        true => "clients of the API must prove who they are from now on",
        false => "the API is open: every client that reaches it may do everything; `deployctl auth enforce` ends that",
    }
    .to_owned();
    if !callbacks.is_empty() {
        let shown: Vec<String> = callbacks.iter().map(|url| callback_url::shown(url).to_string()).collect();
        message.push_str(&format!("; until then these callbacks may have internal addresses: {}", shown.join(", ")));
    }
    let mode = AccessRecord { enforced, since: leading.now, callbacks };
    leading.state.access.set_mode(mode.clone());
    let effects = vec![events::engine(message, leading.now)];
    Bundle { writes: vec![commit::put(keys::ACCESS_MODE.to_owned(), &mode)], effects, ..Bundle::default() }
}

/// Chooses for a store that says nothing: a new one enforces access control, one of an older version stays open until an
/// operator enforces it. Runs at the start of each leadership.
pub(in crate::core) fn choose_mode(leading: &mut Leading<'_>) {
    let is_set = leading.state.access.is_chosen() || !leading.settings.enforces_access;
    if is_set || leading.lead.leadership.is_store_behind() {
        return;
    }
    let state = &leading.state;
    // The first command moves the cursor, the first report makes a node known.
    let is_new =
        state.groups.is_empty() && state.nodes.records().next().is_none() && state.store.cursor().sequence == 0;
    let callbacks = if is_new { BTreeSet::new() } else { state.cluster.callbacks().clone() };
    let mut bundle = set_mode(leading, is_new, callbacks);
    if is_new {
        // Nothing changes for a new store, so there is nothing to explain.
        bundle.effects.clear();
    }
    leading.decide(bundle);
}
