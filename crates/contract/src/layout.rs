//! How groups and dependency pods are laid out in etcd: schema 2.
//!
//! In memory a record holds its pod specs and a placement is a list of slots. In etcd no value grows with the number of
//! instances or revisions, so that a change writes little and no value reaches etcd's limit:
//!
//! * each pod spec is stored once per content, and records refer to it by digest ([`SpecRef`]);
//! * instances are stored in pages of [`INSTANCES_A_PAGE`], each an [`Instance`] with a `current` pod and at most one `surge` pod;
//! * each revision has a key of its own, and the places of a dependency pod are stored in pages.
//!
//! Everything that turns one into the other is in this file. Schema 1 stored the records of [`crate::record`] as they are;
//! [`from_schema_1`] converts one key of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::compact;
use crate::keys::{self, Key};
use crate::name::{GroupName, NodeName};
use crate::record::{
    DependencyRecord, Draining, Fetching, Filling, GroupRecord, Pair, PairsRecord, PlacementRecord, RevisionRecord,
    RevisionsRecord, Slot,
};
use crate::rollout::FailureAction;
use crate::spec::PodSpec;
use crate::state::TargetState;
use crate::time::Timestamp;

/// Instances of one page. A page of ordinary instances has 5 KB; one of the largest instances stays below 1 MiB.
pub const INSTANCES_A_PAGE: usize = 50;
/// Places of a dependency pod in one page.
pub const PAIRS_A_PAGE: usize = 200;
/// Bytes of an error text that are stored at most.
pub const LONGEST_REASON: usize = 512;

/// Stored keys and values.
pub type Stored = BTreeMap<String, Vec<u8>>;
/// A key and its value.
pub type Entry = (String, Vec<u8>);

/// A value that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The key of the value.
    pub key: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// Refers to a pod spec. Copies of a spec differ in these fields only, so they share one stored content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecRef {
    /// The digest of the content: the last part of its key.
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
        // The digest is of what is stored, so a version with one more field computes the same for specs that leave it out. It
        // finds equal specs of one group; it does not protect against a user who makes two specs of one group collide.
        let digest = format!("{:032x}", xxh3_128(&text_of(spec)));
        Self { digest, version: spec.version, created_at: spec.created_at, updated_at: spec.updated_at }
    }
}

/// The spec without what [`SpecRef`] holds.
fn content(spec: &PodSpec) -> PodSpec {
    PodSpec { version: 0, created_at: Timestamp::NEVER, updated_at: Timestamp::NEVER, ..spec.clone() }
}

/// The stored content of a spec, which leaves out every field that is as by default.
fn text_of(spec: &PodSpec) -> Vec<u8> {
    // Records of the contract serialise.
    compact::text(&content(spec)).expect("a spec serialises").get().as_bytes().to_vec()
}

