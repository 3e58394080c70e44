//! Writes to etcd: their number and size, and that a large decision is stored completely or not at all.

use contract::layout::{self, INSTANCES_A_PAGE, LONGEST_REASON, SpecRef};
use contract::progress::Progress;
use contract::record::{Draining, Fetching, GroupRecord, Instance, RevisionOutcome, RevisionRecord};

use super::super::commit::staging;
use super::super::commit::{Bundle, Outbox, put_entry, weight};
use super::upgrades::{image, patch};
use super::*;

impl Rig {
    /// Bytes of keys and values written since [`Rig::clear`].
    fn bytes_written(&self) -> usize {
        self.commits.iter().flat_map(|commit| &commit.writes).map(weight).sum()
    }
    pub(super) fn bytes_under(&self, prefix: &str) -> usize {
        layout::under(prefix, &self.store).map(|(_, value)| value.len()).sum()
    }
}

fn labelled(label: &str) -> PodSpec {
    let mut pod = spec("web", 3).pod;
    pod.labels.insert("mark".to_owned(), label.to_owned());
    pod
}

#[test]
fn a_label_change_of_a_small_group_writes_at_most_2_kb() {
    let mut rig = rig(&["a", "b", "c"]);
    rig.command("c0", create("web", 3));
    rig.advance(60);
    // From the tenth change on the number of stored revisions does not grow.
    for number in 0..12 {
        rig.clear();
        assert_eq!(rig.command(&format!("p{number}"), patch("web", labelled(&format!("m{number}")))), "Accepted");
        let (command, first) = (rig.bytes_written(), rig.commits[0].writes.iter().map(weight).sum::<usize>());
        rig.advance(200);
        assert_eq!(rig.record("web").operation, None);
        let rollout = rig.bytes_written();
        println!("change {number}: first commit {first} B, command {command} B, with the rollout {rollout} B");
        assert!(command <= 2048, "{command} bytes");
        // Every commit writes the progress, and an instance is replaced by two commits: fetch the image, then the pod.
        assert!(rollout <= 3584, "{rollout} bytes with the rollout of three instances");
    }
}

#[test]
fn a_spec_is_stored_once_and_deleted_with_the_last_record_that_refers_to_it() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c0", create("web", 2));
    rig.advance(60);
    for number in 0..14 {
        // Every second change returns to the same spec.
        let label = if number % 2 == 0 { "even".to_owned() } else { number.to_string() };
        assert_eq!(rig.command(&format!("p{number}"), patch("web", labelled(&label))), "Accepted");
        rig.advance(150);
        let record = rig.record("web");
        let revisions = rig.revisions("web");
        let specs = record.former.values().chain([&record.spec.pod]).chain(revisions.iter().map(|it| &it.pod));
        let expected: BTreeSet<String> =
            specs.map(|pod| keys::group_spec(&group("web"), &SpecRef::to(pod).digest)).collect();
        let stored: BTreeSet<String> =
            layout::under(&keys::group_spec(&group("web"), ""), &rig.store).map(|(key, _)| key.clone()).collect();
        assert_eq!(stored, expected, "after change {number}");
    }
    rig.command("r", remove("web"));
    rig.advance(60);
    let left: Vec<&String> = rig.store.keys().filter(|key| key.contains("/web")).collect();
    assert_eq!(left, Vec::<&String>::new());
}

#[test]
fn a_page_that_did_not_change_is_not_written() {
    let mut store = BTreeMap::new();
    let mut outbox = Outbox::over(&store, Vec::new(), Term(1), Progress::default());
    let instances = vec![Instance { version: 3, ..Instance::default() }; 120];
    let mut other = instances.clone();
    other[60].version = 4;
    let pages = [commit(&mut outbox, &mut store, &instances), commit(&mut outbox, &mut store, &instances)];
    assert_eq!(pages, [vec!["0000", "0001", "0002"], Vec::new()]);
    assert_eq!(commit(&mut outbox, &mut store, &other), ["0001"]);
    assert_eq!(commit(&mut outbox, &mut store, &other[..70]), ["0001", "0002"]);
    assert_eq!(layout::read_instances(&group("web"), &store).expect("instances"), other[..70]);
}

