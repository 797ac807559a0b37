//! Ratios as bars, each with its limit, as SVG.

use anyhow::Result;
use plotters::prelude::{ChartBuilder, Color as _, PathElement, RGBColor, Rectangle, TRANSPARENT};

use super::figures::{Asked, Figure, RATE, short};
use crate::picture::{self, BLACK, BLUE, GRID, HPos, RED, font, text};

const WIDTH: i32 = 1000;
const LEFT: i32 = 430;
const RIGHT: i32 = 150;
const TOP: i32 = 50;
const ROW: i32 = 26;
const TICKS: i32 = 26;
const BOTTOM: i32 = 76;

/// Light enough that the half of the pairs is seen on it.
const GREY: RGBColor = RGBColor(0xa8, 0xa8, 0xa8);

/// Bars that are so many times longer than the median are cut off: one of a hundred would leave nothing to see of the
/// others.
const LONGEST: f64 = 5.0;

const AXIS: &str = "ratio: the figure of Antiphon divided by the figure of the baseline (1 = equal)";
const LEGEND: [&str; 2] = [
    "Lower is better. In rows with ↑ (rates), higher is better. Thin line: middle half of the measured pairs. Thick line: limit.",
    "Blue: limit met. Orange: limit not met. Grey: no limit. »: the bar is longer than the axis.",
];

/// Draws the ratios of `figures`; `None` where they have none.
pub(super) fn bars(title: &str, figures: &[Figure]) -> Result<Option<String>> {
    let rows: Vec<(&Figure, f64)> = figures.iter().filter_map(|it| Some((it, it.ratio?))).collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let values = rows.iter().flat_map(|(figure, ratio)| [Some(*ratio), limit(figure)]).flatten();
    let end = (values.fold(0.0, f64::max) * 1.05).clamp(1.5, LONGEST * median(&rows).max(1.0));
    let count = i32::try_from(rows.len())?;
    let height = TOP + ROW * count + TICKS + BOTTOM;
    let picture = picture::draw((WIDTH.unsigned_abs(), height.unsigned_abs()), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_left(LEFT)
            // plotters maps the end of a range to the last pixel but one.
            .margin_right(RIGHT - 1)
            .margin_top(TOP)
            .margin_bottom(BOTTOM - 1)
            .x_label_area_size(TICKS)
            .build_cartesian_2d(0.0..end, f64::from(count)..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .label_style(font(13))
            .x_labels(6)
            .x_label_formatter(&|ratio| format!("{}", (ratio * 10.0).round() / 10.0))
            .draw()?;
        let line = |points: [(f64, f64); 2], width| PathElement::new(points, BLACK.stroke_width(width));
        chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, f64::from(count))], GREY)])?;
        for (number, (figure, ratio)) in (0..).zip(&rows) {
            let (top, middle) = (f64::from(number), TOP + ROW * number + ROW / 2);
            let colour = match figure.is_met() {
                Some(true) => BLUE,
                Some(false) => RED,
                None => GREY,
            };
            let bar = [(0.0, top + 0.15), (ratio.min(end), top + 0.85)];
            chart.draw_series([Rectangle::new(bar, colour.filled())])?;
            if let Some((low, high)) = figure.middle {
                chart.draw_series([line([(low.min(end), top + 0.5), (high.min(end), top + 0.5)], 1)])?;
            }
            // As high as the row, so that rows with one limit have one line.
            if let Some(limit) = limit(figure) {
                chart.draw_series([line([(limit.min(end), top), (limit.min(end), top + 1.0)], 2)])?;
            }
            let cut = if *ratio > end { " »" } else { "" };
            text(area, &label(figure, figures), (LEFT - 10, middle), 13, BLACK, HPos::Right)?;
            let value = format!("{}{cut}", value(figure, *ratio));
            text(area, &value, (WIDTH - RIGHT + 12, middle), 13, BLACK, HPos::Left)?;
        }
        text(area, AXIS, (LEFT, height - BOTTOM + 12), 12, BLACK, HPos::Left)?;
        for (line, at) in LEGEND.iter().zip([36, 16]) {
            text(area, line, (16, height - at), 12, BLACK, HPos::Left)?;
        }
        Ok(())
    })?;
    Ok(Some(picture))
}

