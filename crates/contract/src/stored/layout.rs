//! The layout of groups and dependency pods in etcd: schema 2.
//!
//! In memory, a record contains its pod specs, and a placement is a list of instances. In etcd, no value grows with the
//! number of instances or revisions, so a change writes little and no value reaches etcd's size limit:
//!
//! * Each pod spec is stored once per content; records refer to it by digest ([`SpecRef`]).
//! * Instances are stored in pages of [`INSTANCES_A_PAGE`]; each is a [`StoredInstance`] with a `current` pod and at most
//!   one `surge` pod.
//! * Each revision has its own key, and the places of a dependency pod are stored in pages.
//!
//! This file contains every conversion between the two forms. Schema 1 stored the records of [`crate::record`] as they
//! are; [`from_schema_1`] converts one of its keys.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::compact;
use crate::keys::{self, Key};
use crate::name::{GroupName, NodeName};
use crate::record::{
    DependencyRecord, Draining, Fetching, GroupRecord, Instance, Pair, PairsRecord, PlacementRecord, Presence,
    RevisionRecord, RevisionsRecord,
};
use crate::rollout::FailureAction;
use crate::spec::PodSpec;
use crate::state::TargetState;
use crate::time::Timestamp;

/// Instances per page. A page of ordinary instances has 5 KB; a page of the largest instances stays below 1 MiB.
pub const INSTANCES_A_PAGE: usize = 50;
/// Places of a dependency pod per page.
pub const PAIRS_A_PAGE: usize = 200;
/// Longest stored error text, in bytes; longer ones are cut.
pub const LONGEST_REASON: usize = 512;

/// Stored keys and values.
pub type Stored = BTreeMap<String, Vec<u8>>;
/// A key and its value.
pub type KeyValue = (String, Vec<u8>);

/// A stored value that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The key of the value.
    pub key: String,
    /// The decoding error.
    pub reason: String,
}

/// Reference to a stored pod spec. It holds the fields in which copies of a spec differ, so that they share one
/// content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecRef {
    /// Digest of the content: the last segment of its key.
    pub digest: String,
    /// See [`PodSpec::version`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub version: u32,
    /// See [`PodSpec::created_at`].
    #[serde(default, skip_serializing_if = "is_never")]
    pub created_at: Timestamp,
    /// See [`PodSpec::updated_at`].
    #[serde(default, skip_serializing_if = "is_never")]
    pub updated_at: Timestamp,
}

impl SpecRef {
    /// The reference to a spec.
    pub fn to(spec: &PodSpec) -> Self {
        // The digest covers the stored form, so a version with one more field computes the same digest for specs that
        // omit it. It finds equal specs within one group; it does not protect against a user who constructs a collision
        // in their own group.
        let digest = format!("{:032x}", xxh3_128(&text_of(spec)));
        Self { digest, version: spec.version, created_at: spec.created_at, updated_at: spec.updated_at }
    }
}

/// The spec without the fields of [`SpecRef`].
fn content(spec: &PodSpec) -> PodSpec {
    PodSpec { version: 0, created_at: Timestamp::NEVER, updated_at: Timestamp::NEVER, ..spec.clone() }
}

/// The stored form of a spec: fields with default values are omitted.
fn text_of(spec: &PodSpec) -> Vec<u8> {
    // Records of the contract serialise.
    compact::text(&content(spec)).expect("a spec serialises").get().as_bytes().to_vec()
}

/// The owner of pod specs.
#[derive(Debug, Clone, Copy)]
pub enum Owner<'a> {
    /// A group.
    Group(&'a GroupName),
    /// A dependency pod.
    Dependency(&'a GroupName),
}

impl Owner<'_> {
    /// The key of a spec.
    pub fn key(self, digest: &str) -> String {
        match self {
            Self::Group(name) => keys::group_spec(name, digest),
            Self::Dependency(name) => keys::dependency_spec(name, digest),
        }
    }

    /// The key and the stored content of a spec.
    pub fn put(self, spec: &PodSpec) -> KeyValue {
        (self.key(&SpecRef::to(spec).digest), text_of(spec))
    }

    fn read(self, spec: &SpecRef, stored: &Stored) -> Result<PodSpec, Flaw> {
        let key = self.key(&spec.digest);
        let Some(value) = stored.get(&key) else {
            return Err(Flaw { key, reason: "the pod spec is not stored".to_owned() });
        };
        let content: PodSpec = parse(&key, value)?;
        Ok(PodSpec { version: spec.version, created_at: spec.created_at, updated_at: spec.updated_at, ..content })
    }

    fn read_all(self, specs: &BTreeMap<u32, SpecRef>, stored: &Stored) -> Result<BTreeMap<u32, PodSpec>, Flaw> {
        specs.iter().map(|(version, spec)| Ok((*version, self.read(spec, stored)?))).collect()
    }
}

