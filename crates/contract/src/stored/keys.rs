//! Every etcd key of deployd. No other file contains a key literal (`sim/tests/house.rs` checks it).
//!
//! The scheduler is the only writer. Keys under [`STATE`] are what a new leader loads.

use crate::name::{CommandId, GroupName, NodeName};
use crate::policy::check_namespace;

/// Prefix of all keys.
pub const ROOT: &str = "/deployd/";
/// Prefix of everything a leader loads: intents, plans, nodes, cursor. Outcomes and the election are outside of it.
pub const STATE: &str = "/deployd/state/";
/// Prefix of the election: one key per candidate; the candidate with the oldest key leads.
pub const LEADER: &str = "/deployd/leader/";
/// Prefix of the outcomes of commands. An etcd lease deletes them after a while.
pub const OUTCOMES: &str = "/deployd/outcome/";
/// Position in the command stream: [`crate::record::Cursor`].
pub const CURSOR: &str = "/deployd/state/cursor";
/// Schema version: [`crate::record::SchemaRecord`].
pub const SCHEMA: &str = "/deployd/schema";
/// Callback URLs: [`crate::record::CallbacksRecord`].
pub const CALLBACKS: &str = "/deployd/state/intent/callbacks";
/// Read-only, maintenance, guard and scheduling: [`crate::switches::EngineRecord`].
pub const ENGINE: &str = "/deployd/state/intent/engine";
/// Placement constraints that apply to every group.
pub const CONSTRAINTS: &str = "/deployd/state/intent/constraints";

/// Number of commits this store has seen: [`crate::progress::Progress`]. Detects an etcd that was reset to an older
/// copy.
pub const PROGRESS: &str = "/deployd/state/progress";
/// Identity of this store: [`crate::store::StoreRecord`]. Detects an etcd that was wiped.
pub const STORE: &str = "/deployd/state/store";
/// The restore that the leader is applying: [`crate::backup::RestoreRecord`].
pub const RESTORE: &str = "/deployd/state/restore/record";

const RESTORES: &str = "/deployd/state/restore/";
/// Prefix of the parts of a backup that is being restored.
pub const RESTORE_PARTS: &str = "/deployd/state/restore/part/";
const GROUPS: &str = "/deployd/state/intent/group/";
const PLACEMENTS: &str = "/deployd/state/plan/group/";
const DEPENDENCIES: &str = "/deployd/state/intent/dependency/";
const PAIRS: &str = "/deployd/state/plan/dependency/";
const RELEASES: &str = "/deployd/state/plan/release/";
const REVISIONS: &str = "/deployd/state/revisions/";
/// Specs sort before the records that refer to them, because a standby reads the keys of a transaction in key order.
const GROUP_SPECS: &str = "/deployd/state/content/group/";
const DEPENDENCY_SPECS: &str = "/deployd/state/content/dependency/";
/// Prefix of the parts of a transaction that is too large for etcd; see `staging` in the scheduler.
pub const STAGED: &str = "/deployd/state/staged/part/";
/// Present when all parts of that transaction are stored.
pub const STAGED_READY: &str = "/deployd/state/staged/ready";
const NODE_INTENTS: &str = "/deployd/state/intent/node/";
/// Prefix of the workload policies, one per namespace; `*` is the default of the cluster.
const POLICIES: &str = "/deployd/state/policy/";
/// Prefix of everything about access. Backups leave it out: a restore must not bring revoked tokens back.
const ACCESS: &str = "/deployd/state/access/";
/// Whether clients must prove who they are: [`crate::access::table::AccessRecord`].
pub const ACCESS_MODE: &str = "/deployd/state/access/mode";
/// Beginning and end of the audit log: [`crate::access::audit::AuditHead`].
pub const AUDIT_HEAD: &str = "/deployd/state/access/audit";
/// The same of the log of requests that apiservers refused.
pub const REFUSED_HEAD: &str = "/deployd/state/access/refused";
const TOKENS: &str = "/deployd/state/access/token/";
const JOIN_TOKENS: &str = "/deployd/state/access/join/";
/// Prefix of the keys of nodes that joined with a token. Backups contain them: without them no node could connect after a
/// restore.
pub const NODE_KEYS: &str = "/deployd/state/key/node/";
/// Prefix of the records of the audit log. A leader does not load them.
pub const AUDIT: &str = "/deployd/audit/";
/// Prefix of the records of the log of refused requests.
pub const REFUSED: &str = "/deployd/refused/";
const HISTORIES: &str = "/deployd/state/history/";
const NODES: &str = "/deployd/state/node/";

