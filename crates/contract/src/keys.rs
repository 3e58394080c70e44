//! Every etcd key. Nobody else writes one.

use crate::name::{CommandId, GroupName, NodeName};

/// Everything of ours.
pub const ROOT: &str = "/deployd/";
/// Everything a leader loads: intents, plans, nodes, cursor. Outcomes and the election live outside it.
pub const STATE: &str = "/deployd/state/";
/// The election: one key per candidate, the oldest leads.
pub const LEADER: &str = "/deployd/leader/";
/// Outcomes of commands; leased.
pub const OUTCOMES: &str = "/deployd/outcome/";
/// Cursor of the command stream.
pub const CURSOR: &str = "/deployd/state/cursor";
/// Schema version.
pub const SCHEMA: &str = "/deployd/schema";
/// Callback URLs.
pub const CALLBACKS: &str = "/deployd/state/intent/callbacks";
/// The engine's switches.
pub const ENGINE: &str = "/deployd/state/intent/engine";
/// Constraints of every placement.
pub const CONSTRAINTS: &str = "/deployd/state/intent/constraints";

/// How far this store has come.
pub const PROGRESS: &str = "/deployd/state/progress";
/// Which store this is.
pub const STORE: &str = "/deployd/state/store";
/// How far a restore is whose parts are all there.
pub const RESTORE: &str = "/deployd/state/restore/record";

const RESTORES: &str = "/deployd/state/restore/";
/// Parts of backups that are being restored.
pub const RESTORE_PARTS: &str = "/deployd/state/restore/part/";
const GROUPS: &str = "/deployd/state/intent/group/";
const PLACEMENTS: &str = "/deployd/state/plan/group/";
const DEPENDENCIES: &str = "/deployd/state/intent/dependency/";
const PAIRS: &str = "/deployd/state/plan/dependency/";
const RELEASES: &str = "/deployd/state/plan/release/";
const REVISIONS: &str = "/deployd/state/revisions/";
/// Specs sort before the records that refer to them: a standby reads the keys of a transaction in this order.
const GROUP_SPECS: &str = "/deployd/state/content/group/";
const DEPENDENCY_SPECS: &str = "/deployd/state/content/dependency/";
/// Parts of a transaction that is too large for etcd; see the scheduler's `staging`.
pub const STAGED: &str = "/deployd/state/staged/part/";
/// Says that all parts are stored.
pub const STAGED_READY: &str = "/deployd/state/staged/ready";
const NODE_INTENTS: &str = "/deployd/state/intent/node/";
const HISTORIES: &str = "/deployd/state/history/";
const NODES: &str = "/deployd/state/node/";

