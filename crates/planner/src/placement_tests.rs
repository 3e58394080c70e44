//! Placement never exceeds the capacity of a node, explains every failure, and does not depend on the order of its input.

use contract::spec::ContainerSpec;
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1024 * 1024;

struct NoPods;
impl PlacedPods for NoPods {
    fn visit(&self, _: &NodeName, _: &mut dyn FnMut(&PodId, &PodSpec)) {}
}

/// One pod with this image on one node.
struct PlacedPod(&'static str, &'static str);
impl PlacedPods for PlacedPod {
    fn visit(&self, node: &NodeName, see: &mut dyn FnMut(&PodId, &PodSpec)) {
        if node.as_str() == self.0 {
            let pod: PodId = "other.v0-i1-d0".parse().expect("a pod");
            see(&pod, &pod_spec(0, &[], self.1));
        }
    }
}

fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}

fn candidate(memory: u64, cpu_millis: u64) -> Candidate {
    let labels = BTreeMap::from([("group".to_owned(), "default".to_owned())]);
    Candidate::alive(NodeFacts { memory, cpu_millis, labels, ..Default::default() })
}

fn pod_spec(memory: i64, filters: &[&str], image: &str) -> PodSpec {
    PodSpec {
        containers: vec![ContainerSpec {
            memory_limit: memory,
            image: image.to_owned(),
            cpu_limit: 1,
            ..Default::default()
        }],
        filters: filters.iter().map(|filter| (*filter).to_owned()).collect(),
        ..Default::default()
    }
}

fn on<'a>(nodes: &'a BTreeMap<NodeName, Candidate>, placed_pods: &'a dyn PlacedPods) -> Candidates<'a> {
    Candidates { nodes, ranking: None, placed_pods }
}

fn nodes(names: &[&str]) -> BTreeMap<NodeName, Candidate> {
    names.iter().map(|text| (name(text), candidate(1024 * MIB, 8_000))).collect()
}

fn place_all(nodes: &BTreeMap<NodeName, Candidate>, pod: &PodSpec, count: usize) -> Vec<Result<String, String>> {
    let mut placer = Placer::new(on(nodes, &NoPods), &pod.filters, Need::of(pod, 8), &BTreeMap::new());
    let place = |_| placer.place(NodePreference::default()).map(|node| node.to_string()).map_err(|why| why.sentence());
    (0..count).map(place).collect()
}

#[test]
fn siblings_are_spread_before_nodes_are_filled() {
    let mut nodes = nodes(&["a", "b", "c"]);
    nodes.get_mut(&name("a")).expect("a host").used = Need { memory: 900 * MIB, cpu_millis: 0 };
    let placed = place_all(&nodes, &pod_spec(100 << 20, &[], "i"), 4);
    assert_eq!(placed, ["b", "c", "a", "b"].map(|node| Ok(node.to_owned())));
}

#[test]
fn hard_expressions_filter_and_soft_ones_yield() {
    let mut nodes = nodes(&["a", "b"]);
    nodes.get_mut(&name("b")).expect("a host").facts.labels.clear();
    let first = |filters: &[&str]| place_all(&nodes, &pod_spec(0, filters, "i"), 1).remove(0);
    assert_eq!(first(&["constraint:group==default"]), Ok("a".to_owned()));
    assert_eq!(first(&["constraint:group!=default"]), Ok("b".to_owned()));
    assert_eq!(first(&["constraint:node!=~a"]), Ok("b".to_owned()));
    assert_eq!(first(&["constraint:node==~z"]), Ok("a".to_owned()));
    assert_eq!(first(&["constraint:node==/b/", "constraint:group==~default"]), Ok("b".to_owned()));
    assert_eq!(
        first(&["constraint:group==x"]),
        Err("no node fits: a: constraint:group==x not met; b: constraint:group==x not met".to_owned())
    );
}

#[test]
fn an_invalid_expression_is_a_reason() {
    let error = place_all(&nodes(&["a"]), &pod_spec(0, &["group==default"], "i"), 1).remove(0).expect_err("no place");
    assert!(error.contains("a: group==default cannot be read"), "{error}");
}

#[test]
fn affinity_compares_placed_pods() {
    let nodes = nodes(&["a", "b"]);
    for (filter, expected) in
        [("affinity:image==redis*", "b"), ("affinity:image!=redis*", "a"), ("affinity:container==other.*", "b")]
    {
        let pod = pod_spec(0, &[filter], "i");
        let mut placer =
            Placer::new(on(&nodes, &PlacedPod("b", "redis:7")), &pod.filters, Need::default(), &BTreeMap::new());
        assert_eq!(placer.place(NodePreference::default()), Ok(name(expected)), "{filter}");
    }
}

