//! Lines on logarithmic axes, as SVG.

use std::fmt::Write as _;

/// One line of a plot.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Colours that people tell apart, whoever they are (Okabe and Ito).
pub(crate) const COLOURS: [&str; 7] = [BLUE, RED, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666"];
pub(super) const BLUE: &str = "#0072b2";
pub(super) const RED: &str = "#d55e00";

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;

/// Draws lines over decades of both axes.
pub(super) fn plot(title: &str, x_name: &str, y_name: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = Axis::over(all().map(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = Axis::over(all().map(|point| point.1), HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13"><title>{title}</title><rect width="100%" height="100%" fill="#ffffff"/><text x="{LEFT}" y="28" font-size="17" fill="#222">{title}</text>"##
    );
    // Writing to a string does not fail.
    for tick in x.ticks() {
        let at = x.place(tick);
        let (bottom, label) = (HEIGHT - BOTTOM, short(tick));
        let _ = write!(
            svg,
            r##"<line x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{bottom}" stroke="#e4e4e4"/><text x="{at:.1}" y="{:.1}" text-anchor="middle" fill="#444">{label}</text>"##,
            bottom + 20.0
        );
    }
    for tick in y.ticks() {
        let at = y.place(tick);
        let (right, label) = (WIDTH - RIGHT, short(tick));
        let _ = write!(
            svg,
            r##"<line x1="{LEFT}" y1="{at:.1}" x2="{right}" y2="{at:.1}" stroke="#e4e4e4"/><text x="{:.1}" y="{:.1}" text-anchor="end" fill="#444">{label}</text>"##,
            LEFT - 8.0,
            at + 4.0
        );
    }
    let _ = write!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="#222">{x_name}</text><text x="{LEFT}" y="{:.1}" text-anchor="end" fill="#222">{y_name}</text>"##,
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 14.0,
        TOP - 8.0
    );
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dashes = if number >= COLOURS.len() { r#" stroke-dasharray="6 4""# } else { "" };
        let places: Vec<String> = line
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x.place(point.0), y.place(point.1)))
            .collect();
        let _ = write!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>"#,
            places.join(" ")
        );
        for point in &line.points {
            let _ = write!(
                svg,
                r#"<circle cx="{:.1}" cy="{:.1}" r="3.5" fill="{colour}"/>"#,
                x.place(point.0),
                y.place(point.1)
            );
        }
        if let Some(last) = line.points.last() {
            ends.push((y.place(last.1), number));
        }
    }
    // Names stand where their lines end, and not on each other.
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = TOP;
    for (end, number) in ends {
        let at = end.max(free);
        free = at + 17.0;
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" fill="{}">{}</text>"#,
            WIDTH - RIGHT + 12.0,
            at + 4.0,
            COLOURS[number % COLOURS.len()],
            lines[number].name
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Powers of ten between two places.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value.log10());
            high = high.max(value.log10());
        }
        // One value alone needs some room too.
        Self { low: low.floor(), high: high.ceil().max(low.floor() + 1.0), from, to }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (value.log10() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let (mut power, high) = (self.low, self.high);
        std::iter::from_fn(move || {
            let tick = (power <= high).then(|| 10_f64.powf(power));
            power += 1.0;
            tick
        })
    }
}

/// Text as it may stand in SVG.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.0} M", value / 1e6),
        value if value >= 1e3 => format!("{:.0} k", value / 1e3),
        value if value >= 1.0 => format!("{value:.0}"),
        value if value >= 1e-3 => format!("{:.0} ms", value * 1e3),
        value => format!("{:.0} µs", value * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, plot};

    #[test]
    fn greater_values_stand_higher_and_further_right() {
        let line = Line { name: "page".into(), points: vec![(1e6, 0.001), (1e7, 0.01)] };
        let svg = plot("t", "rows", "seconds", &[line]);
        assert!(svg.contains(r#"points="80.0,460.0 670.0,50.0""#), "{svg}");
    }
}
