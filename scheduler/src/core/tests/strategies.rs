//! How a group is changed can be changed: field by field, without another version, and not in the middle.

use contract::command::{Operation, Refusal};
use contract::rollout::{Amount, StrategyType};
use serde_json::{Value, json};

use super::releases::{conducted, create_spec, rolling};
use super::upgrades::{image, patch};
use super::*;

fn strategy(fields: Value) -> Verb {
    let Value::Object(fields) = fields else { panic!("not an object") };
    Verb::PatchStrategy { name: group("web"), fields }
}
fn web() -> Rig {
    let mut rig = rig(&["a", "b"]);
    rig.command("c1", create_spec(conducted("web", 2, rolling(1, 0))));
    assert!(rig.completes("web", 30));
    rig
}

#[test]
fn fields_are_merged_by_name_in_any_case_and_the_version_stays() {
    let mut rig = web();
    let told = rig.refusal("c0", strategy(json!({"Strategy": {"type": "Beta", "BatchSize": "50%"}})));
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("Strategy.MaxSurge: only")), "{told:?}");
    let unsaid = json!({"type": "Beta", "BatchSize": "50%", "maxSurge": null, "MaxUnavailable": null});
    assert_eq!(rig.command("c2", strategy(json!({"minreadyseconds": 5, "Strategy": unsaid}))), "Accepted");
    let spec = rig.record("web").spec;
    let told = spec.strategy.clone().expect("a strategy");
    assert_eq!((told.kind, told.batch_size, told.max_surge), (StrategyType::Beta, Some(Amount::Percent(50)), None));
    assert_eq!((spec.min_ready_seconds, spec.version), (Some(5), 0));
    assert_eq!(rig.command("c2b", strategy(json!({"Strategy": {"BatchSize": 1}}))), "Accepted");
    let told = rig.record("web").spec.strategy.expect("a strategy");
    assert_eq!((told.kind, told.batch_size), (StrategyType::Beta, Some(Amount::Count(1))), "the rest of it stays");
    assert_eq!(rig.command("c3", strategy(json!({"MinReadySeconds": null}))), "Accepted");
    assert_eq!(rig.record("web").spec.min_ready_seconds, None);
    let before = rig.record("web");
    rig.now += 1_000;
    assert_eq!(rig.command("c4", strategy(json!({"MinReadySeconds": null}))), "Accepted");
    assert_eq!(rig.record("web"), before, "nothing changes");
}

#[test]
fn what_is_no_such_field_or_makes_no_sense_is_refused() {
    let mut rig = web();
    for field in ["NumInstances", "Pod", "Name", "Stratagem"] {
        let told = rig.refusal(&format!("c-{field}"), strategy(json!({ field: 1 })));
        assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains(field)), "{told:?}");
    }
    let both = json!({"Strategy": {"Type": "RollingUpdate", "MaxSurge": 0, "MaxUnavailable": 0}});
    let told = rig.refusal("c3", strategy(both));
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("Strategy.Max")), "{told:?}");
    let told = rig.refusal("c4", strategy(json!({"MinReadySeconds": "long"})));
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("MinReadySeconds")), "{told:?}");
}

#[test]
fn serial_and_conducted_change_places_only_while_nothing_is_under_way() {
    let mut rig = web();
    rig.cut.extend([node("a"), node("b")]);
    rig.command("c2", patch("web", image("web", "v1")));
    let serial = json!({"Strategy": null, "MinReadySeconds": null});
    let told = rig.refusal("c3", strategy(serial.clone()));
    assert!(matches!(&told, Refusal::Unfit { reason } if reason.contains("still being released")), "{told:?}");
    rig.cut.clear();
    assert!(rig.completes("web", 60));
    assert_eq!(rig.command("c4", strategy(serial)), "Accepted");
    assert!(!rig.store.contains_key(&keys::release(&group("web"))));
    rig.command("c5", patch("web", image("web", "v2")));
    assert_eq!(rig.record("web").operation.map(|operation| operation.kind), Some(Operation::Upgrading));
    let again = json!({"Strategy": {"Type": "RollingUpdate"}, "MinReadySeconds": 0});
    assert!(matches!(rig.refusal("c6", strategy(again.clone())), Refusal::Unfit { .. }));
    rig.pass(300);
    assert_eq!(rig.command("c7", strategy(again)), "Accepted");
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    rig.command("c8", patch("web", image("web", "v3")));
    assert_eq!(rig.record("web").operation, None);
    assert!(rig.completes("web", 60));
}
