//! Draws one figure as a bar chart: plain SVG without scripts, readable on light and on dark ground.

use std::fmt::Write as _;

use super::chart::Chart;
use super::side::Side;
use super::table::{number, with_unit};

const WIDTH: f64 = 760.0;
/// Where the bars begin: labels stand left of it.
const LEFT: f64 = 190.0;
/// Room for the value behind the longest bar.
const RIGHT: f64 = 130.0;
const TOP: f64 = 62.0;
const ROW: f64 = 34.0;
const BAR: f64 = 20.0;
const BOTTOM: f64 = 50.0;
/// Lines of the axis, at most.
const TICKS: f64 = 5.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}.small{font-size:11px}\
.line{stroke:#8c959f;stroke-width:1;opacity:.5}.bar{fill:#9aa4b0}.ours{fill:#2f6fdb}.spread{stroke:#24292f;stroke-width:1.5}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.ours{fill:#4c8dff}.spread{stroke:#e6edf3}}";

/// The picture of a figure.
pub(crate) fn draw(chart: &Chart) -> String {
    let step = tick(chart.bars.iter().map(|bar| bar.value.max(bar.most)).fold(0.0, f64::max));
    let most = chart.bars.iter().map(|bar| bar.value.max(bar.most)).fold(step, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let end = TOP + ROW * rows(chart);
    let mut svg = String::new();
    let height = end + BOTTOM;
    // Writing to a string does not fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"16\" y=\"28\">{title}</text>\n",
        title = escape(&chart.title),
    );
    let goals = chart.goals.iter().map(super::chart::Goal::shown).collect::<Vec<_>>().join(", ");
    let _ = writeln!(svg, "<text class=\"small\" x=\"16\" y=\"46\">{}</text>", escape(&goals));
    axis(&mut svg, chart, &Axis { step, most, scale, end });
    for (index, bar) in chart.bars.iter().enumerate() {
        let y = TOP + ROW * count(index) + (ROW - BAR) / 2.0;
        let (middle, width) = (y + BAR / 2.0, (bar.value * scale).max(1.0));
        let is_other = |side: Side| bar.label.starts_with(side.label());
        let class = if is_other(Side::Raw) || is_other(Side::Swarm) { "bar" } else { "bar ours" };
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>\n",
            LEFT - 8.0,
            middle + 4.5,
            escape(&bar.label),
        );
        if bar.count > 1 && bar.most > bar.least {
            let (from, to) = (LEFT + bar.least * scale, LEFT + bar.most * scale);
            let _ = writeln!(svg, "<path class=\"spread\" d=\"M{from:.1} {middle:.1}H{to:.1}\"/>");
        }
        let x = LEFT + (bar.most.max(bar.value) * scale).max(1.0) + 8.0;
        let value = escape(&with_unit(bar.value, chart.unit));
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{value}</text>", middle + 4.5);
    }
    svg.push_str("</svg>\n");
    svg
}

struct Axis {
    step: f64,
    most: f64,
    scale: f64,
    end: f64,
}

fn axis(svg: &mut String, chart: &Chart, axis: &Axis) {
    let mut at = 0.0;
    while at <= axis.most * 1.0001 {
        let x = LEFT + at * axis.scale;
        let _ = write!(
            svg,
            "<path class=\"line\" d=\"M{x:.1} {TOP}V{end}\"/>\n\
             <text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            axis.end + 16.0,
            short(at),
            end = axis.end,
        );
        at += axis.step;
    }
    let spread = if chart.bars.iter().any(|bar| bar.count > 1) { "; the line spans least to most" } else { "" };
    let unit = if chart.unit.is_empty() { String::new() } else { format!("in {}", chart.unit) };
    let text = format!("{unit}{spread}");
    let _ = writeln!(svg, "<text class=\"small\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>", axis.end + 34.0, escape(&text));
}

/// A round distance between lines of the axis.
fn tick(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let rough = most / TICKS;
    let size = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * size).find(|step| *step >= rough).unwrap_or(rough)
}

/// A number without zeros that say nothing.
fn short(value: f64) -> String {
    let text = number(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn rows(chart: &Chart) -> f64 {
    count(chart.bars.len())
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::chart::Goal;
    use super::super::chart::tests::race;
    use super::*;

    #[test]
    fn a_picture_has_title_axis_unit_values_and_no_script() {
        let svg = draw(&race(10.0, 60.0, 8.0).with_update_goal());
        for part in ["50 instances", "raw Docker", "Swarm mode", "deployd", "60.0 s", "8.00 s", "in s", "dark", "(met)"]
        {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert_eq!((svg.matches("<rect").count(), svg.contains("script")), (3, false));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let svg = draw(&race(10.0, 60.0, 30.0));
        let widths: Vec<f64> =
            svg.split("width=\"").skip(2).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
        assert!((widths[1] / widths[0] - 6.0).abs() < 0.01 && (widths[1] / widths[2] - 2.0).abs() < 0.01, "{widths:?}");
        assert!(widths.iter().all(|width| *width <= WIDTH - LEFT - RIGHT + 0.1));
    }

    #[test]
    fn the_axis_has_a_few_round_lines() {
        for (most, step) in [(60.0, 20.0), (0.9, 0.2), (1234.0, 500.0), (0.0, 1.0)] {
            assert!((tick(most) - step).abs() < 1e-9, "{most}: {}", tick(most));
        }
    }

    #[test]
    fn lines_of_the_axis_are_named_without_zeros_that_say_nothing() {
        assert_eq!([0.0, 0.2, 5.0, 20.0, 100.0, 500.0].map(short).join(" "), "0 0.2 5 20 100 500");
    }

    #[test]
    fn words_cannot_break_the_picture() {
        let mut chart = race(1.0, 1.0, 1.0);
        chart.title = "<a & \"b\">".to_owned();
        chart.goals.push(Goal::new("x < y", false));
        let svg = draw(&chart);
        assert!(svg.contains("&lt;a &amp; &quot;b&quot;&gt;") && svg.contains("x &lt; y"), "{svg}");
    }
}