/// Entries for the specs that only `after` contains, and the keys of the specs that only `before` contains.
pub fn spec_changes(owner: Owner<'_>, before: &[&PodSpec], after: &[&PodSpec]) -> (Vec<KeyValue>, Vec<String>) {
    let lacks = |specs: &[&PodSpec], spec: &PodSpec| !specs.iter().any(|other| same_content(other, spec));
    let puts = after.iter().filter(|spec| lacks(before, spec)).map(|spec| owner.put(spec)).collect();
    let deletes = before.iter().filter(|spec| lacks(after, spec)).map(|spec| owner.key(&SpecRef::to(spec).digest));
    (puts, deletes.collect())
}

fn same_content(one: &PodSpec, other: &PodSpec) -> bool {
    one == other
        || *one
            == PodSpec { version: one.version, created_at: one.created_at, updated_at: one.updated_at, ..other.clone() }
}

/// Encodes the record of a group, with references to its specs.
pub fn put_group(name: &GroupName, record: &GroupRecord) -> KeyValue {
    let former = record.former.iter().map(|(version, pod)| (*version, SpecRef::to(pod))).collect();
    let pod = SpecRef::to(&record.spec.pod);
    let record = GroupRecord { last_error: short(&record.last_error).into_owned(), ..record.clone() };
    (keys::group(name), text(&with_pods(record, pod, former)))
}

/// Decodes the record of a group; none when it is not stored.
pub fn read_group(name: &GroupName, stored: &Stored) -> Result<Option<GroupRecord>, Flaw> {
    let Some(record) = read::<GroupRecord<SpecRef>>(&keys::group(name), stored)? else { return Ok(None) };
    let owner = Owner::Group(name);
    let pod = owner.read(&record.spec.pod, stored)?;
    let former = owner.read_all(&record.former, stored)?;
    Ok(Some(with_pods(record, pod, former)))
}

fn with_pods<P, Q>(record: GroupRecord<P>, pod: Q, former: BTreeMap<u32, Q>) -> GroupRecord<Q> {
    let GroupRecord {
        spec,
        operation,
        updated_at,
        taken_ports,
        former: _,
        proven,
        equals,
        drifts,
        last_error,
        removal,
    } = record;
    let (spec, _) = spec.replace_pod(pod);
    GroupRecord { spec, operation, updated_at, taken_ports, former, proven, equals, drifts, last_error, removal }
}

/// Encodes one revision of a group, with a reference to its spec.
pub fn put_revision(name: &GroupName, revision: &RevisionRecord) -> KeyValue {
    let record = with_pod(revision.clone(), SpecRef::to(&revision.pod));
    (keys::revision(name, revision.number), text(&record))
}

/// Decodes one revision of a group; none when it is not stored.
pub fn read_revision(name: &GroupName, number: u32, stored: &Stored) -> Result<Option<RevisionRecord>, Flaw> {
    let key = keys::revision(name, number);
    stored.get(&key).map(|value| revision(name, &key, value, stored)).transpose()
}

/// Decodes all revisions of a group, oldest first.
pub fn read_revisions(name: &GroupName, stored: &Stored) -> Result<RevisionsRecord, Flaw> {
    let revisions = under(&keys::revisions(name), stored).map(|(key, value)| revision(name, key, value, stored));
    Ok(RevisionsRecord { revisions: revisions.collect::<Result<_, _>>()? })
}

fn revision(name: &GroupName, key: &str, value: &[u8], stored: &Stored) -> Result<RevisionRecord, Flaw> {
    let record: RevisionRecord<SpecRef> = parse(key, value)?;
    let pod = Owner::Group(name).read(&record.pod, stored)?;
    Ok(with_pod(record, pod))
}