/// Commits instances and returns the last four characters of each written key.
fn commit(outbox: &mut Outbox, store: &mut layout::Stored, instances: &[Instance]) -> Vec<String> {
    let mut bundle = Bundle::default();
    bundle.put_instances(&group("web"), instances);
    outbox.push(bundle);
    let keys = drain(outbox, store).into_iter().flatten();
    keys.map(|write| match write {
        Write::Put { key, .. } | Write::Delete { key } => key[key.len() - 4..].to_owned(),
    })
    .collect()
}

/// Performs every commit and returns the writes of each.
fn drain(outbox: &mut Outbox, store: &mut layout::Stored) -> Vec<Vec<Write>> {
    let mut commits = Vec::new();
    while let (_, Some(commit)) = outbox.start(Term(1)) {
        apply(store, &commit.writes);
        outbox.stored(commit.id);
        commits.push(commit.writes.into_iter().filter(|write| write.key() != keys::PROGRESS).collect());
    }
    commits
}

fn apply(store: &mut layout::Stored, writes: &[Write]) {
    for write in writes {
        match write.clone() {
            Write::Put { key, value, .. } => drop(store.insert(key, value)),
            Write::Delete { key } => drop(store.remove(&key)),
        }
    }
}

/// An instance in which every field has its maximum size.
fn largest_pod(number: usize) -> Instance {
    let text = |length: usize| format!("{number:0>length$}");
    let name = || Some(text(63).parse().expect("a name"));
    let at = Timestamp::from_millis(i64::MAX / 4);
    Instance {
        node: name(),
        version: u32::MAX,
        drift: u32::MAX,
        target: TargetState::Stop,
        failures: u32::MAX,
        retry_at: at,
        why: text(4 * LONGEST_REASON),
        not_moved: format!("not moved: {}", text(4 * LONGEST_REASON)),
        leaves: name(),
        pause_until: at,
        since: at,
        starts_requested: u32::MAX,
        restarts_requested: u32::MAX,
        addresses: vec!["255.255.255.255".to_owned(); 16],
        unit: text(63),
        created_from: Some(u32::MAX),
        reserved_addresses: vec!["255.255.255.255".to_owned(); 16],
        gates: (0..contract::validate::MOST_GATES).map(|gate| (format!("{gate:0>63}"), at)).collect(),
        gates_closed_at: at,
        draining: Some(Draining { since: at, is_answered: true, is_final: true }),
        fetching: Some(Fetching { version: u32::MAX, since: at }),
        unplaced_since: at,
        ..Instance::default()
    }
}

fn largest_instances(count: usize) -> Vec<Instance> {
    // Every text differs, so that the layout cannot share them.
    let instance = |number| Instance { next: Some(Box::new(largest_pod(number + count))), ..largest_pod(number) };
    (0..count).map(instance).collect()
}

/// A group with ten revisions of large specs.
fn largest_group(bundle: &mut Bundle) -> GroupRecord {
    let large = |number: u32| {
        let mut pod = image("web", &format!("v{number}"));
        pod.containers[0].env = (0..230).map(|entry| format!("K{entry}={}", "x".repeat(1_000))).collect();
        PodSpec { version: number, ..pod }
    };
    let mut spec = spec("web", 5_000);
    spec.pod = large(11);
    let former = (0..3).map(|version| (version, large(version))).collect();
    let record = GroupRecord { spec, former, last_error: "x".repeat(1 << 20), ..GroupRecord::default() };
    for number in 1..=10 {
        let revision = RevisionRecord {
            number,
            at: Timestamp::from_millis(1),
            by: "b".repeat(128),
            cause: "c".repeat(1024),
            pod: large(number),
            copies: Some(1),
            outcome: RevisionOutcome::Superseded,
            ended_at: Timestamp::from_millis(2),
        };
        bundle.writes.push(put_entry(layout::Owner::Group(&group("web")).put(&revision.pod)));
        bundle.writes.push(put_entry(layout::put_revision(&group("web"), &revision)));
    }
    bundle.writes.push(put_entry(layout::Owner::Group(&group("web")).put(&record.spec.pod)));
    bundle.writes.push(put_entry(layout::Owner::Group(&group("web")).put(&record.former[&0])));
    bundle.writes.push(put_entry(layout::put_group(&group("web"), &record)));
    record
}

