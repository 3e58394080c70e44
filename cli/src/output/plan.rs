//! A plan as text. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use contract::rollout_view::{InstanceChange, PlanAction, PlanStep, PlanView, Unplaced};

use crate::commands::plan::{PlanEffect, Planned};
use crate::output::difference;
use crate::output::rollout::strategy;
use crate::output::table::bytes;

/// The whole plan.
pub(crate) fn plan(planned: &Planned) -> String {
    let Planned { view, fields } = planned;
    if planned.effect() == PlanEffect::Unchanged {
        return format!("{}: nothing would change", view.name);
    }
    let mut text = format!("{}: {}\n{}", view.name, headline_of(planned), difference::text(fields));
    for note in &view.notes {
        let _ = writeln!(text, "note: {note}");
    }
    changes(&view.changes, &mut text);
    let mut group = None;
    for (index, step) in view.steps.iter().enumerate() {
        if group.replace(step.group) != Some(step.group) {
            headline(step, &mut text);
        }
        let _ = writeln!(text, "  step {}: {}", index + 1, done(step));
    }
    peaks(view, &mut text);
    unplaced(&view.unplaced, &mut text);
    for warning in &view.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let end = match (view.completes, view.unplaced.is_empty()) {
        (true, true) => "Completes if all new instances become ready",
        (true, false) => "Incomplete: no node fits the instances named above",
        (false, _) => "Does not complete",
    };
    text + end
}

/// What the plan does with the group. Only a changed pod makes a new revision.
fn headline_of(Planned { view, fields }: &Planned) -> String {
    let has_new_pod = view.is_new || fields.is_empty() || fields.iter().any(|change| change.path.starts_with("Pod."));
    let with = format!("revision {} ({})", view.release, strategy(view.strategy));
    match fields.as_slice() {
        [only] if only.path == "NumInstances" => {
            format!("would scale it from {} to {} instances", only.before, only.after)
        }
        _ if view.is_new => format!("would create it, {with}"),
        _ if has_new_pod => format!("would update it, {with}"),
        _ => "would update it without a new revision".to_owned(),
    }
}

/// Instances by change, the most severe change first.
fn changes(changes: &BTreeMap<u32, InstanceChange>, text: &mut String) {
    let words = [
        (InstanceChange::Removed, "remove"),
        (InstanceChange::Recreated, "replace"),
        (InstanceChange::InPlace, "update in place"),
        (InstanceChange::Moved, "move"),
        (InstanceChange::Created, "create"),
        (InstanceChange::Untouched, "unchanged"),
    ];
    for (change, word) in words {
        let numbers: Vec<u32> = changes.iter().filter(|(_, it)| **it == change).map(|(number, _)| *number).collect();
        if !numbers.is_empty() {
            let _ = writeln!(text, "  {word}: {} ({})", ranges(&numbers), numbers.len());
        }
    }
}

fn headline(step: &PlanStep, text: &mut String) {
    match (step.group, step.kind.as_str()) {
        (0, _) => text.push_str("steps\n"),
        (group, "") => {
            let _ = writeln!(text, "batch {group}");
        }
        (group, kind) => {
            let _ = writeln!(text, "batch {group} ({kind})");
        }
    }
}

