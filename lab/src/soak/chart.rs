//! The soak as a picture: how long, how many, how much memory, and what was broken when.

use std::fmt::Write as _;

use super::figures::Figures;
use super::replicas::ELDEST;
use super::samples::Sample;
use crate::bench::COLOURS;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 70.0;
const PANEL: f64 = 170.0;
const GAP: f64 = 60.0;
const PANELS: usize = 3;

/// One line of a panel.
struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

struct Panel {
    title: &'static str,
    is_logarithmic: bool,
    lines: Vec<Line>,
}

/// Draws it.
pub(super) fn draw(figures: &Figures) -> String {
    let end = figures.samples.last().map_or(1.0, |sample| sample.at).max(1.0);
    let height = place(PANELS, 1.0);
    let title = format!(
        "{:.0} minutes, three replicas on {}, {} visits a second",
        end / 60.0,
        figures.about.store,
        figures.about.rate
    );
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13"><title>{title}</title><rect width="100%" height="100%" fill="#ffffff"/><text x="{LEFT}" y="28" font-size="17" fill="#222">{title}</text>"##
    );
    let x = |at: f64| LEFT + at / end * (WIDTH - RIGHT - LEFT);
    for span in &figures.windows {
        let (from, width) = (x(span.from), (x(span.to) - x(span.from)).max(1.5));
        let bottom = place(PANELS - 1, 0.0);
        // Writing to a string does not fail.
        let _ = write!(
            svg,
            r##"<rect x="{from:.1}" y="{TOP}" width="{width:.1}" height="{:.1}" fill="#f3d9d0"><title>{}</title></rect><text x="{from:.1}" y="{:.1}" font-size="9" fill="#a04020">{}</text>"##,
            bottom - TOP,
            span.fault.name(),
            TOP - 6.0,
            span.fault.letter()
        );
    }
    for (number, panel) in panels(&figures.samples).iter().enumerate() {
        panel.draw(&mut svg, number, x);
    }
    let minutes = (end / 60.0).ceil();
    let step = (minutes / 12.0).ceil().max(1.0);
    let mut minute = 0.0;
    while minute * 60.0 <= end {
        let _ = write!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#444">{minute:.0}</text>"##,
            x(minute * 60.0),
            place(PANELS - 1, 0.0) + 20.0
        );
        minute += step;
    }
    let _ = write!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#222">minutes</text></svg>"##,
        x(end / 2.0),
        place(PANELS - 1, 0.0) + 40.0
    );
    svg.push('\n');
    svg
}

fn panels(samples: &[Sample]) -> [Panel; PANELS] {
    let line = |name, value: &dyn Fn(&Sample) -> Option<f64>| Line {
        name,
        points: samples.iter().filter_map(|sample| Some((sample.at, value(sample)?))).collect(),
    };
    let second = super::samples::EVERY.as_secs_f64();
    let count = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / second;
    let latency = vec![line("p50", &|it| it.p50_ms), line("p99", &|it| it.p99_ms)];
    let requests = vec![
        line("answered", &|it| Some(count(it.requests))),
        line("failed tries", &|it| Some(count(it.errors))),
    ];
    let memory = vec![line("never killed", &|it| it.replicas[ELDEST].map(|body| body.rss_mib))];
    [
        Panel { title: "latency, ms", is_logarithmic: true, lines: latency },
        Panel { title: "requests a second", is_logarithmic: false, lines: requests },
        Panel { title: "resident memory, MiB", is_logarithmic: false, lines: memory },
    ]
}

/// Where in the picture a share of a panel's height is, from its foot.
fn place(panel: usize, share: f64) -> f64 {
    let above = f64::from(u32::try_from(panel).unwrap_or_default());
    TOP + above * (PANEL + GAP) + PANEL * (1.0 - share)
}

impl Panel {
    fn draw(&self, svg: &mut String, number: usize, x: impl Fn(f64) -> f64) {
        let scale = |value: f64| if self.is_logarithmic { value.max(0.1).log10() } else { value };
        let all = self.lines.iter().flat_map(|line| &line.points).map(|point| scale(point.1));
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        all.for_each(|value| (low, high) = (low.min(value), high.max(value)));
        if self.is_logarithmic {
            (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
        } else {
            // From nought, so that a small change looks small.
            (low, high) = (0.0, (high * 1.15).max(1.0));
        }
        let y = |value: f64| place(number, (scale(value) - low) / (high - low));
        let ticks = if self.is_logarithmic { high - low } else { 4.0 };
        let mut tick = 0.0;
        while tick <= ticks {
            let value = low + (high - low) * tick / ticks;
            let value = if self.is_logarithmic { 10_f64.powf(value) } else { value };
            let _ = write!(
                svg,
                r##"<line x1="{LEFT}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}" stroke="#dddddd"/><text x="{:.1}" y="{:.1}" text-anchor="end" fill="#444">{value:.0}</text>"##,
                WIDTH - RIGHT,
                LEFT - 8.0,
                y(value) + 4.0,
                at = y(value)
            );
            tick += 1.0;
        }
        let _ = write!(
            svg,
            r##"<text x="{LEFT}" y="{:.1}" fill="#222">{}</text>"##,
            place(number, 1.0) - 20.0,
            self.title
        );
        for (place_of_name, (line, colour)) in self.lines.iter().zip(COLOURS).enumerate() {
            let points: Vec<String> =
                line.points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
            let offset = 17.0 * f64::from(u32::try_from(place_of_name).unwrap_or_default());
            let _ = write!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.6"/><text x="{:.1}" y="{:.1}" fill="{colour}">{}</text>"#,
                points.join(" "),
                WIDTH - RIGHT + 12.0,
                place(number, 1.0) + 12.0 + offset,
                line.name
            );
        }
    }
}