#[test]
fn a_cordoned_node_gets_nothing_new_and_says_why() {
    let mut nodes = nodes(&["a", "b"]);
    nodes.get_mut(&name("a")).expect("a host").cordon = Some("cordoned (disk swap)".to_owned());
    let pod = pod_spec(400 << 20, &[], "i");
    assert_eq!(
        place_all(&nodes, &pod, 3),
        [
            Ok("b".to_owned()),
            Ok("b".to_owned()),
            Err("no node fits: a: cordoned (disk swap); b: memory 176 MiB short".to_owned())
        ]
    );
    let mut placer = Placer::new(on(&nodes, &NoPods), &[], Need::of(&pod, 8), &BTreeMap::new());
    let (a, b) = (name("a"), name("b"));
    assert_eq!(
        placer.place(NodePreference { prefer: Some(&a), ..NodePreference::default() }),
        Ok(b.clone()),
        "a preference is no right"
    );
    assert_eq!(
        placer.place(NodePreference { avoid: Some(&b), ..NodePreference::default() }),
        Ok(b),
        "rather there than on a cordoned one"
    );
}

#[test]
fn a_pinned_pod_stays_on_a_cordoned_node() {
    let mut nodes = nodes(&["a", "b"]);
    nodes.get_mut(&name("a")).expect("a host").cordon = Some("cordoned".to_owned());
    let pod = pod_spec(600 << 20, &[], "i");
    let mut placer = Placer::new(on(&nodes, &NoPods), &[], Need::of(&pod, 8), &BTreeMap::new());
    let a = name("a");
    let stays = NodePreference { pin: Some(&a), ..NodePreference::default() };
    assert_eq!(placer.place(stays), Ok(a.clone()));
    let why = placer.place(stays).expect_err("it is full").sentence();
    assert_eq!(why, "no node fits: a: memory 176 MiB short", "that it is cordoned is not why");
}

#[test]
fn every_reason_of_every_node_is_named() {
    let mut nodes = nodes(&["a", "b", "c", "d"]);
    nodes.get_mut(&name("a")).expect("a host").used = Need { memory: 1024 * MIB, cpu_millis: 8_000 };
    nodes.get_mut(&name("b")).expect("a host").liveness = Liveness::Suspect;
    nodes.get_mut(&name("c")).expect("a host").engine = EngineState::Down;
    nodes.get_mut(&name("c")).expect("a host").facts.labels.clear();
    nodes.get_mut(&name("d")).expect("a host").liveness = Liveness::Lost;
    let pod = pod_spec(512 << 20, &["constraint:group==default"], "i");
    assert_eq!(
        place_all(&nodes, &pod, 1),
        [Err("no node fits: a: cpu 0.500 cores short, memory 512 MiB short; b: suspect (no recent report); \
              c: constraint:group==default not met, its engine is down; d: lost"
            .to_owned())]
    );
    assert_eq!(place_all(&BTreeMap::new(), &pod, 1), [Err("no node fits: there is no node".to_owned())]);
}

#[test]
fn a_pin_is_a_condition_and_an_avoided_node_is_the_last_resort() {
    let nodes = nodes(&["a", "b"]);
    let pod = pod_spec(600 << 20, &[], "i");
    let mut placer = Placer::new(on(&nodes, &NoPods), &pod.filters, Need::of(&pod, 8), &BTreeMap::new());
    let (a, b) = (name("a"), name("b"));
    assert_eq!(placer.place(NodePreference { avoid: Some(&a), ..NodePreference::default() }), Ok(b.clone()));
    assert_eq!(placer.place(NodePreference { avoid: Some(&a), ..NodePreference::default() }), Ok(a.clone()));
    let why = placer.place(NodePreference { pin: Some(&b), ..NodePreference::default() }).expect_err("no room");
    assert_eq!(why.reasons.keys().collect::<Vec<_>>(), [&b]);
    placer.release(&b, Need::of(&pod, 8));
    assert_eq!(placer.place(NodePreference { pin: Some(&b), ..NodePreference::default() }), Ok(b));
}

