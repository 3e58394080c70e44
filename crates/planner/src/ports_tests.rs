//! Claims on stream ports: one owner, first come, all or nothing, independent of the order of the records.

use proptest::prelude::*;

use super::*;

fn group(number: usize) -> GroupName {
    format!("g{number}").parse().expect("a name")
}
fn claim(since: i64, ports: &[u16], waits: bool) -> GroupClaim {
    let port = |srcport: &u16| StreamPort { srcport: *srcport, dstport: 80, proto: "tcp".to_owned() };
    GroupClaim { since: Timestamp::from_millis(since), ports: ports.iter().map(port).collect(), waits }
}
/// The group claims its ports at `since` and waits if one is taken.
fn arrive(claims: &mut PortClaims, number: usize, since: i64, ports: &[u16]) -> Vec<u16> {
    let wanted = claim(since, ports, false);
    let taken = claims.taken(&group(number), &wanted.ports);
    claims.set(&group(number), GroupClaim { waits: !taken.is_empty(), ..wanted });
    taken
}
/// Gives free ports to waiting groups, as a leader does.
fn settle(claims: &mut PortClaims) -> Vec<GroupName> {
    let granted = claims.grants();
    for name in &granted {
        let claim = claims.by_group[name].clone();
        claims.set(name, GroupClaim { waits: false, ..claim });
    }
    granted
}

#[test]
fn the_first_group_owns_the_port_and_the_second_gets_an_error() {
    let mut claims = PortClaims::default();
    assert_eq!(arrive(&mut claims, 1, 1, &[9001, 9002]), Vec::<u16>::new());
    assert_eq!(arrive(&mut claims, 2, 2, &[9003, 9002, 9001]), [9002, 9001]);
    assert_eq!(claims.owner(9003), None, "no group gets a part");
    assert_eq!(
        sentence("g2", &[9002, 9001]),
        "Cannot start podgroup g2, some ports like [9002 9001] were alerady in used!"
    );
    let owned: Vec<(u16, GroupName)> = claims.owned().map(|(port, name)| (port.srcport, name.clone())).collect();
    assert_eq!(owned, [(9001, group(1)), (9002, group(1))]);
}

#[test]
fn a_freed_port_goes_to_the_group_that_waits_longest() {
    let mut claims = PortClaims::default();
    arrive(&mut claims, 1, 1, &[9001]);
    arrive(&mut claims, 3, 2, &[9001]);
    arrive(&mut claims, 2, 3, &[9001, 9002]);
    assert_eq!(settle(&mut claims), Vec::<GroupName>::new());
    claims.cancel(&group(1));
    assert_eq!(settle(&mut claims), [group(3)]);
    claims.cancel(&group(3));
    assert_eq!(settle(&mut claims), [group(2)]);
    assert_eq!(claims.owner(9002), Some(&group(2)));
    claims.cancel(&group(2));
    assert_eq!(claims, PortClaims::default(), "nothing is left behind");
}

#[test]
fn of_two_old_records_with_one_port_the_older_group_owns_it() {
    let mut claims = PortClaims::default();
    claims.set(&group(2), claim(1, &[9001], false));
    claims.set(&group(1), claim(2, &[9001], false));
    assert_eq!(claims.owner(9001), Some(&group(2)));
    claims.cancel(&group(2));
    assert_eq!(claims.owner(9001), Some(&group(1)));
}

proptest! {
    #[test]
    fn a_port_has_one_owner_that_keeps_it(
        steps in prop::collection::vec((0_usize..5, prop::collection::btree_set(1_u16..6, 0..4)), 1..40)
    ) {
        let mut claims = PortClaims::default();
        for (time, (number, ports)) in (1..).zip(steps) {
            let before: BTreeMap<u16, GroupName> = claims.owned().map(|(p, n)| (p.srcport, n.clone())).collect();
            let leaves = claims.by_group.contains_key(&group(number));
            if leaves {
                claims.cancel(&group(number));
            } else {
                arrive(&mut claims, number, time, &ports.into_iter().collect::<Vec<_>>());
            }
            settle(&mut claims);
            prop_assert!(claims.holders.values().all(|holders| holders.len() == 1));
            for (port, name) in before {
                prop_assert!((leaves && name == group(number)) || claims.owner(port) == Some(&name), "{port} changed hands");
            }
            for (name, claim) in &claims.by_group {
                let has = claim.ports.iter().filter(|port| claims.owner(port.srcport) == Some(name)).count();
                prop_assert_eq!(has, if claim.waits { 0 } else { claim.ports.len() }, "all or nothing");
                let blocked = !claim.waits || !claims.taken(name, &claim.ports).is_empty();
                prop_assert!(blocked, "{} waits for nothing", name);
            }
            // A new leader reads the records in another order and finds the same owners.
            let mut again = PortClaims::default();
            for (name, claim) in claims.by_group.iter().rev() {
                again.set(name, claim.clone());
            }
            prop_assert_eq!(&again, &claims);
        }
    }
}
