//! One golden JSON file per message and stored record.
//!
//! Changing a file here changes the wire or stored data, which older processes and older data must still be able to
//! use. Rewrite them with `deploy/golden` and review the difference.

use std::fmt::Debug;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{backup_samples, node_samples, progress_samples, rollout_samples, samples, session_samples};

pub(crate) fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, value: &T) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(format!("{name}.json"));
    let written = serde_json::to_string_pretty(value).expect("serialises") + "\n";
    if std::env::var_os("DEPLOYD_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("golden folder");
        std::fs::write(&path, &written).expect("golden file is written");
    }
    let golden = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run deploy/golden and read the result", path.display()));
    assert_eq!(written, golden, "{name}: the message changed; if that is meant, run deploy/golden");
    let read: T = serde_json::from_str(&golden).expect("the golden file is read");
    assert_eq!(&read, value, "{name}: what is read is not what was written");
}

#[test]
fn commands() {
    for (name, verb) in samples::verbs().into_iter().chain(rollout_samples::verbs()).chain(node_samples::verbs()) {
        check(&format!("command-{name}"), &samples::command(verb));
    }
}

#[test]
fn a_command_has_the_same_name_in_the_audit_log_and_in_its_json() {
    let all = samples::verbs().into_iter().chain(rollout_samples::verbs()).chain(node_samples::verbs());
    for (_, verb) in all.chain(backup_samples::verbs()) {
        let json = serde_json::to_value(&verb).expect("serialises");
        assert!(json.get(verb.name()).is_some(), "{} {json}", verb.name());
    }
}

#[test]
fn outcomes() {
    for (name, decision) in
        samples::decisions().into_iter().chain(rollout_samples::decisions()).chain(node_samples::decisions())
    {
        check(&format!("outcome-{name}"), &samples::outcome(decision));
    }
}

#[test]
fn orders() {
    let (before, after) = samples::orders();
    check("order-delta", &contract::order::OrderMessage::Delta(after.since(&before)));
    check("order-braked-delta", &contract::order::OrderMessage::Delta(samples::braked_order().since(&before)));
    check("order-braked", &contract::order::OrderMessage::Whole(samples::braked_order()));
    check("order-whole", &contract::order::OrderMessage::Whole(after));
    check("order-in-place", &contract::order::OrderMessage::Whole(rollout_samples::in_place_order()));
    check(
        "order-meant",
        &contract::order::OrderMessage::Delta(samples::braked_order().since(&before)).meant_for("01JCK0".to_owned()),
    );
    for (name, reply) in samples::order_replies() {
        check(&format!("order-reply-{name}"), &reply);
    }
}

#[test]
fn reports() {
    let (before, after) = samples::reports();
    check("report-delta", &contract::report::ReportMessage::Delta(after.since(&before)));
    check("report-heartbeat", &samples::heartbeat(&after));
    check("report-whole", &contract::report::ReportMessage::Whole(after));
    check("report-identified", &node_samples::heartbeat());
    check("pod-facts-released", &rollout_samples::pod_facts());
}

#[test]
fn queries_and_answers() {
    for (name, query) in samples::queries().into_iter().chain(rollout_samples::queries()).chain(node_samples::queries())
    {
        check(&format!("query-{name}"), &query);
    }
    for (name, answer) in
        samples::answers().into_iter().chain(rollout_samples::answers()).chain(node_samples::answers())
    {
        check(&format!("answer-{name}"), &contract::query::Reply::new(false, answer));
    }
    check("inspect-request", &samples::inspect_request());
    check("inspect-reply", &samples::inspect_reply());
}

#[test]
fn sessions() {
    for (name, request) in session_samples::requests() {
        check(&format!("session-{name}"), &request);
    }
    for (name, reply) in session_samples::replies() {
        check(&format!("session-reply-{name}"), &reply);
    }
    for (name, record) in session_samples::log_records() {
        check(&format!("api-log-{name}"), &record);
    }
}

#[test]
fn presence() {
    check("presence", &node_samples::presence());
}

#[test]
fn messages_about_the_store() {
    for (name, word) in backup_samples::store_words() {
        check(&format!("store-word-{name}"), &word);
    }
}

#[test]
fn backups() {
    for (name, verb) in backup_samples::verbs() {
        check(&format!("command-{name}"), &samples::command(verb));
    }
    for (name, query) in backup_samples::queries() {
        check(&format!("query-{name}"), &query);
    }
    for (name, answer) in backup_samples::answers() {
        check(&format!("answer-{name}"), &contract::query::Reply::new(false, answer));
    }
    check("order-of-a-store", &contract::order::OrderMessage::Whole(backup_samples::order()));
    check("order-reply-foreign", &backup_samples::reply());
    check("record-store", &backup_samples::store());
    check("record-restore", &backup_samples::restore());
}

#[test]
fn messages_that_detect_a_rewound_store_or_stream() {
    check("order-after-commits", &progress_samples::order());
    check("order-reply-behind", &progress_samples::reply());
    check("report-after-commits", &progress_samples::report());
    check("record-progress", &progress_samples::progress());
    check("record-cursor-stored-at", &progress_samples::cursor());
    check("command-with-digest", &progress_samples::command());
    check("outcome-with-digest", &progress_samples::outcome());
    check("outcome-of-a-principal", &progress_samples::outcome_of_a_principal());
}

#[test]
fn notices() {
    check("notice", &samples::notice());
    check("dead-letter", &samples::dead_letter());
    check("event", &samples::cluster_event());
}

#[test]
fn records() {
    check("record-group", &samples::group_record());
    check("record-group-blocked", &samples::blocked_group_record());
    check("record-group-busy", &samples::busy_group_record());
    check("record-group-orphan", &rollout_samples::orphan_record());
    check("record-placement-released", &rollout_samples::placement_record());
    check("record-revisions", &rollout_samples::revisions_record());
    check("record-dependency", &samples::dependency_record());
    check("record-pairs", &samples::pairs_record());
    for (name, value) in crate::layout::stored() {
        check(&format!("stored-{name}"), &value);
    }
    check("record-history", &samples::history_record());
    check("record-history-reported", &samples::reported_history_record());
    check("record-placement", &samples::placement_record());
    check("record-node", &samples::node_record());
    check("record-node-identified", &node_samples::record());
    check("record-node-engine-reported", &node_samples::engine_reported());
    check("record-node-intent", &node_samples::intent());
    check("record-cursor", &samples::cursor());
    check("record-callbacks", &samples::callbacks());
    check("record-engine", &samples::engine_record());
    check("record-constraints", &samples::constraints_record());
    let version = contract::record::SCHEMA_VERSION;
    check("record-schema", &contract::record::SchemaRecord { version, migrating_to: None });
}

#[test]
fn bodies_of_the_api() {
    check("api-podgroup", &samples::api_group());
    check("api-depends", &samples::api_depends());
    check("api-node", &samples::api_node());
    check("api-accepted", &samples::api_accepted());
    check("api-failure", &samples::api_failure());
    check("api-ports", &samples::api_ports());
    check("api-history", &samples::api_history());
}

#[test]
fn bodies_the_original_does_not_have() {
    check("api-podgroup-list", &samples::api_list());
    check("api-operation", &samples::api_operation());
    check("api-cluster", &samples::api_cluster());
    check("api-node-status", &node_samples::status());
    check("api-rollout", &rollout_samples::rollout_view());
    check("api-revisions", &rollout_samples::revisions_view());
    check("api-plan", &rollout_samples::plan_view());
}