/// Desired state of a group: [`crate::record::GroupRecord`].
pub fn group(name: &GroupName) -> String {
    format!("{GROUPS}{name}")
}
/// Prefix of all pages of a group's instances.
pub fn placements(name: &GroupName) -> String {
    format!("{PLACEMENTS}{name}/")
}
/// One page of a group's instances. Zero-padded, so that key order is page order.
pub fn placement(name: &GroupName, page: usize) -> String {
    format!("{PLACEMENTS}{name}/{page:04}")
}
/// Rollout state of a group.
pub fn release(name: &GroupName) -> String {
    format!("{RELEASES}{name}")
}
/// Prefix of all revisions of a group.
pub fn revisions(name: &GroupName) -> String {
    format!("{REVISIONS}{name}/")
}
/// One revision of a group: [`crate::record::RevisionRecord`]. Zero-padded, so that key order is revision order.
pub fn revision(name: &GroupName, number: u32) -> String {
    format!("{REVISIONS}{name}/{number:010}")
}
/// Prefix of all pod specs of a group.
pub fn group_specs(name: &GroupName) -> String {
    format!("{GROUP_SPECS}{name}/")
}
/// One pod spec of a group, by the digest of its content.
pub fn group_spec(name: &GroupName, digest: &str) -> String {
    format!("{GROUP_SPECS}{name}/{digest}")
}
/// One pod spec of a dependency pod, by the digest of its content.
pub fn dependency_spec(name: &GroupName, digest: &str) -> String {
    format!("{DEPENDENCY_SPECS}{name}/{digest}")
}
/// One part of a transaction that is too large for etcd.
pub fn staged(part: usize) -> String {
    format!("{STAGED}{part:04}")
}
/// Desired state of a dependency pod: [`crate::record::DependencyRecord`].
pub fn dependency(name: &GroupName) -> String {
    format!("{DEPENDENCIES}{name}")
}
/// Prefix of all pages of a dependency pod's places.
pub fn all_pairs(name: &GroupName) -> String {
    format!("{PAIRS}{name}/")
}
/// One page of the places of a dependency pod: [`crate::record::PairsRecord`].
pub fn pairs(name: &GroupName, page: usize) -> String {
    format!("{PAIRS}{name}/{page:04}")
}
/// One page of the exit histories of a group's instances.
pub fn history(name: &GroupName, page: u32) -> String {
    format!("{HISTORIES}{name}/{page}")
}
/// Last known state of a node: [`crate::record::NodeRecord`].
pub fn node(name: &NodeName) -> String {
    format!("{NODES}{name}")
}
/// Cordon, drain and labels that operators set on a node: [`crate::node::NodeIntent`].
pub fn node_intent(name: &NodeName) -> String {
    format!("{NODE_INTENTS}{name}")
}
/// Workload policy of a namespace, or of `*`: [`crate::policy::Policy`].
pub fn policy(namespace: &str) -> String {
    format!("{POLICIES}{namespace}")
}
/// A token: [`crate::access::token::TokenRecord`].
pub fn token(id: &str) -> String {
    format!("{TOKENS}{id}")
}
/// A join token: [`crate::access::join::JoinTokenRecord`].
pub fn join_token(id: &str) -> String {
    format!("{JOIN_TOKENS}{id}")
}
/// The key of a node that joined: [`crate::access::join::NodeKeyRecord`].
pub fn node_key(name: &NodeName) -> String {
    format!("{NODE_KEYS}{name}")
}
/// One record of the audit log: [`crate::access::audit::AuditRecord`]. Zero-padded, so that key order is their order.
pub fn audit(number: u64) -> String {
    format!("{AUDIT}{number:020}")
}
/// One record of the log of refused requests.
pub fn refused(number: u64) -> String {
    format!("{REFUSED}{number:020}")
}
/// Whether the key is a record of one of the two audit logs.
pub fn is_audit_record(key: &str) -> bool {
    key.starts_with(AUDIT) || key.starts_with(REFUSED)
}
/// One part of a backup that is being restored.
pub fn restore_part(restore: &CommandId, part: u32) -> String {
    format!("{RESTORE_PARTS}{restore}/{part}")
}
/// Whether a leader and its standbys load this key.
pub fn is_loaded(key: &str) -> bool {
    key.starts_with(STATE) || key.starts_with(OUTCOMES)
}
/// Whether a backup contains this key. It contains all state except the cursor (it belongs to the stream), the commit
/// count (it belongs to the store) and the parts of a restore.
pub fn is_backed_up(key: &str) -> bool {
    key.starts_with(STATE) && key != CURSOR && key != PROGRESS && !key.starts_with(RESTORES) && !key.starts_with(ACCESS)
}
/// Schema 1: all instances of a group in one value.
pub fn former_placement(name: &GroupName) -> String {
    format!("{PLACEMENTS}{name}")
}
/// Schema 1: all revisions of a group in one value.
pub fn former_revisions(name: &GroupName) -> String {
    format!("{REVISIONS}{name}")
}
/// Schema 1: all places of a dependency pod in one value.
pub fn former_pairs(name: &GroupName) -> String {
    format!("{PAIRS}{name}")
}
/// Whether the key holds a part of a transaction that is too large for etcd.
pub fn is_staged(key: &str) -> bool {
    key == STAGED_READY || key.starts_with(STAGED)
}
/// Outcome of a command: [`crate::command::Outcome`].
pub fn outcome(id: &CommandId) -> String {
    format!("{OUTCOMES}{id}")
}