/// What is wanted of a group.
pub fn group(name: &GroupName) -> String {
    format!("{GROUPS}{name}")
}
/// What the pages of a group's instances begin with.
pub fn placements(name: &GroupName) -> String {
    format!("{PLACEMENTS}{name}/")
}
/// One page of a group's instances. The number has a fixed width, so that pages are sorted.
pub fn placement(name: &GroupName, page: usize) -> String {
    format!("{PLACEMENTS}{name}/{page:04}")
}
/// How far a group's release is.
pub fn release(name: &GroupName) -> String {
    format!("{RELEASES}{name}")
}
/// What a group's revisions begin with.
pub fn revisions(name: &GroupName) -> String {
    format!("{REVISIONS}{name}/")
}
/// One revision of a group. The number has a fixed width, so that revisions are sorted.
pub fn revision(name: &GroupName, number: u32) -> String {
    format!("{REVISIONS}{name}/{number:010}")
}
/// What the pod specs of a group begin with.
pub fn group_specs(name: &GroupName) -> String {
    format!("{GROUP_SPECS}{name}/")
}
/// A pod spec of a group.
pub fn group_spec(name: &GroupName, digest: &str) -> String {
    format!("{GROUP_SPECS}{name}/{digest}")
}
/// A pod spec of a dependency pod.
pub fn dependency_spec(name: &GroupName, digest: &str) -> String {
    format!("{DEPENDENCY_SPECS}{name}/{digest}")
}
/// A part of a transaction that is too large for etcd.
pub fn staged(part: usize) -> String {
    format!("{STAGED}{part:04}")
}
/// What is wanted of a dependency pod.
pub fn dependency(name: &GroupName) -> String {
    format!("{DEPENDENCIES}{name}")
}
/// What the pages of a dependency pod's places begin with.
pub fn all_pairs(name: &GroupName) -> String {
    format!("{PAIRS}{name}/")
}
/// One page of where a dependency pod runs.
pub fn pairs(name: &GroupName, page: usize) -> String {
    format!("{PAIRS}{name}/{page:04}")
}
/// One page of the histories of a group's instances.
pub fn history(name: &GroupName, page: u32) -> String {
    format!("{HISTORIES}{name}/{page}")
}
/// Last known facts of a node.
pub fn node(name: &NodeName) -> String {
    format!("{NODES}{name}")
}
/// What operators say of a node.
pub fn node_intent(name: &NodeName) -> String {
    format!("{NODE_INTENTS}{name}")
}
/// A part of a backup that is being restored.
pub fn restore_part(restore: &CommandId, part: u32) -> String {
    format!("{RESTORE_PARTS}{restore}/{part}")
}
/// Whether a backup holds this key: all state but the place in the command stream, which belongs to the stream, the count of
/// commits, which belongs to the store, and what a restore keeps aside.
pub fn is_backed_up(key: &str) -> bool {
    key.starts_with(STATE) && key != CURSOR && key != PROGRESS && !key.starts_with(RESTORES)
}
/// Where schema 1 stored the instances of a group.
pub fn former_placement(name: &GroupName) -> String {
    format!("{PLACEMENTS}{name}")
}
/// Where schema 1 stored the revisions of a group.
pub fn former_revisions(name: &GroupName) -> String {
    format!("{REVISIONS}{name}")
}
/// Where schema 1 stored where a dependency pod runs.
pub fn former_pairs(name: &GroupName) -> String {
    format!("{PAIRS}{name}")
}
/// Whether the key holds a part of a decision that is too large for one transaction.
pub fn is_staged(key: &str) -> bool {
    key == STAGED_READY || key.starts_with(STAGED)
}
/// What became of a command.
pub fn outcome(id: &CommandId) -> String {
    format!("{OUTCOMES}{id}")
}

/// What a key under [`ROOT`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A group.
    Group(GroupName),
    /// A page of a group's instances.
    Placement(GroupName, usize),
    /// A release.
    Release(GroupName),
    /// A revision.
    Revision(GroupName, u32),
    /// A pod spec of a group.
    GroupSpec(GroupName, String),
    /// A dependency pod.
    Dependency(GroupName),
    /// A page of where a dependency pod runs.
    Pairs(GroupName, usize),
    /// A pod spec of a dependency pod.
    DependencySpec(GroupName, String),
    /// A part of a transaction that is too large for etcd.
    Staged(usize),
    /// All parts of such a transaction are stored.
    StagedReady,
    /// A whole placement, as schema 1 stored it.
    FormerPlacement(GroupName),
    /// All revisions of a group, as schema 1 stored them.
    FormerRevisions(GroupName),
    /// All places of a dependency pod, as schema 1 stored them.
    FormerPairs(GroupName),
    /// A page of histories.
    History(GroupName, u32),
    /// A node.
    Node(NodeName),
    /// What operators say of a node.
    NodeIntent(NodeName),
    /// An outcome.
    Outcome(CommandId),
    /// The cursor.
    Cursor,
    /// The callbacks.
    Callbacks,
    /// The engine's switches.
    Engine,
    /// The constraints.
    Constraints,
    /// Which store this is.
    Store,
    /// How far this store has come.
    Progress,
    /// A restore.
    Restore,
    /// A part of a restore.
    RestorePart(CommandId, u32),
    /// Not ours, or of a newer version.
    Unknown,
}

/// Reads a key.
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
            .or_else(|| key.strip_prefix(OUTCOMES).and_then(|n| n.parse().ok()).map(Key::Outcome)),
    };
    known.unwrap_or(Key::Unknown)
}

/// Reads `<name>/<rest>`.
fn numbered<T: std::str::FromStr>(rest: &str, key: impl Fn(GroupName, T) -> Key) -> Option<Key> {
    let (name, rest) = rest.split_once('/')?;
    Some(key(name.parse().ok()?, rest.parse().ok()?))
}

fn parse_part(rest: &str) -> Option<Key> {
    let (restore, part) = rest.split_once('/')?;
    Some(Key::RestorePart(restore.parse().ok()?, part.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_back() {
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
        assert_eq!(parse(&node_intent(&node_name)), Key::NodeIntent(node_name));
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
        assert_eq!(parse("/deployd/state/intent/group/a/b"), Key::Unknown);
    }
}