fn with_pod<P, Q>(record: RevisionRecord<P>, pod: Q) -> RevisionRecord<Q> {
    let RevisionRecord { number, at, by, cause, pod: _, copies, outcome, ended_at } = record;
    RevisionRecord { number, at, by, cause, pod, copies, outcome, ended_at }
}

/// Encodes the record of a dependency pod, with references to its specs.
pub fn put_dependency(name: &GroupName, record: &DependencyRecord) -> KeyValue {
    let DependencyRecord { spec, former, delete_when_unused, removing_since } = record;
    let former = former.iter().map(|(version, pod)| (*version, SpecRef::to(pod))).collect();
    let record = DependencyRecord {
        spec: SpecRef::to(spec),
        former,
        delete_when_unused: *delete_when_unused,
        removing_since: *removing_since,
    };
    (keys::dependency(name), text(&record))
}

/// Decodes the record of a dependency pod; none when it is not stored.
pub fn read_dependency(name: &GroupName, stored: &Stored) -> Result<Option<DependencyRecord>, Flaw> {
    let Some(record) = read::<DependencyRecord<SpecRef>>(&keys::dependency(name), stored)? else { return Ok(None) };
    let DependencyRecord { spec, former, delete_when_unused, removing_since } = record;
    let owner = Owner::Dependency(name);
    let (spec, former) = (owner.read(&spec, stored)?, owner.read_all(&former, stored)?);
    Ok(Some(DependencyRecord { spec, former, delete_when_unused, removing_since }))
}

/// Encodes the places of a dependency pod as pages.
pub fn put_pairs(name: &GroupName, pairs: &[Pair]) -> Vec<KeyValue> {
    let pages = pairs.chunks(PAIRS_A_PAGE).enumerate();
    pages.map(|(page, pairs)| (keys::pairs(name, page), text(&PairsRecord { pairs: pairs.to_vec() }))).collect()
}

/// Decodes the places of a dependency pod.
pub fn read_pairs(name: &GroupName, stored: &Stored) -> Result<Vec<Pair>, Flaw> {
    let mut pairs = Vec::new();
    for (key, value) in under(&keys::all_pairs(name), stored) {
        pairs.extend(parse::<PairsRecord>(key, value)?.pairs);
    }
    Ok(pairs)
}

/// A page of a group's instances; the first page starts with instance 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancesPage {
    /// The instances in number order.
    pub instances: Vec<StoredInstance>,
    /// Distinct error texts; [`Pod::reason`] is a position in this list, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A numbered member of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredInstance {
    /// Its current pod.
    pub current: Pod,
    /// The pod that will replace it and runs beside it until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Pod>,
}

/// One pod of an instance. Default values are omitted. The fields are those of [`Instance`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of `Instance` are documented there")]
pub struct Pod {
    #[serde(skip_serializing_if = "is_default")]
    pub node: Option<NodeName>,
    #[serde(skip_serializing_if = "is_default")]
    pub version: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub drift: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub target: TargetState,
    #[serde(skip_serializing_if = "is_default")]
    pub failures: u32,
    #[serde(skip_serializing_if = "is_never")]
    pub retry_at: Timestamp,
    /// Error text: a position in [`InstancesPage::reasons`], from 1; 0 for none.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: usize,
    /// Why the last move left it on its node: a position in [`InstancesPage::reasons`], from 1; 0 for none.
    #[serde(skip_serializing_if = "is_default")]
    pub not_moved: usize,
    #[serde(skip_serializing_if = "is_default")]
    pub leaves: Option<NodeName>,
    #[serde(skip_serializing_if = "is_never")]
    pub pause_until: Timestamp,
    #[serde(skip_serializing_if = "is_never")]
    pub since: Timestamp,
    #[serde(rename = "starts_asked", skip_serializing_if = "is_default")]
    pub starts_requested: u32,
    #[serde(rename = "restarts_asked", skip_serializing_if = "is_default")]
    pub restarts_requested: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub addresses: Vec<String>,
    #[serde(rename = "filling", skip_serializing_if = "is_default")]
    pub presence: Presence,
    #[serde(skip_serializing_if = "is_default")]
    pub unit: String,
    #[serde(rename = "made_as", skip_serializing_if = "is_default")]
    pub created_from: Option<u32>,
    #[serde(rename = "lease", skip_serializing_if = "is_default")]
    pub reserved_addresses: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub gates: BTreeMap<String, Timestamp>,
    #[serde(skip_serializing_if = "is_never")]
    pub gates_closed_at: Timestamp,
    #[serde(skip_serializing_if = "is_default")]
    pub draining: Option<Draining>,
    #[serde(skip_serializing_if = "is_default")]
    pub fetching: Option<Fetching>,
    #[serde(skip_serializing_if = "is_never")]
    pub unplaced_since: Timestamp,
}

