//! The statistics of one column, collected batch by batch.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use antiphon_results::snapshot::{ColumnStats, Frequent};
use arrow::{
    array::{Array, ArrayRef, AsArray as _, Float64Array, Int64Array},
    compute::{self, cast},
    datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type},
    json::writer::make_encoder,
};
use serde_json::Value;

use super::{
    super::{json, moment},
    histogram::Histogram,
    range::{Range, cut, shown},
    sketch::Sketch,
};
use crate::error::Result;

/// If a column has at most this number of distinct values, the frequency of each value is counted.
const COUNTED: usize = 1_000;

/// The maximum length in bytes of a text whose frequency is counted. If a text in the column is longer than the
/// maximum, the values of the column are not counted.
const COUNTED_TEXT: usize = 200;

/// The number of most frequent values that the statistics contain.
const FREQUENT: usize = 10;

/// The statistics of a column that have been collected so far.
#[derive(Debug)]
pub(super) struct Profile {
    field: FieldRef,
    stats: ColumnStats,
    kind: Kind,
    distinct: Sketch,
    /// The number of values in the column that are not null. If the values are numbers, `sum` is their sum.
    values: u64,
    sum: f64,
    histogram: Option<Histogram>,
}

/// The way in which the values of a column are processed.
#[derive(Debug)]
enum Kind {
    /// The values are processed as integers. Dates and timestamps are also processed as integers.
    Whole {
        counted: Option<HashMap<i64, u64>>,
        summed: bool,
    },
    /// The values are processed as floating-point numbers.
    Real,
    Truth {
        yes: u64,
        no: u64,
    },
    Text {
        counted: Option<HashMap<Box<str>, u64>>,
        least: Option<String>,
        greatest: Option<String>,
    },
    /// The values are processed as JSON, and only distinct values are counted.
    Other,
}

impl Profile {
    pub(super) fn new(field: &FieldRef, range: &Range) -> Self {
        let mut stats = ColumnStats::new(field.name());
        let kind = kind(field);
        let mut histogram = None;
        if let (Some(least), Some(greatest)) = (&range.least, &range.greatest) {
            if !matches!(kind, Kind::Text { .. } | Kind::Other) {
                (stats.min, stats.max) = (shown(field, least), shown(field, greatest));
            }
            histogram = match &kind {
                Kind::Whole { .. } => whole(least)
                    .zip(whole(greatest))
                    .and_then(|(least, greatest)| Histogram::whole(least.value(0), greatest.value(0))),
                Kind::Real => real(least)
                    .zip(real(greatest))
                    .and_then(|(least, greatest)| Histogram::real(least.value(0), greatest.value(0))),
                _ => None,
            };
        }
        let field = FieldRef::clone(field);
        Self { field, stats, kind, distinct: Sketch::new(), values: 0, sum: 0.0, histogram }
    }