/// The actions of one step, and how many instances are available meanwhile.
fn done(step: &PlanStep) -> String {
    let mut parts: Vec<(&PlanAction, Vec<u32>)> = Vec::new();
    for action in &step.actions {
        match parts.iter_mut().find(|(known, _)| (&known.action, &known.unit) == (&action.action, &action.unit)) {
            Some((_, numbers)) => numbers.push(action.instance),
            None => parts.push((action, vec![action.instance])),
        }
    }
    let part = |(action, numbers): &(&PlanAction, Vec<u32>)| {
        let (verb, suffix) = words(&action.action);
        format!("{verb} {}{}{suffix}", ranges(numbers), in_unit(&action.unit))
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!("{}; meanwhile {} available", parts.join(", "), counts(&step.available))
}

/// The words before and after the instances of an action; an unknown action keeps its name.
fn words(action: &str) -> (String, &'static str) {
    let (verb, suffix) = match action {
        "Create" => ("create", ""),
        "Surge" => ("start new", " alongside old"),
        "Promote" => ("stop old", ""),
        "Renew" => ("replace", ""),
        "InPlace" => ("update", " in place"),
        "Drop" => ("stop new", ""),
        "Retire" => ("stop", ""),
        "Remove" => ("remove", ""),
        "Move" => ("move", ""),
        other => return (other.to_lowercase(), ""),
    };
    (verb.to_owned(), suffix)
}

fn peaks(view: &PlanView, text: &mut String) {
    let (cores, rest) = (view.peak_extra_cpu_millis / 1000, view.peak_extra_cpu_millis % 1000);
    let _ = writeln!(
        text,
        "Peak extra: {} pods, {} memory, {cores}.{rest:03} cores",
        view.peak_extra_pods,
        bytes(view.peak_extra_memory),
    );
    // A new group starts with no instances.
    if !view.min_available.is_empty() && !view.is_new {
        let _ = writeln!(text, "Always available: at least {}", counts(&view.min_available));
    }
}

/// `2` where there are no units, else `2 in cell-a, 3 in cell-b`.
fn counts(units: &BTreeMap<String, i64>) -> String {
    let count = |(unit, count): (&String, &i64)| format!("{count}{}", in_unit(unit));
    let counts: Vec<String> = units.iter().map(count).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// Instances that no node fits; instances with the same reasons share an entry, for there may be hundreds.
fn unplaced(instances: &[Unplaced], text: &mut String) {
    let mut reasons: Vec<(&Unplaced, Vec<u32>)> = Vec::new();
    for one in instances {
        match reasons.iter_mut().find(|(known, _)| (&known.unit, &known.nodes) == (&one.unit, &one.nodes)) {
            Some((_, numbers)) => numbers.push(one.instance),
            None => reasons.push((one, vec![one.instance])),
        }
    }
    for (one, numbers) in reasons {
        let _ = writeln!(text, "no node fits instance {}{}:", ranges(&numbers), in_unit(&one.unit));
        for (node, reasons) in &one.nodes {
            let _ = writeln!(text, "  {node}: {}", reasons.join("; "));
        }
        if one.nodes.is_empty() {
            text.push_str("  there are no nodes\n");
        }
    }
}

fn in_unit(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" in {unit}") }
}

