//! Lines on logarithmic axes, as SVG.

use anyhow::Result;
use plotters::prelude::{
    ChartBuilder, Circle, Color as _, DashedLineSeries, IntoLogRange as _, LineSeries, TRANSPARENT,
};

use crate::picture::{self, COLOURS, GRID, HPos, decades, font, text};

/// One line of a plot.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

const WIDTH: i32 = 900;
const HEIGHT: i32 = 520;
const RIGHT: i32 = 230;
const TOP: i32 = 50;
/// A tick a decade: with more, plotters puts some between them.
const TICKS: usize = 9;

/// Draws seconds by counts, over decades of both axes.
pub(super) fn plot(title: &str, x_name: &str, y_name: &str, lines: &[Line]) -> Result<String> {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (x, y) = (decades(all().map(|point| point.0)), decades(all().map(|point| point.1)));
    picture::draw((WIDTH.unsigned_abs(), HEIGHT.unsigned_abs()), title, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_left(8)
            .margin_right(RIGHT)
            .x_label_area_size(56)
            .y_label_area_size(72)
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .label_style(font(13))
            .x_labels(TICKS)
            .y_labels(TICKS)
            .x_label_formatter(&|value| count(*value))
            .y_label_formatter(&|value| time(*value))
            .x_desc(x_name)
            .y_desc(y_name)
            .draw()?;
        let mut ends: Vec<(i32, usize)> = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let (points, stroke) = (line.points.iter().copied(), colour.stroke_width(2));
            if number < COLOURS.len() {
                chart.draw_series(LineSeries::new(points.clone(), stroke))?;
            } else {
                chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, stroke))?;
            }
            chart.draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?;
            ends.extend(line.points.last().map(|last| (chart.backend_coord(last).1, number)));
        }
        // Names stand where their lines end, and not on each other.
        ends.sort_unstable();
        let mut free = TOP;
        for (end, number) in ends {
            let at = end.max(free);
            free = at + 17;
            let colour = COLOURS[number % COLOURS.len()];
            text(area, &lines[number].name, (WIDTH - RIGHT + 12, at), 13, colour, HPos::Left)?;
        }
        Ok(())
    })
}

fn count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.0} M", value / 1e6),
        value if value >= 1e3 => format!("{:.0} k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1e-3 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{:.0} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, plot, time};

    #[test]
    fn greater_values_stand_higher_and_further_right() {
        let line = Line { name: "page".into(), points: vec![(1e6, 0.001), (1e7, 0.01)] };
        let svg = plot("t", "rows", "time", &[line]).unwrap();
        assert!(svg.contains(r#"points="80,463 668,51 ""#), "{svg}");
        for tick in ["1 M", "10 M", "1 ms", "10 ms"] {
            assert!(svg.contains(&format!("\n{tick}\n")), "{tick}: {svg}");
        }
    }

    #[test]
    fn ticks_of_time_have_units() {
        assert_eq!([0.0001, 0.1, 1.0, 100.0].map(time), ["100 µs", "100 ms", "1 s", "100 s"]);
    }
}
