//! The layout in etcd: the migration from schema 1 to schema 2 loses nothing.

use contract::keys;
use contract::layout::{self, InstancesPage, Owner, SpecRef, Stored};
use contract::name::GroupName;
use contract::record::{GroupRecord, Instance, RevisionsRecord};
use contract::spec::PodSpec;
use contract::time::Timestamp;
use proptest::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::{rollout_samples, samples};

fn name() -> GroupName {
    "hello.web.web".parse().expect("a name")
}

/// One of each kind of stored value, for the golden files.
pub(crate) fn stored() -> Vec<(&'static str, Value)> {
    let json = |(_, value): layout::KeyValue| serde_json::from_slice(&value).expect("JSON");
    let instances = [samples::placement_record().instances, rollout_samples::placement_record().instances].concat();
    let revision = rollout_samples::revisions_record().revisions.remove(0);
    let record = samples::busy_group_record();
    vec![
        ("group", json(layout::put_group(&name(), &record))),
        ("spec", json(Owner::Group(&name()).put(&record.spec.pod))),
        ("revision", json(layout::put_revision(&name(), &revision))),
        ("instances", json(layout::put_instances(&name(), &instances).remove(0))),
        ("dependency", json(layout::put_dependency(&name(), &samples::dependency_record()))),
        ("pairs", json(layout::put_pairs(&name(), &samples::pairs_record().pairs).remove(0))),
    ]
}

/// A key of schema 1: without the part after the name.
fn former<T: Serialize>(key: &str, record: &T) -> (String, Vec<u8>) {
    (key.trim_end_matches('/').to_owned(), serde_json::to_vec(record).expect("JSON"))
}

/// The stored entries after a migration of these keys.
fn migrated(before: &[(String, Vec<u8>)]) -> Stored {
    let mut after = Stored::new();
    for (key, value) in before {
        let entries = layout::from_schema_1(key, value).unwrap_or_else(|| panic!("{key} is of schema 1"));
        after.extend(entries);
    }
    for (key, value) in &after {
        assert_eq!(layout::from_schema_1(key, value), None, "{key} is converted already");
    }
    after
}

#[test]
fn what_schema_1_stored_is_read_back_the_same_after_its_migration() {
    let groups = [
        samples::group_record(),
        samples::blocked_group_record(),
        samples::busy_group_record(),
        rollout_samples::orphan_record(),
    ];
    let revisions: RevisionsRecord = rollout_samples::revisions_record();
    let (dependency, pairs) = (samples::dependency_record(), samples::pairs_record());
    for group in groups {
        let instances = [samples::placement_record().instances, rollout_samples::placement_record().instances].concat();
        let placement = contract::record::PlacementRecord { instances };
        let stored = migrated(&[
            former(&keys::group(&name()), &group),
            former(&keys::placements(&name()), &placement),
            former(&keys::revisions(&name()), &revisions),
            former(&keys::dependency(&name()), &dependency),
            former(&keys::all_pairs(&name()), &pairs),
        ]);
        assert_eq!(layout::read_group(&name(), &stored), Ok(Some(group)));
        assert_eq!(layout::read_instances(&name(), &stored), Ok(placement.instances));
        assert_eq!(layout::read_revisions(&name(), &stored), Ok(revisions.clone()));
        assert_eq!(layout::read_dependency(&name(), &stored), Ok(Some(dependency.clone())));
        assert_eq!(layout::read_pairs(&name(), &stored), Ok(pairs.pairs.clone()));
    }
}

#[test]
fn copies_of_a_spec_share_one_stored_content() {
    let pod = samples::group_record().spec.pod;
    let copy = PodSpec { version: pod.version + 5, updated_at: Timestamp::from_millis(77), ..pod.clone() };
    assert_eq!(SpecRef::to(&pod).digest, SpecRef::to(&copy).digest);
    let other = PodSpec { kill_timeout: pod.kill_timeout + 1, ..pod.clone() };
    assert_ne!(SpecRef::to(&pod).digest, SpecRef::to(&other).digest);
    let (puts, deletes) = layout::spec_changes(Owner::Group(&name()), &[&pod], &[&copy, &other]);
    assert_eq!((puts.len(), deletes), (1, Vec::new()));
    let (puts, deletes) = layout::spec_changes(Owner::Group(&name()), &[&pod, &other], &[&copy]);
    assert_eq!((puts, deletes), (Vec::new(), vec![keys::group_spec(&name(), &SpecRef::to(&other).digest)]));
}

#[test]
fn a_record_with_a_missing_spec_is_an_error() {
    let record: GroupRecord = samples::group_record();
    let (key, value) = layout::put_group(&name(), &record);
    let flaw = layout::read_group(&name(), &Stored::from([(key, value)])).expect_err("no spec");
    assert_eq!(flaw.key, keys::group_spec(&name(), &SpecRef::to(&record.spec.pod).digest));
}

proptest! {
    #[test]
    fn error_texts_are_stored_once_and_round_trip(texts in prop::collection::vec("[a-c]{0,3}|\\PC{500,700}", 0..60)) {
        let instances: Vec<Instance> = texts.iter().map(|why| Instance { why: why.clone(), ..Instance::default() }).collect();
        let page = InstancesPage::of(&instances);
        let mut distinct = page.reasons.clone();
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), page.reasons.len());
        for (read, why) in page.instances().iter().zip(&texts) {
            prop_assert!(read.why.len() <= layout::LONGEST_REASON);
            let kept = read.why.strip_suffix('\u{2026}').filter(|_| why.len() > layout::LONGEST_REASON);
            prop_assert!(why.starts_with(kept.unwrap_or(&read.why)));
        }
    }
}