#[test]
fn no_record_and_no_transaction_reaches_the_limits_of_etcd() {
    for count in [0, 1, INSTANCES_A_PAGE, INSTANCES_A_PAGE + 1, 5_000] {
        let (mut store, mut outbox) = (BTreeMap::new(), Outbox::default());
        let mut bundle = Bundle::default();
        largest_group(&mut bundle);
        let instances = largest_instances(count);
        bundle.put_instances(&group("web"), &instances);
        outbox.push(bundle);
        for writes in drain(&mut outbox, &mut store) {
            let bytes: usize = writes.iter().map(weight).sum();
            assert!(writes.len() < 127 && bytes < 3 << 19, "{} writes of {bytes} bytes", writes.len());
            assert!(writes.iter().all(|write| weight(write) < 5 << 18), "a part is too large");
        }
        assert!(store.values().all(|value| value.len() < 1 << 20));
        assert!(!store.keys().any(|key| key.contains("/staged/")), "the parts are deleted");
        let read = layout::read_instances(&group("web"), &store).expect("instances");
        assert_eq!(read.len(), count);
        let is_cut = |text: &String| text.len() <= LONGEST_REASON && text.ends_with('\u{2026}');
        assert!(
            read.iter().all(|instance| is_cut(&instance.why) && is_cut(&instance.not_moved)),
            "error texts are cut"
        );
        let with_texts_of = |instance: &Instance, read: &mut Instance| {
            read.why.clone_from(&instance.why);
            read.not_moved.clone_from(&instance.not_moved);
        };
        let equals = |instance: &Instance, mut read: Instance| {
            with_texts_of(instance, &mut read);
            let (next, read_next) = (instance.next.as_ref().expect("two pods"), read.next.as_mut().expect("two pods"));
            with_texts_of(next, read_next);
            read == *instance
        };
        assert!(
            instances.iter().zip(read).all(|(instance, read)| equals(instance, read)),
            "everything else is unchanged"
        );
    }
}

#[test]
fn a_large_decision_is_stored_completely_or_not_at_all() {
    let (before, after) = (largest_instances(120), largest_instances(400));
    let mut store = BTreeMap::new();
    let mut outbox = Outbox::over(&store, Vec::new(), Term(1), Progress::default());
    commit(&mut outbox, &mut store, &before);
    let first = store.clone();
    let mut bundle = Bundle { effects: vec![Effect::AskWhole { node: node("a") }], ..Bundle::default() };
    bundle.put_instances(&group("web"), &after);
    outbox.push(bundle);
    let commits = drain(&mut outbox, &mut store);
    assert!(commits.len() > 4, "{} transactions", commits.len());
    let read = |store: &layout::Stored| layout::read_instances(&group("web"), store).expect("instances");
    let (old, new) = (read(&first), read(&store));
    let mut seen = BTreeSet::new();
    let mut partial = first;
    for writes in &commits {
        // The leader dies before these writes, and another one takes over.
        let mut loaded = partial.clone();
        let unfinished = staging::recover(&mut loaded);
        let found = read(&loaded);
        assert!(found == old || found == new, "half of a decision");
        seen.insert(found == new);
        let mut finished = partial.clone();
        unfinished.iter().for_each(|writes| apply(&mut finished, writes));
        assert_eq!(read(&finished), found, "after the recovery etcd holds the state that the leader loaded");
        assert!(!finished.keys().any(|key| key.contains("/staged/")), "the parts are deleted");
        apply(&mut partial, writes);
    }
    assert_eq!(seen, BTreeSet::from([false, true]));
}