#[test]
fn a_preferred_node_is_taken_unless_another_meets_more_soft_expressions() {
    let mut nodes = nodes(&["a", "b", "c"]);
    nodes.get_mut(&name("b")).expect("a host").facts.labels.clear();
    let first = |filters: &[&str], prefer: &str, siblings: &[(&str, u32)]| {
        let pod = pod_spec(600 << 20, filters, "i");
        let siblings = siblings.iter().map(|(node, count)| (name(node), *count)).collect();
        let mut placer = Placer::new(on(&nodes, &NoPods), &pod.filters, Need::of(&pod, 8), &siblings);
        let prefer = name(prefer);
        let preference = NodePreference { prefer: Some(&prefer), ..NodePreference::default() };
        [placer.place(preference).expect("room").to_string(), placer.place(preference).expect("room").to_string()]
            .concat()
    };
    assert_eq!(first(&[], "c", &[("c", 5)]), "ca", "even with siblings there, but not without room");
    assert_eq!(first(&["constraint:group==~default"], "b", &[]), "ac", "others meet the preference");
    assert_eq!(first(&["constraint:group==~x"], "b", &[]), "ba", "no node meets the soft expression");
    assert_eq!(first(&["constraint:group==default"], "b", &[]), "ac", "a condition is a condition");
    assert_eq!(first(&[], "unknown", &[]), "ab");
}

#[test]
fn a_pod_that_is_placed_again_is_no_sibling_of_itself() {
    let nodes = nodes(&["a", "b"]);
    let siblings = BTreeMap::from([(name("a"), 1), (name("b"), 1)]);
    let mut placer = Placer::new(on(&nodes, &NoPods), &[], Need::default(), &siblings);
    placer.uncount(&name("b"));
    assert_eq!(placer.place(NodePreference::default()), Ok(name("b")));
}

