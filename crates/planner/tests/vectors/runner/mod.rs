//! Runs a file of vectors: each names a function of `planner::rollout`, its input and the expected answer.
//!
//! Adapters translate JSON to the planner's types and back; they decide nothing. The test target `vectors` and the example
//! `vectors` share this module.

mod input;
mod pods;
mod rolling;
mod sets;
mod table;
mod transitions;
mod units;

use serde_json::{Value, json};

use self::input::VectorInput;
use self::table::adapter;

/// How many vectors passed, failed, and named a function without an adapter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

struct Vector {
    id: String,
    function: String,
    input: VectorInput,
    expected: Value,
}

/// Runs all vectors of a file. The messages name each vector that failed or was skipped.
pub(crate) fn run(text: &str) -> Result<(Summary, Vec<String>), String> {
    let mut summary = Summary::default();
    let mut messages = Vec::new();
    for vector in parse(text)? {
        let Vector { id, function, input, expected } = vector;
        let Some(adapter) = adapter(&function) else {
            summary.skipped += 1;
            messages.push(format!("{id}: skipped, no function {function}"));
            continue;
        };
        // An error is an answer too: a vector may expect `{"error": true}`.
        let (got, shown) = match adapter(&input) {
            Ok(value) => (value.clone(), value.to_string()),
            Err(error) => (json!({"error": true}), format!("an error: {}", error.0)),
        };
        if got == expected {
            summary.passed += 1;
        } else {
            summary.failed += 1;
            messages.push(format!("{id}: expected {expected}, got {shown}"));
        }
    }
    Ok((summary, messages))
}

fn parse(text: &str) -> Result<Vec<Vector>, String> {
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
    Ok(Vector { id: text("id")?, function: text("fn")?, input: VectorInput(input), expected })
}