impl Pod {
    fn of(instance: Instance, reasons: &mut Vec<String>) -> (Self, Option<Box<Instance>>) {
        // The pattern names every field, so that the compiler reports a forgotten one.
        let Instance {
            node,
            version,
            drift,
            target,
            failures,
            retry_at,
            why,
            not_moved,
            leaves,
            pause_until,
            since,
            starts_requested,
            restarts_requested,
            addresses,
            presence,
            unit,
            created_from,
            reserved_addresses,
            gates,
            gates_closed_at,
            draining,
            fetching,
            unplaced_since,
            next,
        } = instance;
        let reason = place_of(&why, reasons);
        let not_moved = place_of(&not_moved, reasons);
        let pod = Self {
            node,
            version,
            drift,
            target,
            failures,
            retry_at,
            reason,
            not_moved,
            leaves,
            pause_until,
            since,
            starts_requested,
            restarts_requested,
            addresses,
            presence,
            unit,
            created_from,
            reserved_addresses,
            gates,
            gates_closed_at,
            draining,
            fetching,
            unplaced_since,
        };
        (pod, next)
    }

    fn instance(self, reasons: &[String], next: Option<Box<Instance>>) -> Instance {
        let text =
            |place: usize| place.checked_sub(1).and_then(|place| reasons.get(place)).cloned().unwrap_or_default();
        Instance {
            node: self.node,
            version: self.version,
            drift: self.drift,
            target: self.target,
            failures: self.failures,
            retry_at: self.retry_at,
            why: text(self.reason),
            not_moved: text(self.not_moved),
            leaves: self.leaves,
            pause_until: self.pause_until,
            since: self.since,
            starts_requested: self.starts_requested,
            restarts_requested: self.restarts_requested,
            addresses: self.addresses,
            presence: self.presence,
            unit: self.unit,
            created_from: self.created_from,
            reserved_addresses: self.reserved_addresses,
            gates: self.gates,
            gates_closed_at: self.gates_closed_at,
            draining: self.draining,
            fetching: self.fetching,
            unplaced_since: self.unplaced_since,
            next,
        }
    }
}

/// Position of a text in `reasons`, from 1; 0 for an empty text. Adds the text if it is new.
fn place_of(why: &str, reasons: &mut Vec<String>) -> usize {
    let why = short(why);
    if why.is_empty() {
        return 0;
    }
    if let Some(place) = reasons.iter().rposition(|known| *known == *why) {
        return place + 1;
    }
    reasons.push(why.into_owned());
    reasons.len()
}

impl InstancesPage {
    /// Encodes these instances.
    pub fn of(instances: &[Instance]) -> Self {
        let mut page = Self::default();
        for instance in instances {
            let (current, next) = Pod::of(instance.clone(), &mut page.reasons);
            // A surge pod has no surge pod itself.
            let surge = next.map(|next| Pod::of(*next, &mut page.reasons).0);
            page.instances.push(StoredInstance { current, surge });
        }
        page
    }

    /// Decodes the page.
    pub fn instances(self) -> Vec<Instance> {
        let Self { instances, reasons } = self;
        let instance = |StoredInstance { current, surge }| {
            let next = surge.map(|surge: Pod| Box::new(surge.instance(&reasons, None)));
            current.instance(&reasons, next)
        };
        instances.into_iter().map(instance).collect()
    }
}

/// Encodes a group's instances as pages.
pub fn put_instances(name: &GroupName, instances: &[Instance]) -> Vec<KeyValue> {
    let pages = instances.chunks(INSTANCES_A_PAGE).enumerate();
    pages.map(|(page, instances)| (keys::placement(name, page), text(&InstancesPage::of(instances)))).collect()
}

/// Decodes one page; none when it is not stored.
pub fn read_page(name: &GroupName, page: usize, stored: &Stored) -> Result<Option<Vec<Instance>>, Flaw> {
    Ok(read::<InstancesPage>(&keys::placement(name, page), stored)?.map(InstancesPage::instances))
}

