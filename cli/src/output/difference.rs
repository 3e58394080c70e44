//! Changed fields as text: `~ image "box:1" => "box:2"`. Pure.

use contract::state::RestartPolicy;
use serde_json::Value;

use crate::document::difference::FieldChange;
use crate::output::table::{bytes, cut};

/// Longest value that is shown, in characters.
const LONGEST: usize = 100;
/// Short names of the fields that change most.
const NAMES: [(&str, &str); 5] = [
    ("Image", "image"),
    ("Env", "env"),
    ("MemoryLimit", "memory"),
    ("NumInstances", "instances"),
    ("RestartPolicy", "restart"),
];

/// A line for each changed field: `~` changed, `+` added, `-` removed.
pub(crate) fn text(changes: &[FieldChange]) -> String {
    changes.iter().map(|change| format!("  {}\n", line(change, is_alone(changes)))).collect()
}

/// Whether the changes concern the first container only, so that its fields need no number.
fn is_alone(changes: &[FieldChange]) -> bool {
    let mut paths = changes.iter().filter_map(|change| change.path.strip_prefix("Pod.Containers["));
    paths.all(|rest| rest.starts_with("0]"))
}

fn line(change: &FieldChange, is_alone: bool) -> String {
    let name = name(&change.path, is_alone);
    let shown = |value: &Value| shown(&change.path, value);
    match (change.before.is_null(), change.after.is_null()) {
        (true, false) => format!("+ {name} {}", shown(&change.after)),
        (false, true) => format!("- {name} {}", shown(&change.before)),
        _ => format!("~ {name} {} => {}", shown(&change.before), shown(&change.after)),
    }
}

/// `image` for `Pod.Containers[0].Image`, `env.A` for `Pod.Containers[0].Env.A`; other fields keep their names.
fn name(path: &str, is_alone: bool) -> String {
    let path = path.strip_prefix("Pod.").unwrap_or(path);
    let path = if is_alone { path.strip_prefix("Containers[0].").unwrap_or(path) } else { path };
    let (place, field) = match path.rfind("].") {
        Some(end) if path.starts_with("Containers[") => path.split_at(end + 2),
        _ => ("", path),
    };
    let (first, rest) = field.split_at(field.find('.').unwrap_or(field.len()));
    let known = NAMES.iter().find(|(known, _)| *known == first).map_or(first, |(_, short)| *short);
    format!("{place}{known}{rest}")
}

fn shown(path: &str, value: &Value) -> String {
    let policy = || serde_json::from_value::<RestartPolicy>(value.clone()).ok();
    match (path.rsplit('.').next().unwrap_or(path), value) {
        ("RestartPolicy", Value::Number(_)) => policy().map_or_else(|| value.to_string(), |it| it.word().to_owned()),
        ("MemoryLimit", Value::Number(_)) => value.as_u64().map_or_else(|| value.to_string(), bytes),
        _ => cut(&value.to_string(), LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(path: &str, before: Value, after: Value) -> FieldChange {
        FieldChange { path: path.to_owned(), before, after }
    }

    #[test]
    fn changed_added_and_removed_fields_have_a_line_each_with_short_names() {
        let changes = [
            change("Pod.Containers[0].Image", json!("box:1"), json!("box:2")),
            change("Pod.Containers[0].Env.GREETING", json!("a"), json!("b")),
            change("Pod.Containers[0].Env.NEW", Value::Null, json!("x")),
            change("Pod.Containers[0].MemoryLimit", json!(33_554_432), json!(67_108_864)),
            change("Pod.Filters", json!("constraint:a==b"), Value::Null),
            change("Strategy.MaxSurge", json!(1), json!("50%")),
            change("NumInstances", json!(2), json!(3)),
            change("RestartPolicy", json!(0), json!(1)),
        ];
        let expected = "  ~ image \"box:1\" => \"box:2\"\n  ~ env.GREETING \"a\" => \"b\"\n  + env.NEW \"x\"\n  ~ memory 32MiB => \
            64MiB\n  - Filters \"constraint:a==b\"\n  ~ Strategy.MaxSurge 1 => \"50%\"\n  ~ instances 2 => 3\n  ~ restart never \
            => always\n";
        assert_eq!(text(&changes), expected);
    }

    #[test]
    fn a_field_of_another_container_keeps_its_number() {
        let image = |number: u32| change(&format!("Pod.Containers[{number}].Image"), json!("a"), json!("b"));
        let expected = "  ~ Containers[0].image \"a\" => \"b\"\n  ~ Containers[1].image \"a\" => \"b\"\n";
        assert_eq!(text(&[image(0), image(1)]), expected);
    }

    #[test]
    fn a_long_value_is_cut() {
        let text = text(&[change("Pod.Annotation", json!("x".repeat(500)), json!(""))]);
        assert!(text.len() < 150 && text.ends_with("... => \"\"\n"), "{text}");
    }
}
