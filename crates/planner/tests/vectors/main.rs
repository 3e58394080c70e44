//! Checks the rollout functions against `tests/rollout-vectors.json`, a file of known answers.

mod runner;

use runner::{Summary, run};

fn summary(text: &str) -> Result<Summary, String> {
    let (summary, messages) = run(text)?;
    eprintln!("{}", messages.join("\n"));
    Ok(summary)
}

fn one(vector: &str) -> String {
    format!(r#"{{"format": 1, "vectors": [{vector}]}}"#)
}

#[test]
fn every_vector_of_the_repository_passes_and_none_is_skipped() {
    let text = include_str!("../rollout-vectors.json");
    assert_eq!(summary(text), Ok(Summary { passed: 455, failed: 0, skipped: 0 }));
}

#[test]
fn a_wrong_answer_fails_and_an_unknown_function_is_skipped() {
    let wrong = one(r#"{"id": "a", "fn": "age_bucket", "input": {"then": 0, "now": 0}, "expected": 7}"#);
    assert_eq!(summary(&wrong), Ok(Summary { passed: 0, failed: 1, skipped: 0 }));
    let unknown = one(r#"{"id": "a", "fn": "fly", "input": {}, "expected": null}"#);
    assert_eq!(summary(&unknown), Ok(Summary { passed: 0, failed: 0, skipped: 1 }));
}

#[test]
fn a_vector_may_expect_that_its_input_is_invalid() {
    let missing = one(r#"{"id": "a", "fn": "age_bucket", "input": {}, "expected": {"error": true}}"#);
    assert_eq!(summary(&missing), Ok(Summary { passed: 1, failed: 0, skipped: 0 }));
}

#[test]
fn a_file_of_another_format_is_rejected() {
    for text in ["", "[]", r#"{"format": 2, "vectors": []}"#, r#"{"vectors": [{}]}"#] {
        assert!(summary(text).is_err(), "{text}");
    }
    let unanswered = one(r#"{"id": "a", "fn": "age_bucket", "input": {}}"#);
    assert_eq!(summary(&unanswered), Err("vector 1: nothing \"expected\"".to_owned()));
}