prop_compose! {
    fn any_node_candidate()(memory in 0_u64..4_096, cpu in 0_u64..16_000, used in 0_u64..2_048, alive in 0_u8..5, group in any::<bool>())
        -> Candidate
    {
        let mut made = candidate(memory * MIB, cpu);
        made.used = Need { memory: (used * MIB).min(memory * MIB), cpu_millis: used.min(cpu) };
        if alive == 0 { made.liveness = Liveness::Suspect; }
        if alive == 1 { made.engine = EngineState::Hung; }
        if !group { made.facts.labels.clear(); }
        made
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_node_exceeds_its_capacity_and_every_failure_has_a_reason(
        nodes in proptest::collection::vec(any_node_candidate(), 0..8),
        memory in 0_i64..1_024,
        count in 1_usize..40,
        constrained in any::<bool>(),
    ) {
        let nodes: BTreeMap<NodeName, Candidate> =
            nodes.into_iter().enumerate().map(|(index, candidate)| (name(&format!("n{index}")), candidate)).collect();
        let filters: &[&str] = if constrained { &["constraint:group==default"] } else { &[] };
        let pod = pod_spec(memory << 20, filters, "i");
        let need = Need::of(&pod, 8);
        let mut placer = Placer::new(on(&nodes, &NoPods), &pod.filters, need, &BTreeMap::new());
        let mut used: BTreeMap<NodeName, Need> = nodes.iter().map(|(name, candidate)| (name.clone(), candidate.used)).collect();
        for _ in 0..count {
            match placer.place(NodePreference::default()) {
                Ok(node) => {
                    let candidate = &nodes[&node];
                    prop_assert_eq!((candidate.liveness, candidate.engine), (Liveness::Alive, EngineState::Up));
                    prop_assert!(!constrained || candidate.facts.labels.contains_key("group"));
                    let total = used.get_mut(&node).expect("a node of ours");
                    *total = total.plus(need);
                    prop_assert!(total.memory <= candidate.facts.memory && total.cpu_millis <= candidate.facts.cpu_millis);
                }
                Err(why) => {
                    prop_assert_eq!(why.reasons.len(), nodes.len());
                    prop_assert!(why.reasons.values().all(|reasons| !reasons.is_empty()));
                }
            }
        }
    }

    #[test]
    fn the_same_nodes_in_any_order_give_the_same_places(
        nodes in proptest::collection::vec(any_node_candidate(), 0..8).prop_map(|nodes| nodes.into_iter().enumerate().collect::<Vec<_>>()),
        shuffled in Just(()).prop_perturb(|(), mut random| random.next_u64()),
        memory in 0_i64..1_024,
    ) {
        let make = |nodes: &[(usize, Candidate)]| -> BTreeMap<NodeName, Candidate> {
            nodes.iter().map(|(index, candidate)| (name(&format!("n{index}")), candidate.clone())).collect()
        };
        let mut other = nodes.clone();
        other.sort_by_key(|(index, _)| (*index as u64).wrapping_mul(shuffled | 1));
        let pod = pod_spec(memory << 20, &[], "i");
        prop_assert_eq!(place_all(&make(&nodes), &pod, 20), place_all(&make(&other), &pod, 20));
    }

    #[test]
    fn the_ranking_chooses_like_an_examination_of_all_nodes(
        before in proptest::collection::vec(any_node_candidate(), 1..12),
        after in proptest::collection::vec(any_node_candidate(), 12),
        changed in proptest::collection::vec(any::<bool>(), 12),
        siblings in proptest::collection::vec(0_u32..3, 12),
        memory in 0_i64..1_024,
        wishes in proptest::collection::vec((0_usize..14, 0_usize..14), 1..30),
    ) {
        let node = |index: usize| name(&format!("n{index}"));
        let mut nodes: BTreeMap<NodeName, Candidate> =
            before.into_iter().enumerate().map(|(index, candidate)| (node(index), candidate)).collect();
        let pod = pod_spec(memory << 20, &["constraint:group==~default"], "i");
        let need = Need::of(&pod, 8);
        let mut ranking = LoadRanking::default();
        ranking.prepare(&nodes, Need { memory: 1, cpu_millis: 1 });
        ranking.prepare(&nodes, need);
        let known = nodes.len();
        for (index, candidate) in after.into_iter().enumerate().take(known).filter(|(index, _)| changed[*index]) {
            nodes.insert(node(index), candidate);
            ranking.touch(&node(index));
        }
        prop_assert!(ranking.order(need).is_none() || !changed[..known].contains(&true), "a stale order is not used");
        ranking.prepare(&nodes, need);
        let siblings: BTreeMap<NodeName, u32> =
            siblings.into_iter().enumerate().filter(|(_, count)| *count > 0).map(|(i, count)| (node(i), count)).collect();
        let candidates = Candidates { nodes: &nodes, ranking: Some(&ranking), placed_pods: &NoPods };
        let mut placer = Placer::new(candidates, &pod.filters, need, &siblings);
        let mut model = PlacementModel { nodes: nodes.clone(), siblings, need };
        for (avoid, prefer) in wishes {
            let (avoid, prefer) = (node(avoid), node(prefer));
            let preference = NodePreference { pin: None, avoid: Some(&avoid), prefer: Some(&prefer).filter(|_| prefer < avoid) };
            prop_assert_eq!(placer.place(preference).ok(), model.place(preference));
        }
    }
}

/// The rules as written: every node is examined for each instance.
struct PlacementModel {
    nodes: BTreeMap<NodeName, Candidate>,
    siblings: BTreeMap<NodeName, u32>,
    need: Need,
}

impl PlacementModel {
    fn place(&mut self, preference: NodePreference<'_>) -> Option<NodeName> {
        let could = |(_, candidate): &(&NodeName, &Candidate)| {
            candidate.liveness == Liveness::Alive
                && candidate.engine == EngineState::Up
                && candidate.used.memory + self.need.memory <= candidate.facts.memory
                && candidate.used.cpu_millis + self.need.cpu_millis <= candidate.facts.cpu_millis
        };
        let is_wished = |candidate: &Candidate| candidate.facts.labels.contains_key("group");
        let rank = |(name, candidate): (&NodeName, &Candidate)| {
            let share = |part: u64, whole: u64| u128::from(part) * 1_000_000 / u128::from(whole.max(1));
            let share = share(candidate.used.memory + self.need.memory, candidate.facts.memory)
                .max(share(candidate.used.cpu_millis + self.need.cpu_millis, candidate.facts.cpu_millis));
            (
                Some(name) == preference.avoid,
                !is_wished(candidate),
                self.siblings.get(name).copied().unwrap_or(0),
                share,
                name.clone(),
            )
        };
        let can: Vec<(&NodeName, &Candidate)> = self.nodes.iter().filter(could).collect();
        let preferred_node = can.iter().find(|(name, candidate)| {
            Some(*name) == preference.prefer
                && (is_wished(candidate) || !can.iter().any(|(_, candidate)| is_wished(candidate)))
        });
        let best = || can.iter().map(|one| rank(*one)).min().map(|(.., name)| name);
        let chosen = preferred_node.map(|(name, _)| (*name).clone()).or_else(best)?;
        let candidate = self.nodes.get_mut(&chosen)?;
        candidate.used = candidate.used.plus(self.need);
        *self.siblings.entry(chosen.clone()).or_default() += 1;
        Some(chosen)
    }
}
