//! How a release is shown to people: as bars, as one line, and as a whole. Pure.

use contract::rollout::StrategyType;
use contract::rollout_view::{RolloutGroup, RolloutPod, RolloutStatus, RolloutUnit, RolloutView};

use crate::commands::rollout::verdict::advice;
use crate::output::table::{self, dash, one_line};

/// Characters of a bar: leaves room for the name of a unit and its numbers.
const BAR: i64 = 30;
/// Characters of a line of a terminal; the usual 80 less what stands before it. A command that is cut off helps nobody.
const WIDTH: usize = 76;

/// The lines of a terminal: what it is, a bar per unit, what it waits for, what somebody can do.
pub fn live(view: &RolloutView) -> Vec<String> {
    let width = view.units.iter().map(|unit| unit_name(unit).chars().count()).max().unwrap_or(0);
    let mut lines = vec![head(view)];
    lines.extend(view.units.iter().map(|unit| {
        let (name, bar) = (unit_name(unit), bar(unit.updated_available, unit.target));
        format!("{name:width$}  {bar}  {}", counts(unit))
    }));
    lines.extend(std::iter::once(view.message.clone()).chain(advice(view)).flat_map(|text| wrapped(&text)));
    lines
}

/// All of it in one line.
pub fn line(view: &RolloutView) -> String {
    let units: Vec<String> = match view.units.as_slice() {
        [only] => vec![counts(only)],
        units => units.iter().map(|unit| format!("{} {}", unit_name(unit), counts(unit))).collect(),
    };
    let units = units.join("; ");
    let message = view.message.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = [vec![head(view), units, message], advice(view)].concat();
    parts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Everything that is known of it.
pub fn whole(view: &RolloutView) -> String {
    let mut parts = vec![format!("{}\nsince {}", head(view), view.since)];
    if !view.message.is_empty() {
        parts.push(view.message.clone());
    }
    parts.extend(advice(view));
    parts.extend(view.warnings.iter().map(|warning| format!("warning: {warning}")));
    let mut text = parts.join("\n");
    let budget = format!(
        "{} instances wanted, at least {} available and at most {} pods while it goes on",
        view.replicas, view.min_available, view.max_total
    );
    let mut tables = vec![budget, units(&view.units)];
    if !view.groups.is_empty() {
        tables.push(groups(&view.groups));
    }
    if !view.instances.is_empty() {
        tables.push(instances(view));
    }
    for table in tables {
        text = format!("{text}\n\n{table}");
    }
    text
}

fn head(view: &RolloutView) -> String {
    let known = u64::try_from(view.groups.len()).unwrap_or(u64::MAX).max(view.group);
    let group = if view.group > 0 { format!(", group {} of {known}", view.group) } else { String::new() };
    let back = if view.is_rollback { " back" } else { "" };
    let how = strategy(view.strategy);
    format!("{}: release {}{back} by {how} is {}{group}", view.name, view.release, standing(view.status))
}

fn standing(status: RolloutStatus) -> &'static str {
    match status {
        RolloutStatus::Progressing => "under way",
        RolloutStatus::Complete => "complete",
        RolloutStatus::Degraded => "degraded",
        RolloutStatus::Stuck => "stuck",
        RolloutStatus::Held => "held by a failure",
        RolloutStatus::WaitingForConfirm => "waiting to be confirmed",
        RolloutStatus::Paused => "paused",
        RolloutStatus::Frozen => "frozen",
        RolloutStatus::Aborted => "given up",
    }
}

/// The word for a strategy.
pub fn strategy(strategy: StrategyType) -> &'static str {
    match strategy {
        StrategyType::Serial => "Serial",
        StrategyType::RollingUpdate => "RollingUpdate",
        StrategyType::Recreate => "Recreate",
        StrategyType::Batch => "Batch",
        StrategyType::Beta => "Beta",
    }
}

fn unit_name(unit: &RolloutUnit) -> &str {
    if unit.name.is_empty() { "instances" } else { &unit.name }
}

fn counts(unit: &RolloutUnit) -> String {
    let unplaced = if unit.unplaced > 0 { format!(", {} without a place", unit.unplaced) } else { String::new() };
    format!("{}/{} updated, {} available{unplaced}", unit.updated_available, unit.target, unit.available)
}

/// A text in lines that fit, broken between words.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= WIDTH) {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A bar that is full only when everything is done.
fn bar(done: i64, total: i64) -> String {
    let filled = if total > 0 { (done.clamp(0, total) * BAR / total).clamp(0, BAR) } else { BAR };
    let filled = usize::try_from(filled).unwrap_or(0);
    format!("[{}{}]", "=".repeat(filled), ".".repeat(usize::try_from(BAR).unwrap_or(0) - filled))
}

fn units(units: &[RolloutUnit]) -> String {
    let mut table = table::plain(&["unit", "target", "committed", "updated", "updated and available", "available"]);
    for unit in units {
        let numbers = [unit.target, unit.committed, unit.updated, unit.updated_available, unit.available];
        table.add_row(std::iter::once(dash(&unit.name)).chain(numbers.map(|number| number.to_string())));
    }
    table::text(&table)
}

fn groups(groups: &[RolloutGroup]) -> String {
    let mut table = table::plain(&["group", "kind", "state", "pods"]);
    for group in groups {
        let pods: Vec<String> =
            group.units.iter().map(|(unit, pods)| format!("{unit} {pods}").trim().to_owned()).collect();
        table.add_row([group.ordinal.to_string(), dash(&group.kind), group.state.clone(), dash(&pods.join(", "))]);
    }
    table::text(&table)
}

fn instances(view: &RolloutView) -> String {
    let mut table = table::plain(&["instance", "unit", "revision", "node", "state", "address", "gates", "why"]);
    let pods = view.instances.iter().flat_map(|instance| instance.pods.iter().map(move |pod| (instance, pod)));
    for (instance, pod) in pods {
        let gates: Vec<String> = pod.gates.iter().map(|(gate, is_true)| format!("{gate}={is_true}")).collect();
        table.add_row([
            instance.instance.to_string(),
            dash(&instance.unit),
            pod.revision.to_string(),
            dash(pod.node.as_ref().map_or("", |node| node.as_str())),
            state_of(pod).to_owned(),
            dash(&pod.ips.join(",")),
            dash(&gates.join(",")),
            one_line(&pod.why),
        ]);
    }
    table::text(&table)
}

fn state_of(pod: &RolloutPod) -> &'static str {
    match (pod.draining, pod.available, pod.ready) {
        (true, _, _) => "draining",
        (false, true, _) => "available",
        (false, false, true) => "ready",
        (false, false, false) => "not ready",
    }
}

#[cfg(test)]
pub(crate) mod tests;