    pub(super) fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let missing = array.logical_null_count() as u64;
        self.stats.nulls += missing;
        self.values += array.len() as u64 - missing;
        match &mut self.kind {
            Kind::Whole { counted, summed } => {
                let Some(values) = whole(array) else { return Ok(()) };
                if *summed {
                    let reals = cast(array, &DataType::Float64)?;
                    self.sum += compute::sum(reals.as_primitive::<Float64Type>()).unwrap_or(0.0);
                }
                for value in values.iter().flatten() {
                    self.distinct.number(value.cast_unsigned());
                    if let Some(histogram) = &mut self.histogram {
                        histogram.count_whole(value);
                    }
                    count(counted, value);
                }
            }
            Kind::Real => {
                let Some(values) = real(array) else { return Ok(()) };
                for value in values.iter().flatten() {
                    // NaN and infinities are written as null, so they count as null.
                    if !value.is_finite() {
                        self.stats.nulls += 1;
                        self.values -= 1;
                        continue;
                    }
                    self.sum += value;
                    // Positive and negative zero are the same value.
                    self.distinct.number((value + 0.0).to_bits());
                    if let Some(histogram) = &mut self.histogram {
                        histogram.count_real(value);
                    }
                }
            }
            Kind::Truth { yes, no } => {
                let truths = array.as_boolean();
                let found = truths.true_count() as u64;
                *yes += found;
                *no += array.len() as u64 - missing - found;
            }
            Kind::Text { counted, least, greatest } => {
                let texts = cast(array, &DataType::LargeUtf8)?;
                let texts = texts.as_string::<i64>();
                for text in texts.iter().flatten() {
                    self.distinct.bytes(text.as_bytes());
                    count_text(counted, text);
                }
                if let Some(found) = compute::min_string(texts)
                    && least.as_deref().is_none_or(|least| found < least)
                {
                    *least = Some(found.to_owned());
                }
                if let Some(found) = compute::max_string(texts)
                    && greatest.as_deref().is_none_or(|greatest| found > greatest)
                {
                    *greatest = Some(found.to_owned());
                }
            }
            Kind::Other => {
                let options = json::options();
                let mut encoder = make_encoder(&self.field, array, &options)?;
                let mut text = Vec::new();
                for at in 0..array.len() {
                    if !encoder.is_null(at) {
                        text.clear();
                        encoder.encode(at, &mut text);
                        self.distinct.bytes(&text);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> ColumnStats {
        let Self { field, mut stats, kind, distinct, values, sum, histogram } = self;
        #[expect(clippy::cast_precision_loss, reason = "a mean is a number with a point")]
        let mean = (values > 0).then_some(sum / values as f64).filter(|mean| mean.is_finite());
        stats.distinct = Some(distinct.count().min(values));
        match kind {
            Kind::Whole { counted, summed } => {
                stats.mean = mean.filter(|_| summed);
                if let Some(counted) = counted {
                    stats.distinct = Some(counted.len() as u64);
                    stats.frequent = frequent(counted, |value| show(&field, value));
                }
            }
            Kind::Real => stats.mean = mean,
            Kind::Truth { yes, no } => {
                let counted: HashMap<bool, u64> =
                    [(true, yes), (false, no)].into_iter().filter(|(_, count)| *count > 0).collect();
                stats.distinct = Some(counted.len() as u64);
                stats.frequent = frequent(counted, Value::Bool);
            }
            Kind::Text { counted, least, greatest } => {
                let shown = |text: Option<String>| text.map_or(Value::Null, |text| cut(&text).into());
                (stats.min, stats.max) = (shown(least), shown(greatest));
                if let Some(counted) = counted {
                    stats.distinct = Some(counted.len() as u64);
                    stats.frequent = frequent(counted, |text| Value::String(text.into()));
                }
            }
            Kind::Other => {}
        }
        stats.histogram =
            histogram.map(|histogram| histogram.finish(|value| show(&field, value))).unwrap_or_default();
        stats
    }
}

fn kind(field: &Field) -> Kind {
    match field.data_type() {
        DataType::Boolean => Kind::Truth { yes: 0, no: 0 },
        // The largest `u64` values do not fit into an `i64`.
        DataType::UInt64 => Kind::Real,
        kind if kind.is_integer() => Kind::Whole { counted: Some(HashMap::new()), summed: true },
        kind if kind.is_numeric() => Kind::Real,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            Kind::Whole { counted: None, summed: false }
        }
        DataType::Utf8 | DataType::LargeUtf8 if !json::is_json(field) => {
            Kind::Text { counted: Some(HashMap::new()), least: None, greatest: None }
        }
        _ => Kind::Other,
    }
}

fn whole(array: &ArrayRef) -> Option<Int64Array> {
    let array = match array.data_type() {
        // `Date32` can be cast to `Int64` only through `Int32`.
        DataType::Date32 => cast(array, &DataType::Int32).ok()?,
        _ => Arc::clone(array),
    };
    Some(cast(&array, &DataType::Int64).ok()?.as_primitive_opt::<Int64Type>()?.clone())
}

fn real(array: &ArrayRef) -> Option<Float64Array> {
    Some(cast(array, &DataType::Float64).ok()?.as_primitive_opt::<Float64Type>()?.clone())
}

/// Formats an integer in the format of the column's values.
fn show(field: &Field, value: i64) -> Value {
    let mut text = Vec::new();
    match field.data_type() {
        DataType::Date32 => moment::day(value, &mut text),
        DataType::Date64 => moment::day(value.div_euclid(86_400_000), &mut text),
        DataType::Timestamp(unit, zone) => moment::moment(value, *unit, zone.is_some(), &mut text),
        _ => return value.into(),
    }
    String::from_utf8(text).map_or(Value::Null, Value::String)
}

/// Counts an occurrence of a value. Counting stops if the column has too many distinct values.
fn count<T: Eq + Hash>(counted: &mut Option<HashMap<T, u64>>, value: T) {
    let Some(counts) = counted else { return };
    *counts.entry(value).or_default() += 1;
    if counts.len() > COUNTED {
        *counted = None;
    }
}

fn count_text(counted: &mut Option<HashMap<Box<str>, u64>>, text: &str) {
    let Some(counts) = counted else { return };
    if let Some(count) = counts.get_mut(text) {
        *count += 1;
    } else if counts.len() >= COUNTED || text.len() > COUNTED_TEXT {
        *counted = None;
    } else {
        counts.insert(text.into(), 1);
    }
}

/// Returns the most frequent values of a column. Among equally frequent values, the smaller value comes first.
fn frequent<T: Ord>(counted: HashMap<T, u64>, show: impl Fn(T) -> Value) -> Vec<Frequent> {
    let mut counted: Vec<_> = counted.into_iter().collect();
    counted.sort_unstable_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    counted.truncate(FREQUENT);
    counted.into_iter().map(|(value, count)| Frequent { value: show(value), count }).collect()
}