#[test]
fn the_effects_of_a_decision_leave_after_the_last_of_its_transactions() {
    let mut outbox = Outbox::default();
    let mut bundle = Bundle { effects: vec![Effect::AskWhole { node: node("a") }], ..Bundle::default() };
    bundle.put_instances(&group("web"), &largest_instances(400));
    outbox.push(bundle);
    outbox.push(Bundle { effects: vec![Effect::AskWhole { node: node("b") }], ..Bundle::default() });
    let mut effects = Vec::new();
    while let (released, Some(commit)) = outbox.start(Term(1)) {
        assert!(released.is_empty());
        let (_, released) = outbox.stored(commit.id).expect("the commit in flight");
        effects.push(released.len());
    }
    let last = effects.pop();
    assert!(effects.iter().all(|count| *count == 0) && last == Some(1), "{effects:?} {last:?}");
}

#[test]
fn thousands_of_failed_image_pulls_do_not_exceed_the_limits_of_a_transaction() {
    let mut rig = rig(&["a"]);
    rig.agent("a").memory = 1 << 50;
    rig.agent("a").cpu_millis = 1 << 50;
    rig.report_all();
    assert_eq!(rig.command("c1", create("web", 5_000)), "Accepted");
    let agent = rig.agent("a");
    for pod in agent.order.pods.keys() {
        let error =
            format!("cannot pull {} for {pod}: connection refused {}", "registry.invalid/".repeat(12), "x".repeat(300));
        let facts = PodFacts { state: RunState::Error, last_error: error, ..PodFacts::default() };
        agent.facts.insert(pod.to_string(), facts);
    }
    rig.clear();
    rig.advance(3);
    assert_eq!(rig.command("c2", create("other", 1)), "Accepted");
    assert_eq!(rig.command("c3", remove("web")), "Accepted");
    for commit in &rig.commits {
        let bytes: usize = commit.writes.iter().map(weight).sum();
        assert!(commit.writes.len() < 127 && bytes < 3 << 19, "{} writes of {bytes} bytes", commit.writes.len());
    }
}

#[test]
fn a_leader_keeps_no_mirror_of_the_state_that_it_stored() {
    let mut rig = rig(&["a"]);
    for number in 0..20 {
        rig.command(&format!("c{number}"), create(&format!("web{number}"), 1));
    }
    rig.command("d1", Verb::RemoveGroup { name: group("web1"), removal: contract::command::Removal::Foreground });
    rig.advance(10);
    assert_eq!(rig.core.mirrored, BTreeMap::new());
}

#[test]
fn specs_stored_under_digests_of_an_older_version_are_rewritten_by_the_next_change() {
    let mut rig = rig(&["a"]);
    rig.command("c1", create("web", 1));
    rig.advance(10);
    // The digest of the older version.
    let key = rig.store.keys().find(|key| key.starts_with(&keys::group_specs(&group("web")))).cloned().expect("a spec");
    let (digest, older) = (key.rsplit('/').next().expect("a digest"), "0123456789abcdef0123456789abcdef");
    let rename = |text: &str| text.replace(digest, older);
    *rig.store = rig
        .store
        .iter()
        .map(|(key, value)| (rename(key), rename(&String::from_utf8_lossy(value)).into_bytes()))
        .collect();
    rig.take_over();
    assert_eq!(rig.command("c2", replica("web", 2)), "Accepted");
    rig.advance(10);
    rig.take_over();
    assert_eq!(rig.group("web").expect("a group").pods.len(), 2);
    assert_eq!(rig.command("c3", remove("web")), "Accepted");
    rig.advance(10);
    assert!(!rig.store.keys().any(|key| key.contains("content/group/web")), "{:?}", rig.store.keys());
}
