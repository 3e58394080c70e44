//! Any valid spec is the same after it was written in the short form and read again.

use std::collections::BTreeMap;

use contract::check::Check;
use contract::rollout::{
    Amount, AutoReschedule, Drain, FailBack, FailureAction, PodReplacement, Spread, Strategy as Rollout, StrategyType,
    Topology, UnitType, UpdatePolicy,
};
use contract::spec::{
    CloudVolume, ContainerSpec, Dependency, HealthConfig, HealthOptions, LogConfig, PodGroupSpec, PodSpec, PrevState,
};
use contract::state::{DependencyPolicy, RestartPolicy};
use contract::time::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use crate::short::to_short_yaml;

/// Texts that YAML reads as something else unless they are quoted, and any other.
fn text() -> impl Strategy<Value = String> {
    let odd = [
        "", "yes", "null", "~", "1.10", "0x10", "1e3", "- a", "a: b", "#c", " x ", "a\nb\n", "\"", "'", "{", "%", "*x",
        "é", "\t",
    ];
    prop_oneof![select(odd.to_vec()).prop_map(str::to_owned), "[ -~\\n]{0,100}"]
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,5}(\\.[a-z0-9]{1,4}){0,2}"
}

fn path() -> impl Strategy<Value = String> {
    "/[a-z]{1,5}(/[a-z]{1,3}){0,2}"
}

/// Mostly the default.
fn seldom<T: Clone + Default + std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = T> {
    option::weighted(0.4, some).prop_map(Option::unwrap_or_default)
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![(1..=4_i64).prop_map(Amount::Count), (1..=100_i64).prop_map(Amount::Percent)]
}

fn container() -> impl Strategy<Value = ContainerSpec> {
    let env = vec(prop_oneof![("[A-Z]{1,2}", text()).prop_map(|(name, value)| format!("{name}={value}"))], 0..5);
    let words = || seldom(vec(text(), 0..3));
    let image = prop_oneof![Just("nginx:1.27".to_owned()), "[a-z0-9]{1,4}"];
    let log = (seldom(text()), seldom(btree_map("[a-z]{1,3}", text(), 0..2)));
    let log = log.prop_map(|(kind, config)| LogConfig { kind, config });
    let shared = (select(vec!["multi", "single"]), vec(path(), 0..2));
    let shared = shared.prop_map(|(kind, dirs)| CloudVolume { kind: kind.to_owned(), dirs });
    let identity =
        (seldom(text()), seldom(text()), seldom(0..9_u32), seldom((0..9_i64).prop_map(Timestamp::from_millis)));
    let limits = (0..=8_i64, seldom(prop_oneof![Just(256_i64 << 20), (6_i64 << 20)..(1 << 40)]), 0..=65_535_i64);
    let first = (image, env, seldom(text()), seldom(text()), words(), words(), option::of(words()), limits);
    let second = (seldom(vec(path(), 0..3)), words(), seldom(vec(shared, 0..3)), log, seldom(identity));
    (first, second).prop_map(|(first, second)| {
        let (image, env, user, working_dir, dns_search, command, entrypoint, (cpu_limit, memory_limit, expose)) = first;
        let (volumes, system_volumes, cloud_volumes, log_config, (name, namespace, version, created_at)) = second;
        ContainerSpec {
            name,
            namespace,
            version,
            created_at,
            updated_at: created_at,
            image,
            env,
            user,
            working_dir,
            dns_search,
            volumes,
            system_volumes,
            cloud_volumes,
            command,
            entrypoint,
            cpu_limit,
            memory_limit,
            expose,
            log_config,
        }
    })
}

fn seldom_check() -> impl Strategy<Value = Option<Check>> {
    let probe = prop_oneof![
        (1..=65_535_i64).prop_map(|port| Check { port, ..Check::default() }),
        (1..=65_535_i64, "/[a-z]{0,5}").prop_map(|(port, http)| Check { http, port, ..Check::default() }),
        vec(text(), 1..3).prop_map(|command| Check { command, ..Check::default() }),
    ];
    let numbers = (seldom(1..=86_400_i64), seldom(1..=3_600_i64), seldom(1..=1_000_i64), seldom(1..=1_000_i64));
    let check = (probe, numbers).prop_map(|(check, (period, timeout, failures, successes))| Check {
        period,
        timeout,
        failures,
        successes,
        ..check
    });
    option::weighted(0.2, check)
}