/// A parsed key. Each variant names the function or constant that produces its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// [`group`].
    Group(GroupName),
    /// [`placement`]: group and page.
    Placement(GroupName, usize),
    /// [`release`].
    Release(GroupName),
    /// [`revision`]: group and revision.
    Revision(GroupName, u32),
    /// [`group_spec`]: group and digest.
    GroupSpec(GroupName, String),
    /// [`dependency`].
    Dependency(GroupName),
    /// [`pairs`]: dependency pod and page.
    Pairs(GroupName, usize),
    /// [`dependency_spec`]: dependency pod and digest.
    DependencySpec(GroupName, String),
    /// [`staged`]: index of the part.
    Staged(usize),
    /// [`STAGED_READY`].
    StagedReady,
    /// [`former_placement`].
    FormerPlacement(GroupName),
    /// [`former_revisions`].
    FormerRevisions(GroupName),
    /// [`former_pairs`].
    FormerPairs(GroupName),
    /// [`history`]: group and page.
    History(GroupName, u32),
    /// [`node`].
    Node(NodeName),
    /// [`node_intent`].
    NodeIntent(NodeName),
    /// [`policy`]: namespace, or `*`.
    Policy(String),
    /// [`outcome`].
    Outcome(CommandId),
    /// [`CURSOR`].
    Cursor,
    /// [`CALLBACKS`].
    Callbacks,
    /// [`ENGINE`].
    Engine,
    /// [`CONSTRAINTS`].
    Constraints,
    /// [`STORE`].
    Store,
    /// [`PROGRESS`].
    Progress,
    /// [`ACCESS_MODE`].
    AccessMode,
    /// [`token`]: id.
    Token(String),
    /// [`join_token`]: id.
    JoinToken(String),
    /// [`node_key`].
    NodeKey(NodeName),
    /// [`AUDIT_HEAD`] or [`REFUSED_HEAD`].
    AuditHead,
    /// [`RESTORE`].
    Restore,
    /// [`restore_part`]: restore and index of the part.
    RestorePart(CommandId, u32),
    /// Not a key of deployd, or one of a newer version.
    Unknown,
}