/// Owner of pod specs.
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
    pub fn put(self, spec: &PodSpec) -> Entry {
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

/// The specs that `after` has and `before` lacks, to be stored, and the keys of those that `before` has and `after` lacks.
pub fn spec_changes(owner: Owner<'_>, before: &[&PodSpec], after: &[&PodSpec]) -> (Vec<Entry>, Vec<String>) {
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

/// The record of a group, with references to its specs.
pub fn put_group(name: &GroupName, record: &GroupRecord) -> Entry {
    let former = record.former.iter().map(|(version, pod)| (*version, SpecRef::to(pod))).collect();
    let pod = SpecRef::to(&record.spec.pod);
    let record = GroupRecord { last_error: short(&record.last_error).into_owned(), ..record.clone() };
    (keys::group(name), text(&with_pods(record, pod, former)))
}

/// The record of a group.
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

/// One revision of a group, with a reference to its spec.
pub fn put_revision(name: &GroupName, revision: &RevisionRecord) -> Entry {
    let record = with_pod(revision.clone(), SpecRef::to(&revision.pod));
    (keys::revision(name, revision.number), text(&record))
}

/// One revision of a group; none when it is not stored.
pub fn read_revision(name: &GroupName, number: u32, stored: &Stored) -> Result<Option<RevisionRecord>, Flaw> {
    let key = keys::revision(name, number);
    stored.get(&key).map(|value| revision(name, &key, value, stored)).transpose()
}

/// The revisions of a group, oldest first.
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

/// The record of a dependency pod, with references to its specs.
pub fn put_dependency(name: &GroupName, record: &DependencyRecord) -> Entry {
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

/// The record of a dependency pod.
pub fn read_dependency(name: &GroupName, stored: &Stored) -> Result<Option<DependencyRecord>, Flaw> {
    let Some(record) = read::<DependencyRecord<SpecRef>>(&keys::dependency(name), stored)? else { return Ok(None) };
    let DependencyRecord { spec, former, delete_when_unused, removing_since } = record;
    let owner = Owner::Dependency(name);
    let (spec, former) = (owner.read(&spec, stored)?, owner.read_all(&former, stored)?);
    Ok(Some(DependencyRecord { spec, former, delete_when_unused, removing_since }))
}

/// The pages of where a dependency pod runs.
pub fn put_pairs(name: &GroupName, pairs: &[Pair]) -> Vec<Entry> {
    let pages = pairs.chunks(PAIRS_A_PAGE).enumerate();
    pages.map(|(page, pairs)| (keys::pairs(name, page), text(&PairsRecord { pairs: pairs.to_vec() }))).collect()
}

/// Where a dependency pod runs.
pub fn read_pairs(name: &GroupName, stored: &Stored) -> Result<Vec<Pair>, Flaw> {
    let mut pairs = Vec::new();
    for (key, value) in under(&keys::all_pairs(name), stored) {
        pairs.extend(parse::<PairsRecord>(key, value)?.pairs);
    }
    Ok(pairs)
}

/// A page of a group's instances; the first page begins with instance 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancesPage {
    /// The instances.
    pub instances: Vec<Instance>,
    /// Error texts, each once: [`Pod::reason`] counts into them from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A numbered member of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its pod.
    pub current: Pod,
    /// The pod that replaces it and runs beside it until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Pod>,
}

/// One pod of an instance. Fields that are as by default are not written. The fields are those of [`Slot`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
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
    /// The error text: its place in [`InstancesPage::reasons`], counted from 1.
    #[serde(skip_serializing_if = "is_default")]
    pub reason: usize,
    /// Why the last drift left it on its node: its place in [`InstancesPage::reasons`], counted from 1.
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
    #[serde(skip_serializing_if = "is_default")]
    pub filling: Filling,
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
    fn of(slot: Slot, reasons: &mut Vec<String>) -> (Self, Option<Box<Slot>>) {
        // Every field is named, so that a new one cannot be forgotten.
        let Slot {
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
            filling,
            unit,
            created_from,
            reserved_addresses,
            gates,
            gates_closed_at,
            draining,
            fetching,
            unplaced_since,
            next,
        } = slot;
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
            filling,
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

    fn slot(self, reasons: &[String], next: Option<Box<Slot>>) -> Slot {
        let text =
            |place: usize| place.checked_sub(1).and_then(|place| reasons.get(place)).cloned().unwrap_or_default();
        Slot {
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
            filling: self.filling,
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

/// The place of a text among the reasons, counted from 1; 0 for none.
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
    /// A page of these slots.
    pub fn of(slots: &[Slot]) -> Self {
        let mut page = Self::default();
        for slot in slots {
            let (current, next) = Pod::of(slot.clone(), &mut page.reasons);
            // A surge pod has none itself.
            let surge = next.map(|next| Pod::of(*next, &mut page.reasons).0);
            page.instances.push(Instance { current, surge });
        }
        page
    }

    /// The slots of the page.
    pub fn slots(self) -> Vec<Slot> {
        let Self { instances, reasons } = self;
        let slot = |Instance { current, surge }| {
            let next = surge.map(|surge: Pod| Box::new(surge.slot(&reasons, None)));
            current.slot(&reasons, next)
        };
        instances.into_iter().map(slot).collect()
    }
}

/// The pages of a group's instances.
pub fn put_slots(name: &GroupName, slots: &[Slot]) -> Vec<Entry> {
    let pages = slots.chunks(INSTANCES_A_PAGE).enumerate();
    pages.map(|(page, slots)| (keys::placement(name, page), text(&InstancesPage::of(slots)))).collect()
}

/// The slots of one page; none when the page is not stored.
pub fn read_page(name: &GroupName, page: usize, stored: &Stored) -> Result<Option<Vec<Slot>>, Flaw> {
    Ok(read::<InstancesPage>(&keys::placement(name, page), stored)?.map(InstancesPage::slots))
}

/// The slots of a group.
pub fn read_slots(name: &GroupName, stored: &Stored) -> Result<Vec<Slot>, Flaw> {
    let mut slots = Vec::new();
    for (key, value) in under(&keys::placements(name), stored) {
        slots.extend(parse::<InstancesPage>(key, value)?.slots());
    }
    Ok(slots)
}

/// What becomes of a key of schema 1: the entries that take its place. None when it stays as it is, also because it has been
/// converted before or cannot be read. Entries come in the order to write them: a spec before what refers to it.
pub fn from_schema_1(key: &str, value: &[u8]) -> Option<Vec<Entry>> {
    match keys::parse(key) {
        Key::Group(name) => {
            if serde_json::from_slice::<GroupRecord<SpecRef>>(value).is_ok() {
                return None;
            }
            let mut record: GroupRecord = serde_json::from_slice(value).ok()?;
            // Schema 1 did not store `Hold`, which was the default: a group that wrote it keeps it.
            if record.spec.has_strategy() {
                record.spec.failure_action.get_or_insert(FailureAction::Hold);
            }
            let pods = record.former.values().chain([&record.spec.pod]);
            let mut entries: Vec<Entry> = pods.map(|pod| Owner::Group(&name).put(pod)).collect();
            entries.push(put_group(&name, &record));
            Some(entries)
        }
        Key::FormerPlacement(name) => {
            Some(put_slots(&name, &serde_json::from_slice::<PlacementRecord>(value).ok()?.slots))
        }
        Key::FormerRevisions(name) => {
            let record: RevisionsRecord = serde_json::from_slice(value).ok()?;
            let pods = record.revisions.iter().map(|revision| Owner::Group(&name).put(&revision.pod));
            let mut entries: Vec<Entry> = pods.collect();
            entries.extend(record.revisions.iter().map(|revision| put_revision(&name, revision)));
            Some(entries)
        }
        Key::Dependency(name) => {
            if serde_json::from_slice::<DependencyRecord<SpecRef>>(value).is_ok() {
                return None;
            }
            let record: DependencyRecord = serde_json::from_slice(value).ok()?;
            let pods = record.former.values().chain([&record.spec]);
            let mut entries: Vec<Entry> = pods.map(|pod| Owner::Dependency(&name).put(pod)).collect();
            entries.push(put_dependency(&name, &record));
            Some(entries)
        }
        Key::FormerPairs(name) => Some(put_pairs(&name, &serde_json::from_slice::<PairsRecord>(value).ok()?.pairs)),
        _ => None,
    }
}

/// What the entries begin with that take the place of a key of schema 1 ([`from_schema_1`]); none when they keep the key.
pub fn prefix_of_schema_1(key: &str) -> Option<String> {
    match keys::parse(key) {
        Key::FormerPlacement(name) => Some(keys::placements(&name)),
        Key::FormerRevisions(name) => Some(keys::revisions(&name)),
        Key::FormerPairs(name) => Some(keys::all_pairs(&name)),
        _ => None,
    }
}

/// A text as it is stored: at most [`LONGEST_REASON`] bytes.
pub fn short(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_REASON {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(LONGEST_REASON - '…'.len_utf8());
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Everything stored under a prefix, in the order of keys.
pub fn under<'a>(prefix: &str, stored: &'a Stored) -> impl Iterator<Item = (&'a String, &'a Vec<u8>)> + use<'a> {
    let prefix = prefix.to_owned();
    stored.range(prefix.clone()..).take_while(move |(key, _)| key.starts_with(&prefix))
}

fn text<T: Serialize>(value: &T) -> Vec<u8> {
    // Records have string keys and no failing serializer.
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
