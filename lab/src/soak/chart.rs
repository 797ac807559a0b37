//! The soak as a picture: how long, how many, how much memory, and what was broken when.

use anyhow::Result;
use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    ChartBuilder, Color as _, IntoLogRange as _, LineSeries, RGBColor, Rectangle, SVGBackend, TRANSPARENT,
};

use super::figures::{Figures, Span};
use super::replicas::ELDEST;
use super::samples::Sample;
use crate::picture::{self, Area, BLACK, COLOURS, GRID, HPos, decades, font, text};

const WIDTH: i32 = 1000;
const LEFT: i32 = 90;
const RIGHT: i32 = 130;
/// Over the panels, for the title.
const TOP: i32 = 40;
const PANEL: i32 = 250;
/// Over each panel's lines, for its name.
const HEAD: i32 = 40;
const FOOT: i32 = 42;
const PANELS: usize = 3;

/// While something is broken.
const BROKEN: RGBColor = RGBColor(0xf3, 0xd9, 0xd0);
const LETTER: RGBColor = RGBColor(0xa0, 0x40, 0x20);

/// One line of a panel.
struct Line {
    name: &'static str,
    /// By minutes.
    points: Vec<(f64, f64)>,
}

struct Panel {
    title: &'static str,
    is_logarithmic: bool,
    lines: Vec<Line>,
}

/// Draws it.
pub(super) fn draw(figures: &Figures) -> Result<String> {
    let minutes = figures.samples.last().map_or(1.0, |sample| sample.at).max(1.0) / 60.0;
    let (store, rate) = (&figures.about.store, figures.about.rate);
    let title = format!(
        "{minutes:.0} minutes, three replicas on {store}, {rate} visits per second. Shaded: a fault, with its letter"
    );
    let height = TOP + PANEL * i32::try_from(PANELS)?;
    picture::draw((WIDTH.unsigned_abs(), height.unsigned_abs()), &title, |area| {
        let (_, below) = area.split_vertically(TOP);
        for (panel, area) in panels(&figures.samples).iter().zip(below.split_evenly((PANELS, 1))) {
            panel.draw(&area, minutes, &figures.windows)?;
        }
        Ok(())
    })
}

fn panels(samples: &[Sample]) -> [Panel; PANELS] {
    let line = |name, value: &dyn Fn(&Sample) -> Option<f64>| Line {
        name,
        points: samples.iter().filter_map(|sample| Some((sample.at / 60.0, value(sample)?))).collect(),
    };
    let second = super::samples::EVERY.as_secs_f64();
    let count = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / second;
    let latency =
        vec![line("p50", &|it| Some(it.p50_ms?.max(0.1))), line("p99", &|it| Some(it.p99_ms?.max(0.1)))];
    let requests = vec![
        line("answered", &|it| Some(count(it.requests))),
        line("failed tries", &|it| Some(count(it.errors))),
    ];
    let memory = vec![line("memory", &|it| it.replicas[ELDEST].map(|body| body.rss_mib))];
    [
        Panel { title: "latency in ms, logarithmic (lower is better)", is_logarithmic: true, lines: latency },
        Panel { title: "requests per second", is_logarithmic: false, lines: requests },
        Panel {
            title: "resident memory in MiB of the replica that was never killed (a flat line is better)",
            is_logarithmic: false,
            lines: memory,
        },
    ]
}

type Chart<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;

impl Panel {
    fn draw(&self, area: &Area<'_>, minutes: f64, broken: &[Span]) -> Result<()> {
        let values = || self.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let mut builder = ChartBuilder::on(area);
        builder.margin_top(HEAD).margin_right(RIGHT).x_label_area_size(FOOT).y_label_area_size(LEFT);
        if self.is_logarithmic {
            let range = decades(values()).log_scale();
            self.fill(area, broken, builder.build_cartesian_2d(0.0..minutes, range)?)
        } else {
            // From nought, so that a small change looks small.
            let high = (values().fold(0.0, f64::max) * 1.15).max(1.0);
            self.fill(area, broken, builder.build_cartesian_2d(0.0..minutes, 0.0..high)?)
        }
    }

    fn fill<Y>(&self, area: &Area<'_>, broken: &[Span], mut chart: Chart<'_, '_, Y>) -> Result<()>
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let (low, high) = (chart.y_range().start, chart.y_range().end);
        // Wide enough to be seen.
        let least = 2.0 * chart.x_range().end / f64::from(WIDTH - LEFT - RIGHT);
        for span in broken {
            let from = span.from / 60.0;
            let to = (span.to / 60.0).max(from + least);
            chart.draw_series([Rectangle::new([(from, low), (to, high)], BROKEN.filled())])?;
            let left = chart.backend_coord(&(from, high)).0;
            text(area, &span.fault.letter().to_string(), (left, HEAD - 8), 9, LETTER, HPos::Left)?;
        }
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .label_style(font(13))
            .x_labels(13)
            .y_labels(5)
            .x_label_formatter(&|minute| format!("{minute:.0}"))
            .y_label_formatter(&|value| format!("{value:.0}"))
            .x_desc("minutes")
            .draw()?;
        text(area, self.title, (LEFT, HEAD - 26), 13, BLACK, HPos::Left)?;
        for ((line, colour), at) in self.lines.iter().zip(COLOURS).zip((HEAD + 12..).step_by(17)) {
            chart.draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?;
            text(area, line.name, (WIDTH - RIGHT + 12, at), 13, colour, HPos::Left)?;
        }
        Ok(())
    }
}