/// Parses a key.
pub fn parse(key: &str) -> Key {
    let known = match key {
        CURSOR => return Key::Cursor,
        CALLBACKS => return Key::Callbacks,
        ENGINE => return Key::Engine,
        CONSTRAINTS => return Key::Constraints,
        STORE => return Key::Store,
        PROGRESS => return Key::Progress,
        RESTORE => return Key::Restore,
        STAGED_READY => return Key::StagedReady,
        ACCESS_MODE => return Key::AccessMode,
        AUDIT_HEAD | REFUSED_HEAD => return Key::AuditHead,
        _ => None
            .or_else(|| key.strip_prefix(GROUPS).and_then(|n| n.parse().ok()).map(Key::Group))
            .or_else(|| key.strip_prefix(PLACEMENTS).and_then(|rest| numbered(rest, Key::Placement)))
            .or_else(|| key.strip_prefix(PLACEMENTS).and_then(|n| n.parse().ok()).map(Key::FormerPlacement))
            .or_else(|| key.strip_prefix(RELEASES).and_then(|n| n.parse().ok()).map(Key::Release))
            .or_else(|| key.strip_prefix(REVISIONS).and_then(|rest| numbered(rest, Key::Revision)))
            .or_else(|| key.strip_prefix(REVISIONS).and_then(|n| n.parse().ok()).map(Key::FormerRevisions))
            .or_else(|| key.strip_prefix(GROUP_SPECS).and_then(|rest| numbered(rest, Key::GroupSpec)))
            .or_else(|| key.strip_prefix(DEPENDENCY_SPECS).and_then(|rest| numbered(rest, Key::DependencySpec)))
            .or_else(|| key.strip_prefix(STAGED).and_then(|n| n.parse().ok()).map(Key::Staged))
            .or_else(|| key.strip_prefix(DEPENDENCIES).and_then(|n| n.parse().ok()).map(Key::Dependency))
            .or_else(|| key.strip_prefix(PAIRS).and_then(|rest| numbered(rest, Key::Pairs)))
            .or_else(|| key.strip_prefix(PAIRS).and_then(|n| n.parse().ok()).map(Key::FormerPairs))
            .or_else(|| key.strip_prefix(HISTORIES).and_then(|rest| numbered(rest, Key::History)))
            .or_else(|| key.strip_prefix(RESTORE_PARTS).and_then(parse_part))
            .or_else(|| key.strip_prefix(NODES).and_then(|n| n.parse().ok()).map(Key::Node))
            .or_else(|| key.strip_prefix(NODE_INTENTS).and_then(|n| n.parse().ok()).map(Key::NodeIntent))
            .or_else(|| key.strip_prefix(POLICIES).and_then(parse_policy))
            .or_else(|| key.strip_prefix(JOIN_TOKENS).map(|id| Key::JoinToken(id.to_owned())))
            .or_else(|| key.strip_prefix(NODE_KEYS).and_then(|n| n.parse().ok()).map(Key::NodeKey))
            .or_else(|| key.strip_prefix(TOKENS).map(|id| Key::Token(id.to_owned())))
            .or_else(|| key.strip_prefix(OUTCOMES).and_then(|n| n.parse().ok()).map(Key::Outcome)),
    };
    known.unwrap_or(Key::Unknown)
}

/// Parses `<name>/<rest>`.
fn numbered<T: std::str::FromStr>(rest: &str, key: impl Fn(GroupName, T) -> Key) -> Option<Key> {
    let (name, rest) = rest.split_once('/')?;
    Some(key(name.parse().ok()?, rest.parse().ok()?))
}

fn parse_policy(namespace: &str) -> Option<Key> {
    check_namespace(namespace).ok().map(|()| Key::Policy(namespace.to_owned()))
}

