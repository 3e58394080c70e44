//! A plan as text for people. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use contract::rollout_view::{InstanceChange, PlanAction, PlanStep, PlanView, Unplaced};

use crate::commands::plan::{Change, Planned};
use crate::output::rollout::strategy;
use crate::output::table::bytes;

/// The whole plan.
pub(crate) fn plan(planned: &Planned) -> String {
    let Planned { view, fields } = planned;
    if planned.comes_to() == Change::Nothing {
        return format!("{}: nothing would change", view.name);
    }
    let verb = if view.is_new { "would create it" } else { "would change it" };
    let mut text = format!("{}: release {} by {} {verb}\n", view.name, view.release, strategy(view.strategy));
    if !fields.is_empty() {
        let _ = writeln!(text, "  changed fields: {}", fields.join(", "));
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
    no_place(&view.unplaced, &mut text);
    for warning in &view.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let end = match (view.completes, view.unplaced.is_empty()) {
        (true, true) => "it comes to an end if everything that is started becomes ready",
        (true, false) => "it does not work out for every instance: see what finds no place",
        (false, _) => "it does not come to an end",
    };
    text + end
}

/// Instances by what becomes of them, in the order a reader cares for.
fn changes(changes: &BTreeMap<u32, InstanceChange>, text: &mut String) {
    let words = [
        (InstanceChange::Removed, "removed"),
        (InstanceChange::Recreated, "made anew"),
        (InstanceChange::InPlace, "changed in place"),
        (InstanceChange::Moved, "moved"),
        (InstanceChange::Created, "created"),
        (InstanceChange::Untouched, "untouched"),
    ];
    for (fate, word) in words {
        let numbers: Vec<u32> = changes.iter().filter(|(_, it)| **it == fate).map(|(number, _)| *number).collect();
        if !numbers.is_empty() {
            let _ = writeln!(text, "  {word}: {} ({})", ranges(&numbers), numbers.len());
        }
    }
}

fn headline(step: &PlanStep, text: &mut String) {
    match (step.group, step.kind.as_str()) {
        (0, _) => text.push_str("steps\n"),
        (group, "") => {
            let _ = writeln!(text, "group {group}");
        }
        (group, kind) => {
            let _ = writeln!(text, "group {group}, {kind}");
        }
    }
}

/// What one step does, deed by deed, and who serves meanwhile.
fn done(step: &PlanStep) -> String {
    let mut parts: Vec<(&PlanAction, Vec<u32>)> = Vec::new();
    for action in &step.actions {
        match parts.iter_mut().find(|(known, _)| (&known.action, &known.unit) == (&action.action, &action.unit)) {
            Some((_, numbers)) => numbers.push(action.instance),
            None => parts.push((action, vec![action.instance])),
        }
    }
    let part = |(action, numbers): &(&PlanAction, Vec<u32>)| {
        format!("{} {}{}", word(&action.action), ranges(numbers), place(&action.unit))
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!("{}; meanwhile {} available", parts.join(", "), counts(&step.available))
}

/// A deed in people's words; one we do not know in its own.
fn word(action: &str) -> String {
    let word = match action {
        "Create" => "create",
        "Surge" => "start the new pod beside the old one of",
        "Promote" => "end the old pod of",
        "Renew" => "replace",
        "InPlace" => "change in place",
        "Drop" => "drop the second pod of",
        "Retire" => "stop",
        "Remove" => "remove",
        "Move" => "move",
        other => return other.to_lowercase(),
    };
    word.to_owned()
}

fn peaks(view: &PlanView, text: &mut String) {
    let (cores, rest) = (view.peak_extra_cpu_millis / 1000, view.peak_extra_cpu_millis % 1000);
    let _ = writeln!(
        text,
        "at most {} more pods, {} more memory and {cores}.{rest:03} more cores than now",
        view.peak_extra_pods,
        bytes(view.peak_extra_memory),
    );
    // A group that is created begins with nothing; nobody has to be told.
    if !view.min_available.is_empty() && !view.is_new {
        let _ = writeln!(text, "at least {} available all the time", counts(&view.min_available));
    }
}

/// `2` where there are no units, else `2 in cell-a, 3 in cell-b`.
fn counts(units: &BTreeMap<String, i64>) -> String {
    let count = |(unit, count): (&String, &i64)| format!("{count}{}", place(unit));
    let counts: Vec<String> = units.iter().map(count).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// Instances without a place; those with the same reasons are told together, for there may be hundreds.
fn no_place(unplaced: &[Unplaced], text: &mut String) {
    let mut told: Vec<(&Unplaced, Vec<u32>)> = Vec::new();
    for one in unplaced {
        match told.iter_mut().find(|(known, _)| (&known.unit, &known.nodes) == (&one.unit, &one.nodes)) {
            Some((_, numbers)) => numbers.push(one.instance),
            None => told.push((one, vec![one.instance])),
        }
    }
    for (one, numbers) in told {
        let _ = writeln!(text, "no place{} for instance {}:", place(&one.unit), ranges(&numbers));
        for (node, reasons) in &one.nodes {
            let _ = writeln!(text, "  {node}: {}", reasons.join("; "));
        }
        if one.nodes.is_empty() {
            text.push_str("  there are no nodes\n");
        }
    }
}

fn place(unit: &str) -> String {
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

    use super::*;

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
        }
    }

    #[test]
    fn a_plan_says_what_becomes_of_every_instance_step_by_step_and_what_it_costs() {
        let expected = "\
demo.web.web: release 6 by Beta would change it
  made anew: 1-3 (3)
  created: 4 (1)
  untouched: 5 (1)
group 1, Beta
  step 1: replace 1 in cell-a, replace 2 in cell-b; meanwhile 2 in cell-a, 1 in cell-b available
group 2, Batch
  step 2: start the new pod beside the old one of 3 in cell-a; meanwhile 2 in cell-a, 1 in cell-b available
  step 3: end the old pod of 3 in cell-a, create 4 in cell-a; meanwhile 2 in cell-a, 1 in cell-b available
at most 2 more pods, 64MiB more memory and 1.250 more cores than now
at least 2 in cell-a, 1 in cell-b available all the time
warning: cell-b: truncated
it comes to an end if everything that is started becomes ready";
        assert_eq!(plan(&of(view())), expected);
    }

    #[test]
    fn an_instance_without_a_place_is_told_with_every_node_and_every_reason() {
        let nodes = BTreeMap::from([
            ("node-1".parse().unwrap(), vec!["not enough memory".to_owned()]),
            ("node-2".parse().unwrap(), vec!["wrong unit".to_owned(), "is lost".to_owned()]),
        ]);
        let unplaced = vec![Unplaced { instance: 4, unit: "cell-a".to_owned(), nodes }];
        let text = plan(&of(PlanView { unplaced, ..view() }));
        let reasons =
            "no place in cell-a for instance 4:\n  node-1: not enough memory\n  node-2: wrong unit; is lost\n";
        assert!(text.contains(reasons), "{text}");
        assert_eq!(of(PlanView { completes: false, ..view() }).comes_to(), Change::Fails);
    }

    #[test]
    fn nothing_is_said_in_one_line() {
        let same = PlanView { steps: Vec::new(), changes: BTreeMap::from([(1, InstanceChange::Untouched)]), ..view() };
        assert_eq!(plan(&of(same.clone())), "demo.web.web: nothing would change");
        assert_eq!(of(same.clone()).comes_to(), Change::Nothing);
        assert_eq!(of(PlanView { is_new: true, ..same.clone() }).comes_to(), Change::Works);
        let other = Planned { view: same, fields: vec!["RestartPolicy".to_owned()] };
        assert_eq!(other.comes_to(), Change::Works);
    }

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[3, 1, 2, 7, 9, 8]), "1-3, 7-9");
        assert_eq!(ranges(&[5]), "5");
    }
}
