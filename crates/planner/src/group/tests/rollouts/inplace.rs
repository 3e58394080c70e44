//! Updates in place: limits live, images with the same address.

use super::super::super::update_method::{UpdateMethod, update_method};
use super::*;

fn in_place(policy: UpdatePolicy) -> TestCluster {
    let mut cluster = cluster(3, &["a", "b"], rolling(1, 0));
    cluster.world.record.spec.update_policy = policy;
    cluster
}

fn ids(cluster: &TestCluster) -> Vec<(NodeName, ContainerId)> {
    cluster.containers.keys().cloned().collect()
}

#[test]
fn limits_change_live_and_no_container_is_touched() {
    let mut cluster = in_place(UpdatePolicy::InPlaceIfPossible);
    let before = cluster.containers.clone();
    cluster.patch(|pod| pod.containers[0].memory_limit = 80 << 20).run(30);
    assert_eq!((cluster.versions(), cluster.status(), cluster.most), (all(1, 3), RolloutStatus::Complete, 3));
    let made: Vec<Option<u32>> = cluster.world.instances.iter().map(|instance| instance.created_from).collect();
    assert_eq!((made, ids(&cluster)), (vec![Some(0); 3], before.keys().cloned().collect::<Vec<_>>()));
    assert_eq!((cluster.fewest, cluster.world.record.proven), (3, Some(1)));
    cluster.patch(|pod| pod.containers[0].memory_limit = 96 << 20).run(30);
    assert_eq!(
        (cluster.versions(), cluster.world.instances[0].created_from),
        (all(2, 3), Some(0)),
        "called as it was made"
    );
}

#[test]
fn a_new_image_keeps_the_address() {
    let mut cluster = in_place(UpdatePolicy::InPlaceOnly);
    let addresses = |cluster: &TestCluster| -> BTreeSet<(NodeName, u32, String)> {
        cluster.containers.iter().map(|((node, id), it)| (node.clone(), id.instance, it.ip.clone())).collect()
    };
    let before = addresses(&cluster);
    cluster.patch(|pod| pod.containers[0].image = "j".to_owned()).run(60);
    assert_eq!((cluster.versions(), cluster.status()), (all(1, 3), RolloutStatus::Complete));
    assert_eq!((addresses(&cluster), cluster.fewest, cluster.most), (before, 2, 3), "one at a time, and no second pod");
    let ids: Vec<u32> = cluster.containers.keys().map(|(_, id)| id.version).collect();
    assert_eq!(ids, [1; 3]);
}

#[test]
fn a_pod_that_cannot_be_created_does_not_move_while_the_old_container_exists() {
    let mut cluster = in_place(UpdatePolicy::InPlaceOnly);
    // It is renewed without its image: the agent of its node cannot pull ahead.
    cluster.world.nodes.values_mut().for_each(|candidate| candidate.facts.fetches_ahead = false);
    cluster.patch(|pod| pod.containers[0].image = "nowhere".to_owned()).run(1);
    let mut world = cluster.world;
    let index = world.instances.iter().position(|instance| instance.version == 1).expect("one is renewed");
    let where_and_what =
        |instance: &Instance| (instance.node.clone(), instance.drift, instance.reserved_addresses.clone());
    let before = where_and_what(&world.instances[index]);
    world.leaving[index] = 1;
    for later in [0, 60, 600] {
        world.observed[index] = reported(RunState::Error);
        let plan = world.plan(cluster.now + later);
        assert_eq!((where_and_what(&plan.instances[index]), plan.instances[index].why.as_str()), (before.clone(), "E"));
        world.take(&plan);
    }
}

#[test]
fn a_recreated_pod_is_named_after_its_live_version() {
    let mut cluster = in_place(UpdatePolicy::InPlaceIfPossible);
    cluster.patch(|pod| pod.containers[0].memory_limit = 80 << 20).run(30);
    cluster.world.candidate("a").liveness = Liveness::Lost;
    cluster.replan().run(10);
    let instance = &cluster.world.instances[0];
    assert_eq!((instance.version, instance.created_from, instance.drift, cluster.serving()), (1, None, 1, 3));
}

