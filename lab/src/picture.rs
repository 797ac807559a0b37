//! What all pictures have in common: SVG on white, under a title.

use std::ops::Range;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, FontFamily, IntoDrawingArea as _, RGBColor, SVGBackend, WHITE};
use plotters::style::IntoTextStyle as _;
use plotters::style::text_anchor::{Pos, VPos};

pub(crate) use plotters::style::text_anchor::HPos;

/// Colours that people tell apart, whoever they are (Okabe and Ito).
pub(crate) const COLOURS: [RGBColor; 7] = [
    BLUE,
    RED,
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x66, 0x66, 0x66),
];
pub(crate) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(crate) const RED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
pub(crate) const BLACK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// For the lines behind what is shown.
pub(crate) const GRID: RGBColor = RGBColor(0xe0, 0xe0, 0xe0);

/// What is drawn on.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws a picture of this size.
pub(crate) fn draw(
    size: (u32, u32),
    title: &str,
    content: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    text(&area, title, (16, 24), 17, BLACK, HPos::Left)?;
    content(&area)?;
    area.present()?;
    drop(area);
    Ok(svg)
}

/// Writes a line of text. `at` is the middle of its height.
pub(crate) fn text(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: u32,
    colour: RGBColor,
    side: HPos,
) -> Result<()> {
    let style = font(size).into_text_style(area).color(&colour).pos(Pos::new(side, VPos::Center));
    area.draw_text(text, &style, at)?;
    Ok(())
}

/// The font in this size. The backend takes heights of lines, not of letters.
pub(crate) fn font(size: u32) -> (FontFamily<'static>, f64) {
    (FontFamily::SansSerif, f64::from(size) * 1.24)
}

/// Whole decades around all values, for a logarithmic axis. Some more at both ends, so that rounding loses no tick.
pub(crate) fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let powers = values.filter(|value| *value > 0.0).map(f64::log10);
    let (low, high) = powers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), power| {
        (low.min(power.floor()), high.max(power.ceil()))
    });
    let (low, high) = if low <= high { (low, high.max(low + 1.0)) } else { (0.0, 1.0) };
    10_f64.powf(low) * 0.999..10_f64.powf(high) * 1.001
}
