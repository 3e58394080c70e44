//! Validation of rollout fields: every rule with the field it names, valid next to invalid values.

use std::collections::BTreeMap;

use contract::rollout::{
    Amount, AutoReschedule, Drain, FailureAction, PodReplacement, Spread, Strategy, StrategyType, Topology, UnitType,
    UpdatePolicy,
};
use contract::spec::PodGroupSpec;
use contract::validate::{LONGEST_WAIT, MOST_CONDUCTED, MOST_GATES, MOST_UNITS};
use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use crate::{rollout_samples, samples};

fn flaws(spec: &PodGroupSpec) -> Vec<String> {
    spec.validate().err().unwrap_or_default().iter().map(ToString::to_string).collect()
}
fn fields(spec: &PodGroupSpec) -> Vec<String> {
    spec.validate().err().unwrap_or_default().into_iter().map(|flaw| flaw.field).collect()
}
fn of(kind: StrategyType, change: impl FnOnce(&mut Strategy)) -> PodGroupSpec {
    let mut strategy = Strategy { kind, ..Strategy::default() };
    change(&mut strategy);
    PodGroupSpec { strategy: Some(strategy), ..samples::spec() }
}
fn rolling(surge: Option<Amount>, unavailable: Option<Amount>) -> PodGroupSpec {
    of(StrategyType::RollingUpdate, |strategy| (strategy.max_surge, strategy.max_unavailable) = (surge, unavailable))
}
fn with(change: impl FnOnce(&mut PodGroupSpec)) -> PodGroupSpec {
    let mut spec = rolling(None, None);
    change(&mut spec);
    spec
}
fn zones(change: impl FnOnce(&mut Topology)) -> PodGroupSpec {
    let values = vec!["a".to_owned(), "b".to_owned()];
    let mut topology = Topology { unit_type: UnitType::Zone, values, ..Topology::default() };
    change(&mut topology);
    with(|spec| spec.topology = Some(topology))
}

const COUNT: fn(i64) -> Option<Amount> = |count| Some(Amount::Count(count));
const PERCENT: fn(i64) -> Option<Amount> = |percent| Some(Amount::Percent(percent));
const ALL: [StrategyType; 5] = [
    StrategyType::Serial,
    StrategyType::RollingUpdate,
    StrategyType::Recreate,
    StrategyType::Batch,
    StrategyType::Beta,
];

#[test]
fn a_spec_with_all_fields_and_each_strategy_alone_are_valid() {
    assert_eq!(flaws(&rollout_samples::spec()), [""; 0]);
    assert_eq!(flaws(&rollout_samples::rolling_spec()), [""; 0]);
    for kind in ALL {
        assert_eq!(flaws(&of(kind, |_| {})), [""; 0], "{kind:?}");
    }
}

#[test]
fn budgets_that_allow_no_progress_are_refused_and_others_are_not() {
    for (surge, unavailable) in [
        (None, None),
        (PERCENT(25), PERCENT(25)),
        (PERCENT(200), PERCENT(10)),
        (COUNT(0), PERCENT(100)),
        (COUNT(1), COUNT(0)),
        (COUNT(0), None),
        (None, COUNT(0)),
        (PERCENT(0), PERCENT(1)),
    ] {
        assert_eq!(flaws(&rolling(surge, unavailable)), [""; 0], "{surge:?} {unavailable:?}");
    }
    for zero in [COUNT(0), PERCENT(0)] {
        let told = flaws(&rolling(zero, COUNT(0)));
        assert_eq!(
            told,
            [
                "Strategy.MaxUnavailable: must not be 0 where MaxSurge is 0: no instance could ever be replaced; allow at \
              least 1"
            ]
        );
        assert_eq!(fields(&rolling(zero, PERCENT(0))), ["Strategy.MaxUnavailable"]);
    }
    assert_eq!(
        flaws(&rolling(COUNT(-1), PERCENT(101))),
        [
            "Strategy.MaxSurge: must be 0..5000 or 0%..5000%, is -1",
            "Strategy.MaxUnavailable: must be 0..5000 or 0%..100%, is 101%"
        ]
    );
}

