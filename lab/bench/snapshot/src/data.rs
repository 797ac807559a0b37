//! The rows all sides have: eight columns, the same each time.

use std::{fmt::Write as _, sync::Arc};

use arrow::{
    array::{Float64Array, Int64Array, RecordBatch, StringBuilder, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};

/// Rows of one batch.
const BATCH: u64 = 8192;

const STATES: [&str; 12] = ["NJ", "NY", "CA", "TX", "FL", "WA", "IL", "OH", "PA", "GA", "NC", "MI"];
const CONTROLS: [&str; 3] = ["Public", "Private nonprofit", "Private for-profit"];

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("state", DataType::Utf8, false),
        Field::new("control", DataType::Utf8, true),
        Field::new("enrollment", DataType::Int64, false),
        Field::new("revenue", DataType::Float64, false),
        Field::new("reported", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
        Field::new("note", DataType::Utf8, true),
    ]))
}

/// All batches of a set of so many rows.
pub(crate) fn batches(rows: u64) -> impl Iterator<Item = RecordBatch> + Send {
    let schema = schema();
    (0..rows.div_ceil(BATCH)).map(move |number| {
        let from = number * BATCH;
        batch(&schema, from, (from + BATCH).min(rows))
    })
}

fn batch(schema: &SchemaRef, from: u64, to: u64) -> RecordBatch {
    let len = usize::try_from(to - from).unwrap_or(0);
    let mut names = StringBuilder::with_capacity(len, len * 24);
    let mut states = StringBuilder::with_capacity(len, len * 2);
    let mut controls = StringBuilder::with_capacity(len, len * 12);
    let mut notes = StringBuilder::with_capacity(len, len * 8);
    let mut enrollments = Vec::with_capacity(len);
    let mut revenues = Vec::with_capacity(len);
    let mut reported = Vec::with_capacity(len);
    for id in from..to {
        let random = mixed(id);
        // Writing to a builder does not fail.
        let _ = write!(names, "Institution {:07}", random % 5_000_000);
        names.append_value("");
        states.append_value(STATES[pick(random >> 8, STATES.len())]);
        match pick(random >> 16, 4) {
            3 => controls.append_null(),
            control => controls.append_value(CONTROLS[control]),
        }
        if random.is_multiple_of(5) {
            let _ = write!(notes, "see report {}", random % 997);
            notes.append_value("");
        } else {
            notes.append_null();
        }
        enrollments.push(whole(random % 60_000));
        #[expect(clippy::cast_precision_loss, reason = "cents stay far below 2^52")]
        revenues.push((random % 1_000_000_000) as f64 / 100.0);
        reported.push(1_600_000_000_000_000 + whole(random % 157_680_000) * 1_000_000);
    }
    RecordBatch::try_new(
        Arc::clone(schema),
        vec![
            Arc::new(Int64Array::from_iter_values(whole(from)..whole(to))),
            Arc::new(names.finish()),
            Arc::new(states.finish()),
            Arc::new(controls.finish()),
            Arc::new(Int64Array::from(enrollments)),
            Arc::new(Float64Array::from(revenues)),
            Arc::new(TimestampMicrosecondArray::from(reported).with_timezone("UTC")),
            Arc::new(notes.finish()),
        ],
    )
    .expect("the columns are those of the schema")
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn pick(random: u64, of: usize) -> usize {
    usize::try_from(random % of as u64).unwrap_or(0)
}

/// A number that looks random, the same for the same row.
fn mixed(row: u64) -> u64 {
    let mut word = row.wrapping_add(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
