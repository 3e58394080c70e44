//! Reads a file of vectors and judges each.
//!
//! An error is an answer too: a vector may expect `{"error": true}`, and whatever an adapter cannot read comes to that.

use serde_json::{Value, json};

use crate::input::Input;
use crate::table::adapter;

/// One known answer.
pub(crate) struct Vector {
    pub(crate) id: String,
    pub(crate) function: String,
    input: Input,
    pub(crate) expected: Value,
}

pub(crate) enum Verdict {
    Passed,
    /// The answer that differs, and why it is an error if it is one.
    Failed {
        got: String,
    },
    /// Nobody here knows the function.
    Skipped,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    pub(crate) fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed { .. } => self.failed += 1,
            Verdict::Skipped => self.skipped += 1,
        }
    }
}

impl Vector {
    pub(crate) fn judge(&self) -> Verdict {
        let Some(adapter) = adapter(&self.function) else { return Verdict::Skipped };
        let (got, shown) = match adapter(&self.input) {
            Ok(value) => (value.clone(), value.to_string()),
            Err(flaw) => (json!({"error": true}), format!("an error: {}", flaw.0)),
        };
        if got == self.expected { Verdict::Passed } else { Verdict::Failed { got: shown } }
    }
}

/// The vectors of a file, or what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Vec<Vector>, String> {
    let file: Value = serde_json::from_str(text).map_err(|e| format!("no JSON: {e}"))?;
    match file.get("format") {
        None => {}
        Some(format) if *format == json!(1) => {}
        Some(format) => return Err(format!("format {format} is unknown, 1 is known")),
    }
    let vectors = file.get("vectors").and_then(Value::as_array).ok_or("no list called \"vectors\"")?;
    vectors.iter().enumerate().map(|(at, vector)| read(vector).map_err(|e| format!("vector {}: {e}", at + 1))).collect()
}

fn read(vector: &Value) -> Result<Vector, String> {
    let text = |name: &str| {
        vector.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| format!("no text {name:?}"))
    };
    let input = vector.get("input").and_then(Value::as_object).cloned().ok_or("no object \"input\"")?;
    let expected = vector.get("expected").cloned().ok_or("nothing \"expected\"")?;
    Ok(Vector { id: text("id")?, function: text("fn")?, input: Input(input), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> Result<Tally, String> {
        let mut tally = Tally::default();
        for vector in parse(text)? {
            let verdict = vector.judge();
            if let Verdict::Failed { got } = &verdict {
                eprintln!("{}: expected {}, got {got}", vector.id, vector.expected);
            }
            tally.count(&verdict);
        }
        Ok(tally)
    }

    fn one(vector: &str) -> String {
        format!(r#"{{"format": 1, "vectors": [{vector}]}}"#)
    }

    #[test]
    fn every_known_answer_is_given() {
        let text = include_str!("../../tests/rollout-vectors.json");
        assert_eq!(tally(text), Ok(Tally { passed: 313, failed: 0, skipped: 0 }));
    }

    #[test]
    fn a_wrong_answer_fails_and_an_unknown_function_is_skipped() {
        let wrong = one(r#"{"id": "a", "fn": "age_bucket", "input": {"then": 0, "now": 0}, "expected": 7}"#);
        assert_eq!(tally(&wrong), Ok(Tally { passed: 0, failed: 1, skipped: 0 }));
        let unknown = one(r#"{"id": "a", "fn": "fly", "input": {}, "expected": null}"#);
        assert_eq!(tally(&unknown), Ok(Tally { passed: 0, failed: 0, skipped: 1 }));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_may_be_expected() {
        let missing = one(r#"{"id": "a", "fn": "age_bucket", "input": {}, "expected": {"error": true}}"#);
        assert_eq!(tally(&missing), Ok(Tally { passed: 1, failed: 0, skipped: 0 }));
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        for text in ["", "[]", r#"{"format": 2, "vectors": []}"#, r#"{"vectors": [{}]}"#] {
            assert!(tally(text).is_err(), "{text}");
        }
        let unanswered = one(r#"{"id": "a", "fn": "age_bucket", "input": {}}"#);
        assert_eq!(tally(&unanswered), Err("vector 1: nothing \"expected\"".to_owned()));
    }
}
