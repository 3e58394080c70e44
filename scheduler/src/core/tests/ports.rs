//! Stream ports: claimed when a group is created, released when it is removed, kept across a takeover.

use super::*;
use contract::query::PortClaim;

use super::upgrades::{image, patch};

fn annotation(ports: &[u16]) -> String {
    let entries: Vec<String> = ports.iter().map(|port| format!(r#"{{"srcport":{port},"dstport":80}}"#)).collect();
    format!(r#"{{"ports":[{}]}}"#, entries.join(","))
}
/// Creates a group with these source ports.
fn with_ports(name: &str, ports: &[u16]) -> Verb {
    let mut spec = spec(name, 2);
    spec.pod.annotation = annotation(ports);
    Verb::CreateGroup { spec: Box::new(spec) }
}
/// Patches a group to these source ports.
fn to_ports(name: &str, image_name: &str, ports: &[u16]) -> Verb {
    patch(name, PodSpec { annotation: annotation(ports), ..image(name, image_name) })
}
fn claims(rig: &mut Rig) -> Vec<(u16, String)> {
    rig.run(Input::Query { query: Query::Ports, reply: "ports".to_owned() });
    let shown = |claim: &PortClaim| (claim.port.srcport, claim.group.to_string());
    match rig.replies.remove("ports").expect("an answer").answer {
        Answer::Ports(claims) => claims.iter().map(shown).collect(),
        other => panic!("not ports: {other:?}"),
    }
}
fn taken(rig: &Rig, name: &str) -> Vec<u16> {
    rig.record(name).taken_ports
}
fn owned(owner: &str, ports: &[u16]) -> Vec<(u16, String)> {
    ports.iter().map(|port| (*port, owner.to_owned())).collect()
}
/// `web` has the ports 9001 and 9002; `api` waits for 9002.
fn conflict() -> Rig {
    let mut rig = rig(&["a", "b"]);
    assert_eq!(rig.command("c1", with_ports("web", &[9001, 9002])), "Accepted");
    rig.advance(2);
    assert_eq!(rig.command("c2", with_ports("api", &[9003, 9002])), "Accepted");
    rig.advance(2);
    rig
}

#[test]
fn a_group_claims_its_ports_when_it_is_created() {
    let mut rig = rig(&["a"]);
    assert_eq!(claims(&mut rig), []);
    rig.command("c1", with_ports("web", &[9002, 9001]));
    assert_eq!(claims(&mut rig), owned("web", &[9001, 9002]));
    rig.command("c2", create("plain", 1));
    assert_eq!(claims(&mut rig), owned("web", &[9001, 9002]));
}

#[test]
fn a_group_whose_port_is_taken_fails_with_the_reason_and_runs_nothing() {
    let mut rig = conflict();
    let error = "Cannot start podgroup api, some ports like [9002] were alerady in used!";
    for _ in 0..2 {
        let view = rig.group("api").expect("it exists");
        assert_eq!((view.state, view.last_error.as_str(), view.operation), (RunState::Fail, error, None));
        assert!(view.pods.iter().all(|pod| pod.node.is_none()));
        rig.advance(120);
    }
    assert_eq!(claims(&mut rig), owned("web", &[9001, 9002]), "a group gets all its ports or none");
    assert!(!rig.store.contains_key(&keys::placement(&group("api"), 0)));
    assert_eq!(rig.command("c3", replica("api", 5)), "Accepted", "no lock is held");
    rig.advance(2);
    assert_eq!(rig.group("api").map(|view| (view.state, view.pods.len())), Some((RunState::Fail, 5)));
    assert_eq!(rig.command("c4", remove("api")), "Accepted", "and it can be removed");
    rig.advance(2);
    assert_eq!(rig.group("api"), None);
}

#[test]
fn released_ports_go_to_the_group_that_waits_first_and_it_is_deployed() {
    let mut rig = conflict();
    rig.command("c3", with_ports("late", &[9002]));
    rig.command("c4", remove("web"));
    assert_eq!(claims(&mut rig), owned("api", &[9002, 9003]), "api has waited longer than late");
    rig.advance(5);
    let view = rig.group("api").expect("it exists");
    assert_eq!((view.state, view.last_error.as_str(), view.operation), (RunState::Success, "", None));
    assert_eq!(rig.places("api").len(), 2);
    assert_eq!((taken(&rig, "api"), taken(&rig, "late")), (vec![], vec![9002]));
    assert_eq!(rig.group("late").map(|view| view.state), Some(RunState::Fail));
}

#[test]
fn port_owners_stay_the_same_after_a_takeover() {
    let mut rig = conflict();
    rig.clear();
    rig.core = Core::new(Settings::default());
    rig.elect();
    rig.advance(60);
    assert_eq!(rig.written(), BTreeSet::new());
    assert_eq!(claims(&mut rig), owned("web", &[9001, 9002]));
    assert_eq!(rig.group("api").map(|view| view.state), Some(RunState::Fail));
}

#[test]
fn a_new_leader_grants_ports_that_were_released_before_the_takeover() {
    let mut rig = conflict();
    let delivery = rig.delivery("c3", remove("web"));
    // Of the first transaction only the removal of `web` is stored, not the grant to `api`.
    let effects = rig.input(Input::Command(delivery));
    let writes = effects.into_iter().find_map(|effect| match effect {
        Effect::Commit(commit) => Some(commit.writes),
        _ => None,
    });
    for write in writes.expect("a commit") {
        let Write::Put { key, value, .. } = write else { continue };
        if key != keys::group(&group("api")) {
            rig.store.insert(key, value);
        }
    }
    assert_eq!(taken(&rig, "api"), [9002]);
    rig.core = Core::new(Settings::default());
    rig.elect();
    rig.advance(5);
    assert_eq!(rig.group("api").map(|view| view.state), Some(RunState::Success));
    assert_eq!(claims(&mut rig), owned("api", &[9002, 9003]));
}

#[test]
fn a_command_with_malformed_ports_is_refused() {
    let mut rig = rig(&["a"]);
    assert!(rig.command("c1", with_ports("web", &[0])).contains("Pod.Annotation.ports[0].srcport"));
    assert_eq!(rig.group("web"), None);
}

#[test]
fn a_patch_to_the_port_of_another_group_changes_nothing_and_records_the_port() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", with_ports("web", &[9001]));
    rig.command("c2", with_ports("api", &[9002]));
    rig.advance(5);
    let before = rig.record("api");
    assert_eq!(rig.command("c3", to_ports("api", "v1", &[9002, 9001])), "Accepted");
    let last_error = "Cannot start podgroup api, some ports like [9001] were alerady in used!".to_owned();
    let expected = contract::record::GroupRecord { last_error, updated_at: rig.time(), ..before };
    assert_eq!(rig.record("api"), expected);
    assert_eq!(rig.group("api").expect("a group").last_error, expected.last_error);
    assert_eq!(claims(&mut rig), [(9001, "web".to_owned()), (9002, "api".to_owned())]);
}

#[test]
fn during_an_upgrade_a_group_has_the_ports_of_both_specs_and_afterwards_only_the_new_ones() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", with_ports("web", &[9001, 9002]));
    rig.advance(5);
    assert_eq!(rig.command("c2", to_ports("web", "v1", &[9002, 9003])), "Accepted");
    assert_eq!(claims(&mut rig), owned("web", &[9001, 9002, 9003]));
    rig.command("c3", with_ports("api", &[9001]));
    assert_eq!(taken(&rig, "api"), [9001]);
    rig.take_over();
    rig.advance(200);
    assert_eq!(rig.record("web").operation, None);
    assert_eq!(claims(&mut rig), [(9001, "api".to_owned()), (9002, "web".to_owned()), (9003, "web".to_owned())]);
    assert_eq!(rig.group("api").map(|view| view.state), Some(RunState::Success), "the waiting group is deployed");
}

#[test]
fn a_rolled_back_upgrade_keeps_its_old_ports_and_releases_the_new_ones() {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", with_ports("web", &[9001]));
    rig.advance(60);
    for agent in rig.agents.values_mut() {
        agent.states.insert("web.v1-i1-d0".to_owned(), RunState::Exit);
    }
    rig.command("c2", to_ports("web", "v1", &[9002]));
    rig.command("c3", with_ports("api", &[9001]));
    rig.advance(400);
    let record = rig.record("web");
    assert_eq!((record.operation, record.spec.version, record.spec.pod.annotation), (None, 2, annotation(&[9001])));
    assert!(record.last_error.starts_with("Your Last upgrade is terrrible"), "{}", record.last_error);
    assert_eq!(claims(&mut rig), owned("web", &[9001]));
    assert_eq!(taken(&rig, "api"), [9001]);
    rig.command("c4", with_ports("new", &[9002]));
    assert_eq!(taken(&rig, "new"), [0; 0]);
}

#[test]
fn a_patch_replaces_the_claim_of_a_waiting_group() {
    let mut rig = conflict();
    assert_eq!(rig.command("c3", to_ports("api", "v1", &[9001])), "Accepted");
    assert_eq!((taken(&rig, "api"), rig.record("api").spec.version), (vec![9001], 1));
    assert_eq!(rig.group("api").map(|view| view.state), Some(RunState::Fail));
    assert_eq!(rig.command("c4", to_ports("api", "v2", &[9004])), "Accepted");
    rig.advance(5);
    let record = rig.record("api");
    assert_eq!((record.operation, record.spec.version, record.former), (None, 2, BTreeMap::new()));
    let view = rig.group("api").expect("a group");
    assert_eq!((view.state, view.last_error.as_str(), view.pods[0].id.version), (RunState::Success, "", 2));
    assert_eq!(claims(&mut rig), [(9001, "web".to_owned()), (9002, "web".to_owned()), (9004, "api".to_owned())]);
}