fn pod() -> impl Strategy<Value = PodSpec> {
    let dependency = (text(), select(vec![DependencyPolicy::Namespace, DependencyPolicy::Node]));
    let dependency = dependency.prop_map(|(pod_name, policy)| Dependency { pod_name, policy });
    let filter = (select(vec!["constraint:", "affinity:", "constraint:affinity:"]), text());
    let filter = filter.prop_map(|(family, rest)| format!("{family}{rest}"));
    let annotation = select(vec!["{}", "", "{\"ports\":[{\"srcport\":9001,\"dstport\":80}]}", " {\"a\": 1}\n"]);
    let options = (seldom(10..=86_400_i64), seldom(3..=3_600_i64), seldom(3..=1_000_i64));
    let options = options.prop_map(|(interval, timeout, retries)| HealthOptions { interval, timeout, retries });
    let checks = (seldom_check(), seldom_check(), seldom_check());
    let health =
        seldom((text(), seldom(options), checks).prop_map(|(cmd, options, (startup, readiness, liveness))| {
            HealthConfig { cmd, options, startup, readiness, liveness }
        }));
    let previous = (text(), vec(text(), 0..2)).prop_map(|(node_name, ips)| PrevState { node_name, ips });
    let lists = (vec(container(), 1..4), seldom(vec(filter, 0..3)), seldom(btree_map("[a-z]{1,3}", text(), 0..3)));
    let rest =
        (seldom(name()), seldom(vec(dependency, 0..3)), annotation, any::<bool>(), 0..=300_i64, seldom(10..=120_i64));
    (lists, rest, health, seldom(previous)).prop_map(|(lists, rest, health_config, prev_state)| {
        let (containers, filters, labels) = lists;
        let (network, dependencies, annotation, stateful, setup_time, kill_timeout) = rest;
        PodSpec {
            network,
            containers,
            filters,
            labels,
            dependencies,
            annotation: annotation.to_owned(),
            stateful,
            setup_time,
            kill_timeout,
            prev_state,
            health_config,
            ..PodSpec::default()
        }
    })
}

fn rollout() -> impl Strategy<Value = Rollout> {
    let kind = select(vec![
        StrategyType::Serial,
        StrategyType::RollingUpdate,
        StrategyType::Recreate,
        StrategyType::Batch,
        StrategyType::Beta,
    ]);
    let amounts = (option::of(amount()), option::of(amount()), option::of(amount()));
    (kind, amounts, any::<bool>(), any::<bool>(), option::of(1..9_i64), seldom(0..=600_i64)).prop_map(
        |(kind, (max_surge, max_unavailable, batch_size), confirm, first, window, upgrade_pause)| {
            // Settings that the strategy ignores are refused.
            let (rolls, batches) =
                (kind == StrategyType::RollingUpdate, matches!(kind, StrategyType::Batch | StrategyType::Beta));
            Rollout {
                kind,
                max_surge: max_surge.filter(|_| rolls),
                max_unavailable: max_unavailable.filter(|_| rolls),
                batch_size: batch_size.filter(|_| batches),
                need_waiting_for_confirm: confirm && batches,
                confirm_first_deployment: confirm && first && batches,
                window: window.filter(|_| batches),
                upgrade_pause: if kind == StrategyType::Serial { upgrade_pause } else { 0 },
            }
        },
    )
}

fn units() -> impl Strategy<Value = Topology> {
    let kind = select(vec![UnitType::Cell, UnitType::Zone]);
    let label = select(vec!["", "cell", "zone", "rack"]);
    let reschedule = (any::<bool>(), 0..99_i64, select(vec![FailBack::Lazy, FailBack::Eager]));
    let reschedule = reschedule.prop_map(|(enable, initial_delay_seconds, fail_back)| AutoReschedule {
        enable,
        initial_delay_seconds,
        fail_back,
    });
    let spread = select(vec![Spread::Proportional, Spread::Even, Spread::Sequential]);
    let some = (kind, label, option::of(amount()), option::of(reschedule), spread);
    let some = some.prop_map(|(unit_type, label, replicas, auto_reschedule, spread)| Topology {
        unit_type,
        unit_label: label.to_owned(),
        values: vec!["a".to_owned(), "1".to_owned()],
        unit_replicas: replicas.map(|amount| BTreeMap::from([("1".to_owned(), amount)])).unwrap_or_default(),
        auto_reschedule,
        spread,
    });
    prop_oneof![5 => some, 1 => Just(Topology::default())]
}