#[test]
fn a_stateful_pod_allows_no_surge() {
    let stateful = |surge, unavailable| {
        let mut spec = rolling(surge, unavailable);
        spec.pod.stateful = true;
        flaws(&spec)
    };
    assert_eq!(stateful(None, None), [""; 0]);
    assert_eq!(stateful(COUNT(0), COUNT(1)), [""; 0]);
    let shared = "Strategy.MaxSurge: must be 0 or left out: the pod keeps data on its node, which two pods of an instance \
                  cannot share";
    assert_eq!(stateful(COUNT(1), None), [shared]);
    assert_eq!(stateful(PERCENT(25), COUNT(0)), [shared]);
    assert_eq!(
        stateful(None, COUNT(0)),
        [
            "Strategy.MaxUnavailable: must not be 0 where a pod that keeps data on its node has no surge: no instance could \
          ever be replaced; allow at least 1"
        ]
    );
}

#[test]
fn the_progress_deadline_must_exceed_min_ready_seconds() {
    let times = |min_ready, deadline| {
        flaws(&with(|s| (s.min_ready_seconds, s.progress_deadline_seconds) = (min_ready, deadline)))
    };
    assert_eq!(times(Some(599), Some(600)), [""; 0]);
    assert_eq!(times(Some(30), None), [""; 0]);
    assert_eq!(times(None, Some(1)), [""; 0]);
    let told = "ProgressDeadlineSeconds: must be more than MinReadySeconds, which is 600, is 600";
    assert_eq!(times(Some(600), Some(600)), [told.to_owned()]);
    assert_eq!(times(Some(600), None), [format!("{told} by default")]);
}

#[test]
fn a_field_that_the_strategy_ignores_is_refused() {
    const BUDGETS: &[StrategyType] = &[StrategyType::RollingUpdate];
    const GROUPS: &[StrategyType] = &[StrategyType::Batch, StrategyType::Beta];
    type Said = (&'static str, &'static [StrategyType], fn(&mut Strategy));
    let said: [Said; 5] = [
        ("Strategy.MaxSurge", BUDGETS, |s| s.max_surge = COUNT(1)),
        ("Strategy.MaxUnavailable", BUDGETS, |s| s.max_unavailable = COUNT(1)),
        ("Strategy.BatchSize", GROUPS, |s| s.batch_size = COUNT(1)),
        ("Strategy.NeedWaitingForConfirm", GROUPS, |s| s.need_waiting_for_confirm = true),
        ("Strategy.Window", GROUPS, |s| s.window = Some(1)),
    ];
    for (field, looked_at, say) in said {
        for kind in ALL {
            let expected: &[&str] = if looked_at.contains(&kind) { &[] } else { &[field] };
            assert_eq!(fields(&of(kind, say)), expected, "{kind:?}");
        }
    }
    assert_eq!(
        flaws(&of(StrategyType::Recreate, |s| s.batch_size = COUNT(1))),
        ["Strategy.BatchSize: only has a meaning with Strategy.Type Batch or Beta, which is Recreate; leave it out"]
    );
    for kind in ALL {
        let is_serial = kind == StrategyType::Serial;
        let expected: &[&str] = if is_serial { &[] } else { &["Strategy.UpgradePause"] };
        assert_eq!(fields(&of(kind, |s| s.upgrade_pause = 10)), expected, "{kind:?}");
    }
    assert_eq!(fields(&of(StrategyType::Serial, |s| s.upgrade_pause = 601)), ["Strategy.UpgradePause"]);
}