/// Decodes all instances of a group.
pub fn read_instances(name: &GroupName, stored: &Stored) -> Result<Vec<Instance>, Flaw> {
    let mut instances = Vec::new();
    for (key, value) in under(&keys::placements(name), stored) {
        instances.extend(parse::<InstancesPage>(key, value)?.instances());
    }
    Ok(instances)
}

/// Converts a key of schema 1 into the entries that replace it. None when the key stays as it is, because schema 2 has
/// the same form, it was converted before, or it cannot be decoded. The entries come in the order to write them: a spec
/// before its references.
pub fn from_schema_1(key: &str, value: &[u8]) -> Option<Vec<KeyValue>> {
    match keys::parse(key) {
        Key::Group(name) => {
            if serde_json::from_slice::<GroupRecord<SpecRef>>(value).is_ok() {
                return None;
            }
            let mut record: GroupRecord = serde_json::from_slice(value).ok()?;
            // In schema 1 `Hold` was the default and not stored: a group with a strategy and no `FailureAction` keeps
            // `Hold`.
            if record.spec.has_strategy() {
                record.spec.failure_action.get_or_insert(FailureAction::Hold);
            }
            let pods = record.former.values().chain([&record.spec.pod]);
            let mut entries: Vec<KeyValue> = pods.map(|pod| Owner::Group(&name).put(pod)).collect();
            entries.push(put_group(&name, &record));
            Some(entries)
        }
        Key::FormerPlacement(name) => {
            Some(put_instances(&name, &serde_json::from_slice::<PlacementRecord>(value).ok()?.instances))
        }
        Key::FormerRevisions(name) => {
            let record: RevisionsRecord = serde_json::from_slice(value).ok()?;
            let pods = record.revisions.iter().map(|revision| Owner::Group(&name).put(&revision.pod));
            let mut entries: Vec<KeyValue> = pods.collect();
            entries.extend(record.revisions.iter().map(|revision| put_revision(&name, revision)));
            Some(entries)
        }
        Key::Dependency(name) => {
            if serde_json::from_slice::<DependencyRecord<SpecRef>>(value).is_ok() {
                return None;
            }
            let record: DependencyRecord = serde_json::from_slice(value).ok()?;
            let pods = record.former.values().chain([&record.spec]);
            let mut entries: Vec<KeyValue> = pods.map(|pod| Owner::Dependency(&name).put(pod)).collect();
            entries.push(put_dependency(&name, &record));
            Some(entries)
        }
        Key::FormerPairs(name) => Some(put_pairs(&name, &serde_json::from_slice::<PairsRecord>(value).ok()?.pairs)),
        _ => None,
    }
}

/// Prefix of the entries that replace a key of schema 1 ([`from_schema_1`]); none when they keep the key.
pub fn prefix_of_schema_1(key: &str) -> Option<String> {
    match keys::parse(key) {
        Key::FormerPlacement(name) => Some(keys::placements(&name)),
        Key::FormerRevisions(name) => Some(keys::revisions(&name)),
        Key::FormerPairs(name) => Some(keys::all_pairs(&name)),
        _ => None,
    }
}

/// Cuts a text to [`LONGEST_REASON`] bytes.
pub fn short(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_REASON {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(LONGEST_REASON - '…'.len_utf8());
    Cow::Owned(format!("{}…", &text[..end]))
}

/// All entries with a prefix, in key order.
pub fn under<'a>(prefix: &str, stored: &'a Stored) -> impl Iterator<Item = (&'a String, &'a Vec<u8>)> + use<'a> {
    let prefix = prefix.to_owned();
    stored.range(prefix.clone()..).take_while(move |(key, _)| key.starts_with(&prefix))
}

fn text<T: Serialize>(value: &T) -> Vec<u8> {
    // Records have string keys and no serialiser that fails.
    serde_json::to_vec(value).expect("records of the contract serialise")
}

fn read<T: DeserializeOwned>(key: &str, stored: &Stored) -> Result<Option<T>, Flaw> {
    stored.get(key).map(|value| parse(key, value)).transpose()
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, Flaw> {
    serde_json::from_slice(value).map_err(|error| Flaw { key: key.to_owned(), reason: error.to_string() })
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
fn is_never(time: &Timestamp) -> bool {
    !time.happened()
}
