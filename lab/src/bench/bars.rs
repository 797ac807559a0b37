//! Ratios as bars, each with its limit, as SVG.

use std::fmt::Write as _;

use super::figures::{Asked, Figure, short};
use super::plot::{BLUE, RED, escaped};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 430.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 64.0;
const ROW: f64 = 26.0;
const BOTTOM: f64 = 56.0;

/// Light enough that the half of the pairs is seen on it.
const GREY: &str = "#a8a8a8";

/// Bars that are longer are cut off: one of a hundred would leave nothing to see of the others.
const LONGEST: f64 = 5.0;

/// Draws the ratios of `figures`; `None` where they have none.
pub(super) fn bars(title: &str, figures: &[Figure]) -> Option<String> {
    let rows: Vec<(&Figure, f64)> = figures.iter().filter_map(|it| Some((it, it.ratio?))).collect();
    if rows.is_empty() {
        return None;
    }
    let values = rows.iter().flat_map(|(figure, ratio)| [Some(*ratio), limit(figure)]).flatten();
    let end = (values.fold(0.0, f64::max) * 1.05).clamp(1.5, LONGEST);
    let place = |ratio: f64| LEFT + ratio.min(end) / end * (WIDTH - LEFT - RIGHT);
    let bottom = ROW.mul_add(f64::from(u32::try_from(rows.len()).unwrap_or(u32::MAX)), TOP);
    let height = bottom + BOTTOM;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13"><title>{0}</title><rect width="100%" height="100%" fill="#ffffff"/><text x="16" y="28" font-size="17" fill="#222">{0}</text>"##,
        escaped(title)
    );
    // Writing to a string does not fail.
    let step = if end > 2.5 { 1.0 } else { 0.5 };
    let mut tick = 0.0;
    while tick <= end {
        let (at, stroke) = (place(tick), if (tick - 1.0).abs() < 1e-9 { "#777" } else { "#e4e4e4" });
        let _ = write!(
            svg,
            r##"<line x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{bottom:.1}" stroke="{stroke}"/><text x="{at:.1}" y="{:.1}" text-anchor="middle" fill="#444">{tick}</text>"##,
            bottom + 18.0
        );
        tick += step;
    }
    let mut top = TOP;
    for (figure, ratio) in rows {
        let (middle, bar) = (top + ROW / 2.0, place(ratio) - LEFT);
        let colour = match figure.is_met() {
            Some(true) => BLUE,
            Some(false) => RED,
            None => GREY,
        };
        let cut = if ratio > end { " »" } else { "" };
        let _ = write!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="#222">{}</text><rect x="{LEFT}" y="{:.1}" width="{bar:.1}" height="{:.1}" fill="{colour}"/><text x="{:.1}" y="{:.1}" fill="#222">{}{cut}</text>"##,
            LEFT - 10.0,
            middle + 4.0,
            escaped(&label(figure, figures)),
            top + 4.0,
            ROW - 8.0,
            WIDTH - RIGHT + 12.0,
            middle + 4.0,
            escaped(&value(figure, ratio))
        );
        if let Some((low, high)) = figure.middle {
            let _ = write!(
                svg,
                r##"<line x1="{:.1}" y1="{middle:.1}" x2="{:.1}" y2="{middle:.1}" stroke="#222"/>"##,
                place(low),
                place(high)
            );
        }
        // As high as the row, so that rows with one limit have one line.
        if let Some(limit) = limit(figure) {
            let at = place(limit);
            let _ = write!(
                svg,
                r##"<line class="limit" x1="{at:.1}" y1="{top:.1}" x2="{at:.1}" y2="{:.1}" stroke="#222" stroke-width="2"/>"##,
                top + ROW
            );
        }
        top += ROW;
    }
    let _ = write!(
        svg,
        r##"<text x="16" y="{:.1}" font-size="12" fill="#444">Ratio of Antiphon to the baseline. Lower is better; for rates (jobs, legs, streams), higher is better. Black line: limit. Blue: met. Orange: not met. Grey: no limit.</text></svg>"##,
        height - 14.0
    );
    svg.push('\n');
    Some(svg)
}

/// A thing may stand beside several others, a bar each.
fn label(figure: &Figure, all: &[Figure]) -> String {
    let name = figure.name.replace('`', "");
    let is_alone = all.iter().filter(|it| it.name == figure.name && it.ratio.is_some()).count() < 2;
    if is_alone { name } else { format!("{name} / {}", figure.beside) }
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

    #[test]
    fn a_bar_is_as_long_as_its_ratio_and_the_limit_stands_where_it_is() {
        // The axis ends at 2 × 1.05: 420 pixels.
        let svg = bars("t", &[figure(1.05, 2.0), figure(2.0, 1.05)]).unwrap();
        assert!(svg.contains(&format!(r#"width="210.0" height="18.0" fill="{BLUE}""#)), "{svg}");
        assert!(svg.contains(&format!(r#"width="400.0" height="18.0" fill="{RED}""#)), "{svg}");
        assert!(svg.contains(r#"<line class="limit" x1="830.0" y1="64.0" x2="830.0" y2="90.0""#), "{svg}");
        assert!(svg.contains(r#"<line class="limit" x1="640.0" y1="90.0" x2="640.0" y2="116.0""#), "{svg}");
    }

    #[test]
    fn names_do_not_break_the_picture_and_long_bars_are_cut() {
        let svg = bars("a & b", &[figure(100.0, 2.0)]).unwrap();
        roxmltree::Document::parse(&svg).unwrap();
        assert!(svg.contains("Box&lt;T&gt;") && svg.contains("100 (≤ 2) »"), "{svg}");
        assert!(svg.contains(r#"width="420.0""#), "{svg}");
    }

    #[test]
    fn one_thing_beside_several_has_a_bar_for_each() {
        let page = |who: &str| Figure::new("page", "ms", 2.0).beside(who, 1.0);
        let svg = bars("t", &[page("parquet"), page("PostgreSQL"), figure(1.0, 2.0)]).unwrap();
        assert!(svg.contains("page / parquet<") && svg.contains("page / PostgreSQL<"), "{svg}");
        assert!(svg.contains(">Box&lt;T&gt;<"), "{svg}");
    }

    #[test]
    fn without_a_ratio_there_is_no_picture() {
        assert_eq!(bars("t", &[Figure::new("memory", "MiB", 3.0)]), None);
    }
}