#[test]
fn other_changes_recreate_the_pod_or_are_refused() {
    let mut cluster = in_place(UpdatePolicy::InPlaceIfPossible);
    cluster.patch(|pod| pod.containers[0].env = vec!["A=b".to_owned()]).run(60);
    assert_eq!((cluster.versions(), cluster.most), (all(1, 3), 4), "it surged");
    cluster.world.record.spec.update_policy = UpdatePolicy::InPlaceOnly;
    cluster.world.record.spec.strategy = Some(rolling(0, 1));
    cluster.patch(|pod| pod.containers[0].env.clear()).run(20);
    assert_eq!(cluster.versions(), all(1, 3));
    let stuck =
        cluster.world.instances.iter().find(|instance| !instance.why.is_empty()).expect("an instance shows the reason");
    assert!(stuck.why.ends_with("InPlaceOnly does not allow a change of Pod.Containers[0].Env"), "{}", stuck.why);
}

#[test]
fn limits_that_do_not_fit_on_the_node_move_the_instance_where_that_is_allowed() {
    for (policy, versions) in [(UpdatePolicy::InPlaceIfPossible, all(1, 1)), (UpdatePolicy::InPlaceOnly, all(0, 1))] {
        let mut cluster = cluster(1, &["a", "b"], rolling(0, 1));
        cluster.world.record.spec.update_policy = policy;
        cluster.world.candidate("a").facts.memory = 100 * MIB;
        cluster.patch(|pod| pod.containers[0].memory_limit = 128 << 20).run(40);
        assert_eq!((cluster.versions(), cluster.serving()), (versions, 1), "{policy:?}");
    }
}

#[test]
fn a_live_update_does_not_wait_for_a_superseded_one() {
    let mut cluster = in_place(UpdatePolicy::InPlaceIfPossible);
    let before = ids(&cluster);
    cluster.patch(|pod| pod.containers[0].cpu_limit = 2).run(2);
    cluster.patch(|pod| pod.containers[0].cpu_limit = 3).run(40);
    assert_eq!((cluster.versions(), ids(&cluster), cluster.fewest), (all(2, 3), before, 3));
}

#[test]
fn the_difference_of_two_specs_decides_the_update_method() {
    let pod = world(1, &[]).record.spec.pod;
    let method = |change: fn(&mut PodSpec)| {
        let mut after = PodSpec { version: 9, ..pod.clone() };
        change(&mut after);
        update_method(UpdatePolicy::InPlaceOnly, &pod, &after)
    };
    assert_eq!(method(|pod| pod.containers[0].memory_limit += 1), UpdateMethod::Live);
    assert_eq!(method(|pod| pod.containers[0].cpu_limit += 1), UpdateMethod::Live);
    assert_eq!(method(|_| ()), UpdateMethod::SameAddress, "it is deployed again");
    assert_eq!(method(|pod| pod.containers[0].image.push('2')), UpdateMethod::SameAddress);
    assert_eq!(method(|pod| pod.annotation.push('2')), UpdateMethod::SameAddress);
    let refused =
        |fields: &[&str]| UpdateMethod::Refused { fields: fields.iter().map(|it| (*it).to_owned()).collect() };
    assert_eq!(method(|pod| pod.containers[0].memory_limit = 0), refused(&["Pod.Containers[0].MemoryLimit"]));
    assert_eq!(method(|pod| pod.containers.clear()), refused(&["Pod.Containers"]));
    assert_eq!(
        method(|pod| {
            pod.stateful = true;
            pod.containers[0].image.push('2');
            pod.containers[0].command.push("x".to_owned());
        }),
        refused(&["Pod.Stateful", "Pod.Containers[0].Command"])
    );
}

#[test]
fn a_live_update_ends_a_drain() {
    let mut cluster = in_place(UpdatePolicy::InPlaceIfPossible);
    cluster.world.record.spec.drain = Some(Drain { grace_seconds: 100, ..Drain::default() });
    cluster.patch(|pod| pod.containers[0].image = "j".to_owned()).run(3);
    assert_eq!(cluster.serving(), 2);
    cluster.patch(|pod| {
        pod.containers[0].image = "i".to_owned();
        pod.containers[0].cpu_limit = 3;
    });
    cluster.run(30);
    assert_eq!((cluster.versions(), cluster.serving(), cluster.containers.len()), (all(2, 3), 3, 3));
    assert!(
        cluster.world.instances.iter().all(|instance| instance.draining.is_none() && instance.created_from == Some(0))
    );
}
