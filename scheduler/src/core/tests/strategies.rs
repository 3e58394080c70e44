//! Patches of the strategy: field by field, without a new revision, and not during a rollout.

use contract::command::{Operation, Refusal};
use contract::rollout::{Amount, StrategyType};
use serde_json::{Value, json};

use super::revisions::web;
use super::upgrades::{image, patch};
use super::*;

fn strategy(fields: Value) -> Verb {
    let Value::Object(fields) = fields else { panic!("not an object") };
    Verb::PatchStrategy { name: group("web"), fields }
}

#[test]
fn strategy_fields_are_merged_by_name_in_any_case_without_a_new_revision() {
    let mut rig = web();
    let refusal = rig.refusal("c0", strategy(json!({"Strategy": {"type": "Beta", "BatchSize": "50%"}})));
    let expected = "Strategy.MaxSurge: only";
    assert!(matches!(&refusal, Refusal::Unfit { reason } if reason.contains(expected)), "{refusal:?}");
    let cleared = json!({"type": "Beta", "BatchSize": "50%", "maxSurge": null, "MaxUnavailable": null});
    assert_eq!(rig.command("c2", strategy(json!({"minreadyseconds": 5, "Strategy": cleared}))), "Accepted");
    let spec = rig.record("web").spec;
    let merged = spec.strategy.clone().expect("a strategy");
    let found = (merged.kind, merged.batch_size, merged.max_surge);
    assert_eq!(found, (StrategyType::Beta, Some(Amount::Percent(50)), None));
    assert_eq!((spec.min_ready_seconds, spec.version), (Some(5), 0));
    assert_eq!(rig.command("c2b", strategy(json!({"Strategy": {"BatchSize": 1}}))), "Accepted");
    let merged = rig.record("web").spec.strategy.expect("a strategy");
    assert_eq!((merged.kind, merged.batch_size), (StrategyType::Beta, Some(Amount::Count(1))));
    assert_eq!(rig.command("c3", strategy(json!({"MinReadySeconds": null}))), "Accepted");
    assert_eq!(rig.record("web").spec.min_ready_seconds, None);
    let before = rig.record("web");
    rig.now += 1_000;
    assert_eq!(rig.command("c4", strategy(json!({"MinReadySeconds": null}))), "Accepted");
    assert_eq!(rig.record("web"), before, "nothing changes");
}

#[test]
fn unknown_fields_and_invalid_values_are_refused() {
    let mut rig = web();
    for field in ["NumInstances", "Pod", "Name", "Stratagem"] {
        let refusal = rig.refusal(&format!("c-{field}"), strategy(json!({ field: 1 })));
        assert!(matches!(&refusal, Refusal::Unfit { reason } if reason.contains(field)), "{refusal:?}");
    }
    let both = json!({"Strategy": {"Type": "RollingUpdate", "MaxSurge": 0, "MaxUnavailable": 0}});
    let refusal = rig.refusal("c3", strategy(both));
    assert!(matches!(&refusal, Refusal::Unfit { reason } if reason.contains("Strategy.Max")), "{refusal:?}");
    let refusal = rig.refusal("c4", strategy(json!({"MinReadySeconds": "long"})));
    assert!(matches!(&refusal, Refusal::Unfit { reason } if reason.contains("MinReadySeconds")), "{refusal:?}");
}

#[test]
fn a_strategy_is_added_or_removed_only_while_no_rollout_runs() {
    let mut rig = web();
    rig.unreachable.extend([node("a"), node("b")]);
    rig.command("c2", patch("web", image("web", "v1")));
    let serial = json!({"Strategy": null, "MinReadySeconds": null});
    let refusal = rig.refusal("c3", strategy(serial.clone()));
    assert!(
        matches!(&refusal, Refusal::Unfit { reason } if reason.contains("is in progress: wait until it ends or abort it")),
        "{refusal:?}"
    );
    rig.unreachable.clear();
    assert!(rig.completes("web", 60));
    assert_eq!(rig.command("c4", strategy(serial)), "Accepted");
    assert!(!rig.store.contains_key(&keys::release(&group("web"))));
    rig.command("c5", patch("web", image("web", "v2")));
    assert_eq!(rig.record("web").operation.map(|operation| operation.kind), Some(Operation::Upgrading));
    let again = json!({"Strategy": {"Type": "RollingUpdate"}, "MinReadySeconds": 0});
    assert!(matches!(rig.refusal("c6", strategy(again.clone())), Refusal::Unfit { .. }));
    rig.advance(300);
    assert_eq!(rig.command("c7", strategy(again)), "Accepted");
    assert!(rig.completes("web", 10), "{:?}", rig.release("web"));
    rig.command("c8", patch("web", image("web", "v3")));
    assert_eq!(rig.record("web").operation, None);
    assert!(rig.completes("web", 60));
}