/// `1-3, 7` for 1, 2, 3 and 7.
fn ranges(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match runs.last_mut() {
            Some((_, last)) if number <= last.saturating_add(1) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use contract::rollout::StrategyType;
    use serde_json::{Value, json};

    use super::*;
    use crate::document::difference::FieldChange;

    fn counted(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
        pairs.iter().map(|(unit, count)| ((*unit).to_owned(), *count)).collect()
    }
    fn step(group: u64, kind: &str, actions: &[(u32, &str, &str)]) -> PlanStep {
        let action = |(instance, action, unit): &(u32, &str, &str)| PlanAction {
            instance: *instance,
            action: (*action).to_owned(),
            unit: (*unit).to_owned(),
        };
        PlanStep {
            group,
            kind: kind.to_owned(),
            actions: actions.iter().map(action).collect(),
            available: counted(&[("cell-a", 2), ("cell-b", 1)]),
        }
    }
    fn of(view: PlanView) -> Planned {
        Planned { view, fields: Vec::new() }
    }
    fn view() -> PlanView {
        PlanView {
            name: "demo.web.web".to_owned(),
            release: 6,
            strategy: StrategyType::Beta,
            is_new: false,
            steps: vec![
                step(1, "Beta", &[(1, "Renew", "cell-a"), (2, "Renew", "cell-b")]),
                step(2, "Batch", &[(3, "Surge", "cell-a")]),
                step(2, "Batch", &[(3, "Promote", "cell-a"), (4, "Create", "cell-a")]),
            ],
            changes: BTreeMap::from([
                (1, InstanceChange::Recreated),
                (2, InstanceChange::Recreated),
                (3, InstanceChange::Recreated),
                (4, InstanceChange::Created),
                (5, InstanceChange::Untouched),
            ]),
            peak_extra_pods: 2,
            peak_extra_memory: 64 << 20,
            peak_extra_cpu_millis: 1250,
            min_available: counted(&[("cell-a", 2), ("cell-b", 1)]),
            unplaced: Vec::new(),
            completes: true,
            warnings: vec!["cell-b: truncated".to_owned()],
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_plan_shows_the_change_of_every_instance_the_steps_and_the_peak() {
        let expected = "\
demo.web.web: would update it, revision 6 (Beta)
  replace: 1-3 (3)
  create: 4 (1)
  unchanged: 5 (1)
batch 1 (Beta)
  step 1: replace 1 in cell-a, replace 2 in cell-b; meanwhile 2 in cell-a, 1 in cell-b available
batch 2 (Batch)
  step 2: start new 3 in cell-a alongside old; meanwhile 2 in cell-a, 1 in cell-b available
  step 3: stop old 3 in cell-a, create 4 in cell-a; meanwhile 2 in cell-a, 1 in cell-b available
Peak extra: 2 pods, 64MiB memory, 1.250 cores
Always available: at least 2 in cell-a, 1 in cell-b
warning: cell-b: truncated
Completes if all new instances become ready";
        assert_eq!(plan(&of(view())), expected);
    }

    #[test]
    fn an_unschedulable_instance_is_shown_with_every_node_and_reason() {
        let nodes = BTreeMap::from([
            ("node-1".parse().unwrap(), vec!["not enough memory".to_owned()]),
            ("node-2".parse().unwrap(), vec!["wrong unit".to_owned(), "is lost".to_owned()]),
        ]);
        let unplaced = vec![Unplaced { instance: 4, unit: "cell-a".to_owned(), nodes }];
        let text = plan(&of(PlanView { unplaced, ..view() }));
        let reasons =
            "no node fits instance 4 in cell-a:\n  node-1: not enough memory\n  node-2: wrong unit; is lost\n";
        assert!(text.contains(reasons), "{text}");
        assert_eq!(of(PlanView { completes: false, ..view() }).effect(), PlanEffect::Stalls);
    }

    #[test]
    fn an_unchanged_group_is_one_line() {
        let same = PlanView { steps: Vec::new(), changes: BTreeMap::from([(1, InstanceChange::Untouched)]), ..view() };
        assert_eq!(plan(&of(same.clone())), "demo.web.web: nothing would change");
        assert_eq!(of(same.clone()).effect(), PlanEffect::Unchanged);
        assert_eq!(of(PlanView { is_new: true, ..same.clone() }).effect(), PlanEffect::Completes);
        let other = Planned { view: same, fields: vec![change("RestartPolicy", json!(0), json!(1))] };
        assert_eq!(other.effect(), PlanEffect::Completes);
    }

    fn change(path: &str, before: Value, after: Value) -> FieldChange {
        FieldChange { path: path.to_owned(), before, after }
    }

    #[test]
    fn a_plan_begins_with_the_changed_fields_and_names_a_revision_only_when_there_is_a_new_one() {
        let head = |fields: Vec<FieldChange>, lines: usize| {
            let text = plan(&Planned { view: PlanView { notes: vec!["wait".to_owned()], ..view() }, fields });
            text.lines().take(lines).map(str::to_owned).collect::<Vec<_>>()
        };
        let number = || change("NumInstances", json!(2), json!(5));
        let expected = ["demo.web.web: would scale it from 2 to 5 instances", "  ~ instances 2 => 5", "note: wait"];
        assert_eq!(head(vec![number()], 3), expected);
        let image = change("Pod.Containers[0].Image", json!("box:1"), json!("box:2"));
        let expected = [
            "demo.web.web: would update it, revision 6 (Beta)",
            "  ~ image \"box:1\" => \"box:2\"",
            "  ~ instances 2 => 5",
            "note: wait",
        ];
        assert_eq!(head(vec![image, number()], 4), expected);
        let patience = change("MinReadySeconds", Value::Null, json!(20));
        let expected = ["demo.web.web: would update it without a new revision", "  + MinReadySeconds 20", "note: wait"];
        assert_eq!(head(vec![patience], 3), expected);
    }

    #[test]
    fn consecutive_numbers_are_a_range() {
        assert_eq!(ranges(&[3, 1, 2, 7, 9, 8]), "1-3, 7-9");
        assert_eq!(ranges(&[5]), "5");
    }
}
