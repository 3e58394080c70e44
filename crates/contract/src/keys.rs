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
const NODE_INTENTS: &str = "/deployd/state/intent/node/";
const HISTORIES: &str = "/deployd/state/history/";
const NODES: &str = "/deployd/state/node/";

/// What is wanted of a group.
pub fn group(name: &GroupName) -> String {
    format!("{GROUPS}{name}")
}
/// Where a group's instances are.
pub fn placement(name: &GroupName) -> String {
    format!("{PLACEMENTS}{name}")
}
/// How far a group's release is.
pub fn release(name: &GroupName) -> String {
    format!("{RELEASES}{name}")
}
/// A group's revisions.
pub fn revisions(name: &GroupName) -> String {
    format!("{REVISIONS}{name}")
}
/// What is wanted of a dependency pod.
pub fn dependency(name: &GroupName) -> String {
    format!("{DEPENDENCIES}{name}")
}
/// Where a dependency pod runs.
pub fn pairs(name: &GroupName) -> String {
    format!("{PAIRS}{name}")
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
/// What became of a command.
pub fn outcome(id: &CommandId) -> String {
    format!("{OUTCOMES}{id}")
}

/// What a key under [`ROOT`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A group.
    Group(GroupName),
    /// A placement.
    Placement(GroupName),
    /// A release.
    Release(GroupName),
    /// Revisions.
    Revisions(GroupName),
    /// A dependency pod.
    Dependency(GroupName),
    /// Where a dependency pod runs.
    Pairs(GroupName),
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
        _ => None
            .or_else(|| key.strip_prefix(GROUPS).and_then(|n| n.parse().ok()).map(Key::Group))
            .or_else(|| key.strip_prefix(PLACEMENTS).and_then(|n| n.parse().ok()).map(Key::Placement))
            .or_else(|| key.strip_prefix(RELEASES).and_then(|n| n.parse().ok()).map(Key::Release))
            .or_else(|| key.strip_prefix(REVISIONS).and_then(|n| n.parse().ok()).map(Key::Revisions))
            .or_else(|| key.strip_prefix(DEPENDENCIES).and_then(|n| n.parse().ok()).map(Key::Dependency))
            .or_else(|| key.strip_prefix(PAIRS).and_then(|n| n.parse().ok()).map(Key::Pairs))
            .or_else(|| key.strip_prefix(HISTORIES).and_then(parse_page))
            .or_else(|| key.strip_prefix(RESTORE_PARTS).and_then(parse_part))
            .or_else(|| key.strip_prefix(NODES).and_then(|n| n.parse().ok()).map(Key::Node))
            .or_else(|| key.strip_prefix(NODE_INTENTS).and_then(|n| n.parse().ok()).map(Key::NodeIntent))
            .or_else(|| key.strip_prefix(OUTCOMES).and_then(|n| n.parse().ok()).map(Key::Outcome)),
    };
    known.unwrap_or(Key::Unknown)
}

fn parse_page(rest: &str) -> Option<Key> {
    let (name, page) = rest.split_once('/')?;
    Some(Key::History(name.parse().ok()?, page.parse().ok()?))
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
        assert_eq!(parse(&revisions(&group_name)), Key::Revisions(group_name.clone()));
        assert_eq!(parse(&pairs(&group_name)), Key::Pairs(group_name.clone()));
        assert_eq!(parse(&history(&group_name, 3)), Key::History(group_name.clone(), 3));
        assert_eq!(parse(&placement(&group_name)), Key::Placement(group_name));
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