fn median(rows: &[(&Figure, f64)]) -> f64 {
    let mut ratios: Vec<f64> = rows.iter().map(|(_, ratio)| *ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// A thing may stand beside several others, a bar each.
fn label(figure: &Figure, all: &[Figure]) -> String {
    let name = figure.name.replace('`', "");
    let is_alone = all.iter().filter(|it| it.name == figure.name && it.ratio.is_some()).count() < 2;
    let name = if is_alone { name } else { format!("{name} / {}", figure.beside) };
    if is_rate(figure) { format!("{name} ↑") } else { name }
}

/// Of rates, more is better.
fn is_rate(figure: &Figure) -> bool {
    matches!(figure.asked, Some(Asked::RatioAtLeast(_))) || figure.unit.ends_with(RATE)
}

fn limit(figure: &Figure) -> Option<f64> {
    match figure.asked? {
        Asked::RatioAtMost(limit) | Asked::RatioAtLeast(limit) => Some(limit),
        Asked::AtMost(_) => None,
    }
}

fn value(figure: &Figure, ratio: f64) -> String {
    let ratio = short(ratio);
    match figure.asked {
        Some(Asked::RatioAtMost(limit)) => format!("{ratio} (≤ {limit})"),
        Some(Asked::RatioAtLeast(limit)) => format!("{ratio} (≥ {limit})"),
        Some(Asked::AtMost(_)) | None => ratio,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ours: f64, limit: f64) -> Figure {
        Figure::new("`Box<T>`", "µs", ours).beside("bare", 1.0).asked(Asked::RatioAtMost(limit))
    }

    /// All of one kind, as their attributes.
    fn found(svg: &str, tag: &str, attributes: &[&str]) -> Vec<Vec<String>> {
        let document = roxmltree::Document::parse(svg).unwrap();
        let nodes =
            document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", tag)));
        let read = |node: roxmltree::Node<'_, '_>| {
            attributes.iter().map(|name| node.attribute(*name).unwrap_or_default().to_owned()).collect()
        };
        nodes.map(read).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_ratio_and_the_limit_stands_where_it_is() {
        // The axis ends at 2 × 1.05: 420 pixels.
        let svg = bars("t", &[figure(1.05, 2.0), figure(2.0, 1.05)]).unwrap().unwrap();
        let bars = found(&svg, "rect", &["x", "width", "fill"]);
        assert_eq!(bars[1..], [["430", "210", "#0072B2"], ["430", "400", "#D55E00"]], "{svg}");
        let lines = found(&svg, "polyline", &["stroke-width", "points"]);
        let limits: Vec<&str> = lines.iter().filter(|it| it[0] == "2").map(|it| it[1].trim_end()).collect();
        assert_eq!(limits, ["830,50 830,76", "640,76 640,102"], "{svg}");
    }

    #[test]
    fn names_do_not_break_the_picture_and_long_bars_are_cut() {
        let svg = bars("a & b", &[figure(100.0, 2.0), figure(1.0, 2.0), figure(1.0, 2.0)]).unwrap().unwrap();
        assert!(svg.contains("Box&lt;T&gt;") && svg.contains("100 (≤ 2) »"), "{svg}");
        assert_eq!(found(&svg, "rect", &["width"])[1], ["420"], "{svg}");
    }

    #[test]
    fn one_thing_beside_several_has_a_bar_for_each() {
        let page = |who: &str| Figure::new("page", "ms", 2.0).beside(who, 1.0);
        let svg = bars("t", &[page("parquet"), page("PostgreSQL"), figure(1.0, 2.0)]).unwrap().unwrap();
        assert!(svg.contains("\npage / parquet\n") && svg.contains("\npage / PostgreSQL\n"), "{svg}");
        assert!(svg.contains("\nBox&lt;T&gt;\n"), "{svg}");
    }

    #[test]
    fn bars_that_are_alike_are_not_cut_and_rates_are_marked() {
        let rate = |ratio: f64| Figure::new("legs", "a second", ratio).beside("bare", 1.0);
        let svg = bars("t", &[rate(20.0), rate(40.0)]).unwrap().unwrap();
        assert!(svg.contains("\nlegs / bare ↑\n") && svg.contains("\n40.0\n"), "{svg}");
        // The axis ends at 40 × 1.05: 420 pixels.
        assert_eq!(found(&svg, "rect", &["width"])[1..], [["200"], ["400"]], "{svg}");
    }

    #[test]
    fn without_a_ratio_there_is_no_picture() {
        assert_eq!(bars("t", &[Figure::new("memory", "MiB", 3.0)]).unwrap(), None);
    }
}