fn settings() -> impl Strategy<Value = PodGroupSpec> {
    let times =
        (option::of(0..=60_i64), option::of(61..=604_800_i64), option::of(0..=100_i64), option::of(1..=100_i64));
    let drain = (0..999_i64, any::<bool>(), option::of(1..=999_i64));
    let drain = drain.prop_map(|(grace_seconds, needs_answer, timeout_seconds)| Drain {
        grace_seconds,
        needs_answer,
        timeout_seconds: timeout_seconds.filter(|_| needs_answer),
    });
    let replacement = option::of(select(vec![PodReplacement::Started, PodReplacement::Complete]));
    let update = select(vec![UpdatePolicy::ReCreate, UpdatePolicy::InPlaceIfPossible, UpdatePolicy::InPlaceOnly]);
    let failure = option::of(select(vec![FailureAction::Hold, FailureAction::Rollback, FailureAction::Continue]));
    let words = (replacement, update, failure, seldom(vec("[a-z]{1,9}", 0..3)));
    let parts = (option::of(rollout()), option::of(units()), option::of(drain), option::of(amount()), any::<bool>());
    (times, words, parts).prop_map(|(times, words, parts)| {
        let (min_ready_seconds, progress_deadline_seconds, revision_history_limit, fail_fast_restarts) = times;
        let (pod_replacement, update_policy, failure_action, readiness_gates) = words;
        let (strategy, topology, drain, failure_threshold, paused) = parts;
        PodGroupSpec {
            strategy,
            topology,
            min_ready_seconds,
            progress_deadline_seconds,
            revision_history_limit,
            paused,
            pod_replacement,
            update_policy,
            failure_action,
            failure_threshold,
            fail_fast_restarts,
            readiness_gates,
            drain,
            ..PodGroupSpec::default()
        }
    })
}

/// The spec without the settings that its strategy does not allow.
fn allowed(spec: PodGroupSpec) -> PodGroupSpec {
    if spec.validate_settings().is_ok() {
        return spec;
    }
    let kind = spec.strategy_type();
    let (rolls, batches) =
        (kind == StrategyType::RollingUpdate, matches!(kind, StrategyType::Batch | StrategyType::Beta));
    let mut spec = spec;
    spec.pod_replacement = spec.pod_replacement.filter(|it| rolls || *it == PodReplacement::Complete);
    if kind == StrategyType::Recreate {
        spec.update_policy = UpdatePolicy::default();
    }
    if let Some(units) = spec.topology.as_mut().filter(|_| !batches) {
        units.spread = Spread::default();
    }
    if let (Some(strategy), true) = (&mut spec.strategy, spec.pod.is_stateful()) {
        strategy.max_surge = None;
    }
    if spec.has_strategy() {
        return spec;
    }
    let PodGroupSpec { name, namespace, pod, num_instances, restart_policy, strategy, revision_history_limit, .. } =
        spec;
    PodGroupSpec {
        name,
        namespace,
        pod,
        num_instances,
        restart_policy,
        strategy,
        revision_history_limit,
        ..PodGroupSpec::default()
    }
}

fn group() -> impl Strategy<Value = PodGroupSpec> {
    let restart = select(vec![RestartPolicy::Never, RestartPolicy::Always, RestartPolicy::OnFail]);
    (name(), option::of(name()), 0..=1_000_i64, restart, pod(), settings()).prop_map(
        |(name, namespace, num_instances, restart_policy, pod, settings)| {
            let namespace = namespace.unwrap_or_else(|| name.split('.').next().unwrap_or_default().to_owned());
            let pod = PodSpec { name: name.clone(), namespace: namespace.clone(), ..pod };
            allowed(PodGroupSpec { name, namespace, num_instances, restart_policy, pod, ..settings })
        },
    )
}

/// The same cases in every run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` try others.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { 512 };
    let rng_seed = match usual.rng_seed {
        RngSeed::Random => RngSeed::Fixed(19),
        RngSeed::Fixed(seed) => RngSeed::Fixed(seed),
    };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_valid_spec_is_the_same_after_it_was_written_and_read(spec in group()) {
        // Few specs contradict themselves; proptest fails when it discards more than 1,024.
        prop_assume!(spec.validate().is_ok());
        let yaml = to_short_yaml(&spec);
        let read = crate::document::read(&yaml);
        prop_assert!(read.is_ok(), "{}\n{yaml}", read.unwrap_err());
        prop_assert_eq!(&read.unwrap()[0].spec, &spec, "\n{}", yaml);
    }
}