#[test]
fn rollout_fields_need_a_strategy() {
    type Said = (&'static str, fn(&mut PodGroupSpec));
    let said: [Said; 11] = [
        ("Topology", |s| {
            let values = vec!["a".to_owned()];
            s.topology = Some(Topology { unit_type: UnitType::Cell, values, ..Topology::default() });
        }),
        ("MinReadySeconds", |s| s.min_ready_seconds = Some(5)),
        ("ProgressDeadlineSeconds", |s| s.progress_deadline_seconds = Some(60)),
        ("Paused", |s| s.paused = true),
        ("PodReplacement", |s| s.pod_replacement = Some(PodReplacement::Started)),
        ("UpdatePolicy", |s| s.update_policy = UpdatePolicy::InPlaceOnly),
        ("FailureAction", |s| s.failure_action = Some(FailureAction::Continue)),
        ("FailureThreshold", |s| s.failure_threshold = COUNT(1)),
        ("FailFastRestarts", |s| s.fail_fast_restarts = Some(1)),
        ("ReadinessGates", |s| s.readiness_gates = vec!["lb".to_owned()]),
        ("Drain", |s| s.drain = Some(Drain { grace_seconds: 5, ..Drain::default() })),
    ];
    for (field, say) in said {
        assert_eq!(fields(&with(say)), [""; 0], "{field}");
        for strategy in [None, Some(Strategy::default())] {
            let mut spec = PodGroupSpec { strategy, ..samples::spec() };
            say(&mut spec);
            assert_eq!(
                flaws(&spec),
                [format!(
                    "{field}: needs a Strategy.Type other than Serial, for example RollingUpdate; the serial upgrade \
                     ignores it"
                )]
            );
        }
    }
    let kept = PodGroupSpec { revision_history_limit: Some(3), ..samples::spec() };
    assert_eq!(flaws(&kept), [""; 0], "every group has revisions");
}

#[test]
fn pod_replacement_started_needs_rolling_update_and_recreate_allows_no_update_in_place() {
    let replaced = |kind, replacement| fields(&PodGroupSpec { pod_replacement: Some(replacement), ..of(kind, |_| {}) });
    let updated = |kind, update_policy| fields(&PodGroupSpec { update_policy, ..of(kind, |_| {}) });
    for kind in [StrategyType::Recreate, StrategyType::Batch, StrategyType::Beta] {
        assert_eq!(replaced(kind, PodReplacement::Started), ["PodReplacement"], "{kind:?}");
        assert_eq!(replaced(kind, PodReplacement::Complete), [""; 0], "{kind:?}");
    }
    for policy in [UpdatePolicy::InPlaceIfPossible, UpdatePolicy::InPlaceOnly] {
        assert_eq!(updated(StrategyType::Recreate, policy), ["UpdatePolicy"]);
        assert_eq!(updated(StrategyType::Batch, policy), [""; 0]);
    }
}

#[test]
fn units_are_unique_and_quotas_name_known_units() {
    assert_eq!(flaws(&zones(|_| {})), [""; 0]);
    assert_eq!(flaws(&zones(|t| t.unit_replicas = BTreeMap::from([("b".to_owned(), Amount::Count(0))]))), [""; 0]);
    assert_eq!(
        flaws(&zones(|t| t.values.clear())),
        ["Topology.Values: must name at least one unit: the values of the node label"]
    );
    assert_eq!(flaws(&zones(|t| "a".clone_into(&mut t.values[1]))), ["Topology.Values[1]: names \"a\" a second time"]);
    for wrong in ["", "a*", "~a", "/a/", "a b"] {
        assert_eq!(fields(&zones(|t| wrong.clone_into(&mut t.values[1]))), ["Topology.Values[1]"], "{wrong:?}");
    }
    for wrong in ["1zone", "zone==", "a b", &"x".repeat(200)] {
        assert_eq!(fields(&zones(|t| wrong.clone_into(&mut t.unit_label))), ["Topology.UnitLabel"], "{wrong:?}");
    }
    assert_eq!(flaws(&zones(|t| "failure-domain.example/zone".clone_into(&mut t.unit_label))), [""; 0]);
    let quota = |unit: &str, amount| flaws(&zones(|t| t.unit_replicas = BTreeMap::from([(unit.to_owned(), amount)])));
    assert_eq!(
        quota("c", Amount::Count(1)),
        ["Topology.UnitReplicas.c: is not one of Values; name the unit there too, or leave it out here"]
    );
    assert_eq!(quota("a", Amount::Count(-1)), ["Topology.UnitReplicas.a: must be 0..5000 or 0%..100%, is -1"]);
    assert_eq!(quota("a", Amount::Percent(101)), ["Topology.UnitReplicas.a: must be 0..5000 or 0%..100%, is 101%"]);
    let many = |count: usize| zones(|t| t.values = (0..count).map(|unit| format!("u{unit}")).collect());
    assert_eq!(flaws(&many(MOST_UNITS)), [""; 0]);
    assert_eq!(flaws(&many(MOST_UNITS + 1)), ["Topology.Values: 65 are too many, at most 64"]);
}

#[test]
fn unit_fields_need_a_unit_type() {
    assert_eq!(flaws(&zones(|t| *t = Topology::default())), [""; 0]);
    let spec = zones(|t| {
        t.unit_type = UnitType::None;
        t.unit_replicas.insert("a".to_owned(), Amount::Count(1));
        t.auto_reschedule = Some(AutoReschedule::default());
    });
    assert_eq!(fields(&spec), ["Topology.Values", "Topology.UnitReplicas", "Topology.AutoReschedule"]);
    assert_eq!(fields(&zones(|t| t.spread = Spread::Sequential)), ["Topology.Spread"], "budgets are not spread");
}

#[test]
fn numbers_outside_their_range_are_refused_with_the_range() {
    let beyond = LONGEST_WAIT + 1;
    let cases: Vec<(&str, PodGroupSpec)> = vec![
        ("MinReadySeconds: must be 0..604800, is -1", with(|s| s.min_ready_seconds = Some(-1))),
        ("ProgressDeadlineSeconds: must be 1..604800, is 604801", with(|s| s.progress_deadline_seconds = Some(beyond))),
        ("RevisionHistoryLimit: must be 0..100, is 101", with(|s| s.revision_history_limit = Some(101))),
        ("RevisionHistoryLimit: must be 0..100, is -1", with(|s| s.revision_history_limit = Some(-1))),
        ("FailFastRestarts: must be 1..100, is 0", with(|s| s.fail_fast_restarts = Some(0))),
        ("FailureThreshold: must be 0..5000 or 0%..100%, is 101%", with(|s| s.failure_threshold = PERCENT(101))),
        ("FailureThreshold: must be 0..5000 or 0%..100%, is -1", with(|s| s.failure_threshold = COUNT(-1))),
        ("Strategy.BatchSize: must be 1..5000 or 1%..100%, is 0", of(StrategyType::Batch, |s| s.batch_size = COUNT(0))),
        (
            "Strategy.BatchSize: must be 1..5000 or 1%..100%, is 0%",
            of(StrategyType::Beta, |s| s.batch_size = PERCENT(0)),
        ),
        ("Strategy.Window: must be 1..5000, is 0", of(StrategyType::Beta, |s| s.window = Some(0))),
        (
            "Topology.AutoReschedule.InitialDelaySeconds: must be 0..604800, is -1",
            zones(|t| {
                t.auto_reschedule =
                    Some(AutoReschedule { enable: true, initial_delay_seconds: -1, ..Default::default() })
            }),
        ),
    ];
    for (told, spec) in cases {
        assert_eq!(flaws(&spec), [told]);
    }
}

#[test]
fn gates_are_unique_and_drain_times_are_limited() {
    let gates = |gates: &[&str]| fields(&with(|s| s.readiness_gates = gates.iter().map(|g| (*g).to_owned()).collect()));
    assert_eq!(gates(&["lb/in-rotation", "_warm", "a.b-c"]), [""; 0]);
    assert_eq!(gates(&["lb", "", "lb", "a b"]), ["ReadinessGates[1]", "ReadinessGates[2]", "ReadinessGates[3]"]);
    let many = with(|s| s.readiness_gates = (0..=MOST_GATES).map(|gate| format!("g{gate}")).collect());
    assert_eq!(flaws(&many), ["ReadinessGates: 17 are too many, at most 16"]);
    let drain = |grace_seconds, needs_answer, timeout_seconds| {
        fields(&with(|s| s.drain = Some(Drain { grace_seconds, needs_answer, timeout_seconds })))
    };
    assert_eq!(drain(0, false, None), [""; 0]);
    assert_eq!(drain(10, true, Some(1)), [""; 0]);
    assert_eq!(drain(-1, true, Some(0)), ["Drain.GraceSeconds", "Drain.TimeoutSeconds"]);
    assert_eq!(drain(LONGEST_WAIT + 1, false, None), ["Drain.GraceSeconds"]);
    assert_eq!(drain(0, false, Some(60)), ["Drain.TimeoutSeconds"], "there is no answer to wait for");
}

#[test]
fn a_group_with_a_strategy_has_at_most_a_thousand_instances() {
    let sized = |num_instances| flaws(&with(|s| s.num_instances = num_instances));
    assert_eq!(sized(MOST_CONDUCTED), [""; 0]);
    assert_eq!(
        sized(MOST_CONDUCTED + 1),
        [
            "NumInstances: must be 0..1000 with Strategy.Type RollingUpdate, because what a decision costs grows with their \
          square, is 1001; Serial takes up to 5000"
        ]
    );
    assert_eq!(sized(5_001), ["NumInstances: must be 0..5000, is 5001"]);
    assert_eq!(flaws(&PodGroupSpec { num_instances: 5_000, ..samples::spec() }), [""; 0]);
}

#[test]
fn all_flaws_are_reported_together() {
    let spec = PodGroupSpec {
        strategy: Some(Strategy {
            max_surge: COUNT(-1),
            batch_size: COUNT(0),
            upgrade_pause: -5,
            ..Strategy::default()
        }),
        min_ready_seconds: Some(700),
        readiness_gates: vec![String::new()],
        ..samples::spec()
    };
    assert_eq!(
        fields(&spec),
        [
            "Strategy.MaxSurge",
            "Strategy.MaxSurge",
            "Strategy.BatchSize",
            "Strategy.BatchSize",
            "Strategy.UpgradePause",
            "MinReadySeconds",
            "ReadinessGates",
            "ProgressDeadlineSeconds",
            "ReadinessGates[0]"
        ]
    );
}

fn amounts() -> impl proptest::strategy::Strategy<Value = Option<Amount>> {
    prop::option::of(prop_oneof![
        prop_oneof![-2..6i64, any::<i64>()].prop_map(Amount::Count),
        prop_oneof![0..120i64, 0..=i64::MAX].prop_map(Amount::Percent),
    ])
}

proptest! {
    #[test]
    fn an_accepted_rolling_update_can_always_take_a_step(
        surge in amounts(), unavailable in amounts(), stateful: bool, replicas in 1..=1000i64,
    ) {
        let mut spec = PodGroupSpec { num_instances: replicas, ..rolling(surge, unavailable) };
        spec.pod.stateful = stateful;
        if spec.validate().is_ok() {
            let no_surge = if stateful { Amount::Count(0) } else { Amount::Percent(25) };
            let (surge, unavailable) = (surge.unwrap_or(no_surge), unavailable.unwrap_or(Amount::Percent(25)));
            prop_assert!(!(surge.is_zero() && unavailable.is_zero()));
            prop_assert!(!stateful || surge.rounded_up(replicas) == 0);
            prop_assert!(surge.rounded_up(replicas) >= 0 && unavailable.rounded_down(replicas) >= 0);
        }
    }
}
