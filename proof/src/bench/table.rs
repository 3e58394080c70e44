//! The figures as tables: Markdown that is aligned, so that a terminal shows it well and a document takes it as it is.

use super::chart::{Bar, Chart};
use super::side::Side;

/// Both tables: what was raced, and what was measured of deployd alone.
pub(crate) fn tables(charts: &[Chart]) -> String {
    let raced = |chart: &&Chart| chart.bars.iter().any(|bar| bar.label == Side::Raw.label());
    let (races, alone): (Vec<&Chart>, Vec<&Chart>) = charts.iter().partition(raced);
    [(!races.is_empty()).then(|| race_table(&races)), (!alone.is_empty()).then(|| figure_table(&alone))]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n")
}

fn race_table(charts: &[&Chart]) -> String {
    let header = ["", "rounds", "raw Docker", "Swarm mode", "deployd", "deployd : raw", "Swarm : deployd", "goal"];
    let rows = charts.iter().map(|chart| {
        let bar = |side: Side| chart.bars.iter().find(|bar| bar.label == side.label());
        let time = |side: Side| bar(side).map_or_else(dash, |bar| with_spread(bar, chart.unit));
        let times = |above, below| chart.compared(above, below).map_or_else(dash, |ratio| format!("{ratio:.2} x"));
        vec![
            chart.title.clone(),
            bar(Side::Deployd).map_or_else(dash, |bar| bar.count.to_string()),
            time(Side::Raw),
            time(Side::Swarm),
            time(Side::Deployd),
            times(Side::Deployd, Side::Raw),
            times(Side::Swarm, Side::Deployd),
            goals(chart),
        ]
    });
    markdown(&header, &rows.collect::<Vec<_>>())
}

fn figure_table(charts: &[&Chart]) -> String {
    let row = |chart: &Chart, bar: &Bar, first: bool| {
        let spread = if bar.count > 1 {
            format!("{} .. {} of {}", number(bar.least), number(bar.most), bar.count)
        } else {
            String::new()
        };
        let goal = if first { goals(chart) } else { String::new() };
        vec![chart.title.clone(), bar.label.clone(), with_unit(bar.value, chart.unit), spread, goal]
    };
    let rows = charts.iter().flat_map(|chart| {
        let bars = chart.bars.iter().enumerate();
        bars.map(|(index, bar)| row(chart, bar, index == 0)).collect::<Vec<_>>()
    });
    markdown(&["", "", "measured", "least .. most", "goal"], &rows.collect::<Vec<_>>())
}

fn goals(chart: &Chart) -> String {
    chart.goals.iter().map(super::chart::Goal::shown).collect::<Vec<_>>().join(", ")
}

fn dash() -> String {
    "-".to_owned()
}

/// Three digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A value with its unit; times below a tenth of a second are told in milliseconds.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    if unit == "s" && value > 0.0 && value < 0.1 {
        return format!("{} ms", number(value * 1000.0));
    }
    format!("{} {unit}", number(value)).trim_end().to_owned()
}

/// The middle, and what lies around it where there is more than one.
fn with_spread(bar: &Bar, unit: &str) -> String {
    let value = with_unit(bar.value, unit);
    if bar.count > 1 { format!("{value} ({} .. {})", number(bar.least), number(bar.most)) } else { value }
}

/// Aligned Markdown.
pub(crate) fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|word| (*word).to_owned()).collect();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let cells = std::iter::once(&header).chain(rows).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = format!("|{}|\n", widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("|"));
    std::iter::once(line(&header)).chain([rule]).chain(rows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::chart::Goal;
    use super::super::chart::tests::race;
    use super::*;

    #[test]
    fn numbers_show_three_digits_that_matter() {
        let shown = [0.0, 0.0123, 1.234, 12.34, 123.4, 12345.6].map(number).join(" ");
        assert_eq!(shown, "0 0.012 1.23 12.3 123 12346");
        assert_eq!([with_unit(0.0123, "s"), with_unit(0.5, "s"), with_unit(7.0, "")].join(" "), "12.3 ms 0.500 s 7.00");
    }

    #[test]
    fn races_stand_in_one_table_and_the_rest_in_another() {
        let alone = Chart {
            name: "kill".to_owned(),
            title: "killed".to_owned(),
            unit: "s",
            bars: vec![Bar { label: "p50".to_owned(), value: 0.25, least: 0.2, most: 0.3, count: 9 }],
            goals: vec![Goal::new("at most 0.5 s", true)],
        };
        let text = tables(&[race(10.0, 60.0, 10.0).with_update_goal(), alone]);
        let expected = "\
|              | rounds | raw Docker | Swarm mode | deployd | deployd : raw | Swarm : deployd | goal                              |
|--------------|--------|------------|------------|---------|---------------|-----------------|-----------------------------------|
| 50 instances | 1      | 10.0 s     | 60.0 s     | 10.0 s  | 1.00 x        | 6.00 x          | Swarm mode takes 5 x as long (met) |
";
        // The rule and the header are as wide as the widest cell.
        let squeeze = |text: &str| text.split_whitespace().filter(|word| !word.starts_with("|--")).collect::<String>();
        assert!(squeeze(&text).starts_with(&squeeze(expected)), "{text}");
        assert!(text.contains("| killed | p50 | 0.250 s  | 0.200 .. 0.300 of 9 | at most 0.5 s (met) |"), "{text}");
    }

    #[test]
    fn several_rounds_show_how_far_they_lie_apart() {
        let bar = Bar { label: "a".to_owned(), value: 6.1, least: 5.25, most: 12.04, count: 12 };
        assert_eq!(with_spread(&bar, "s"), "6.10 s (5.25 .. 12.0)");
        assert_eq!(with_spread(&Bar { count: 1, ..bar }, "s"), "6.10 s");
    }

    #[test]
    fn every_line_of_a_table_is_equally_long() {
        let text =
            markdown(&["a", ""], &[vec!["long one".to_owned(), "é".to_owned()], vec![String::new(), "b".to_owned()]]);
        let lengths: std::collections::BTreeSet<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!((lengths.len(), text.lines().count()), (1, 4), "{text}");
    }
}