fn parse_part(rest: &str) -> Option<Key> {
    let (restore, part) = rest.split_once('/')?;
    Some(Key::RestorePart(restore.parse().ok()?, part.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_round_trips() {
        let group_name: GroupName = "hello.web.web".parse().expect("a name");
        let node_name: NodeName = "n.1".parse().expect("a name");
        let id: CommandId = "01ABC".parse().expect("an id");
        assert_eq!(parse(&group(&group_name)), Key::Group(group_name.clone()));
        assert_eq!(parse(&dependency(&group_name)), Key::Dependency(group_name.clone()));
        assert_eq!(parse(&release(&group_name)), Key::Release(group_name.clone()));
        assert_eq!(parse(&revision(&group_name, 7)), Key::Revision(group_name.clone(), 7));
        assert_eq!(parse(&pairs(&group_name, 12)), Key::Pairs(group_name.clone(), 12));
        assert_eq!(parse(&group_spec(&group_name, "0f")), Key::GroupSpec(group_name.clone(), "0f".to_owned()));
        assert_eq!(
            parse(&dependency_spec(&group_name, "0f")),
            Key::DependencySpec(group_name.clone(), "0f".to_owned())
        );
        assert_eq!((parse(&staged(3)), parse(STAGED_READY)), (Key::Staged(3), Key::StagedReady));
        for (former, key) in [
            ("/deployd/state/plan/group/hello.web.web", Key::FormerPlacement(group_name.clone())),
            ("/deployd/state/revisions/hello.web.web", Key::FormerRevisions(group_name.clone())),
            ("/deployd/state/plan/dependency/hello.web.web", Key::FormerPairs(group_name.clone())),
        ] {
            assert_eq!(parse(former), key);
        }
        assert_eq!(parse(&history(&group_name, 3)), Key::History(group_name.clone(), 3));
        assert_eq!(parse(&placement(&group_name, 99)), Key::Placement(group_name, 99));
        assert_eq!(parse(&node(&node_name)), Key::Node(node_name.clone()));
        assert_eq!(parse(&node_intent(&node_name)), Key::NodeIntent(node_name.clone()));
        assert_eq!(parse(&node_key(&node_name)), Key::NodeKey(node_name));
        for namespace in ["shop", "*"] {
            assert_eq!(parse(&policy(namespace)), Key::Policy(namespace.to_owned()));
        }
        assert_eq!(parse(&policy("a/b")), Key::Unknown);
        assert_eq!(parse(&outcome(&id)), Key::Outcome(id));
        assert_eq!(parse(CURSOR), Key::Cursor);
        assert_eq!(parse(CALLBACKS), Key::Callbacks);
        assert_eq!((parse(ENGINE), parse(CONSTRAINTS)), (Key::Engine, Key::Constraints));
        assert_eq!((parse(STORE), parse(RESTORE)), (Key::Store, Key::Restore));
        assert_eq!(parse(PROGRESS), Key::Progress);
        assert_eq!(
            parse(&restore_part(&"r-1".parse().expect("an id"), 7)),
            Key::RestorePart("r-1".parse().expect("an id"), 7)
        );
        assert_eq!((parse(ACCESS_MODE), parse(AUDIT_HEAD)), (Key::AccessMode, Key::AuditHead));
        assert_eq!(parse(REFUSED_HEAD), Key::AuditHead);
        assert_eq!(parse(&token("0a")), Key::Token("0a".to_owned()));
        assert_eq!(parse(&join_token("0a")), Key::JoinToken("0a".to_owned()));
        assert_eq!(parse("/deployd/state/intent/group/a/b"), Key::Unknown);
    }

    #[test]
    fn a_backup_contains_the_keys_of_nodes_and_no_tokens() {
        for key in [ACCESS_MODE, AUDIT_HEAD, REFUSED_HEAD, &token("0a"), &join_token("0a"), &audit(1), &refused(1)] {
            assert!(!is_backed_up(key), "{key}");
        }
        assert!(is_backed_up(&node_key(&"n1".parse().expect("a name"))));
    }
}
