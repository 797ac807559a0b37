//! Sales that never were: the same every time, with seasons, a long tail and gaps, so that there is something to find.

use std::{
    ops::Range,
    sync::{Arc, LazyLock},
};

use antiphon::snapshot::{
    Batches,
    arrow::{
        array::{
            Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray, StringBuilder,
            TimestampMicrosecondArray,
        },
        datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
        error::ArrowError,
    },
};
use futures_util::{StreamExt as _, stream};

/// How many rows come at a time.
const BATCH: u64 = 65_536;

/// How many batches are made at once.
const AHEAD: usize = 2;

/// One and a half years, to the end of June 2026, so that the last month of a chart is whole.
const DAYS: usize = 546;

/// 2025-01-01, in seconds since 1970. It was a Wednesday.
const FIRST_DAY: i64 = 1_735_689_600;

/// `rows` sales, in the order they happened, as they come.
pub fn sales(rows: u64) -> Batches {
    let batches = (0..rows.div_ceil(BATCH)).map(move |batch| {
        let range = batch * BATCH..((batch + 1) * BATCH).min(rows);
        // Making them is arithmetic, and would keep others from their turn.
        tokio::task::spawn_blocking(move || made(range, rows))
    });
    // The next batches are begun when somebody takes these.
    let batches = stream::iter(batches).buffered(AHEAD).map(|batch| Ok(batch??));
    Batches::new(schema(), batches)
}

/// What is in a sale.
pub fn schema() -> SchemaRef {
    let moment = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("customer", DataType::Utf8, false),
        Field::new("state", DataType::Utf8, false),
        Field::new("channel", DataType::Utf8, true),
        Field::new("amount", DataType::Decimal128(12, 2), false),
        Field::new("quantity", DataType::Int64, false),
        Field::new("rating", DataType::Float64, true),
        Field::new("sold_at", moment, false),
    ]))
}

/// Some of `all` sales.
///
/// # Errors
///
/// Never: the columns are as the schema says.
pub fn made(range: Range<u64>, all: u64) -> Result<RecordBatch, ArrowError> {
    let size = usize::try_from(range.end - range.start).unwrap_or_default();
    let mut ids = Vec::with_capacity(size);
    let mut customers = StringBuilder::with_capacity(size, size * 14);
    let mut states = Vec::with_capacity(size);
    let mut channels = Vec::with_capacity(size);
    let mut amounts = Vec::with_capacity(size);
    let mut quantities = Vec::with_capacity(size);
    let mut ratings = Vec::with_capacity(size);
    let mut moments = Vec::with_capacity(size);
    let mut clock = Clock::at(share(range.start, all));
    for row in range {
        let (first, second) = (mix(row), mix(row ^ 0x5851_f42d_4c95_7f2d));
        let when = share(row, all);
        let channel = channel(unit(first), when);
        let quantity = 1 + i64::from((first as u32 | 1 << 5).trailing_zeros());
        ids.push(i64::try_from(row).unwrap_or(i64::MAX).saturating_add(1));
        let customer = unit(second);
        // A few buy often.
        let customer = (customer * customer * CUSTOMERS) as usize;
        customers.append_value(&NAMES[customer % NAMES.len()]);
        states.push(STATES_BY_WEIGHT[(second >> 3) as usize % STATES_BY_WEIGHT.len()]);
        amounts.push(cents(unit(second.rotate_left(23)), channel, quantity));
        channels.push(channel);
        quantities.push(quantity);
        ratings.push(rating(unit(first.rotate_left(31))));
        moments.push(clock.moment(when));
    }
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from(ids)),
            Arc::new(customers.finish()),
            Arc::new(StringArray::from_iter_values(states)),
            Arc::new(StringArray::from_iter(channels)),
            Arc::new(Decimal128Array::from(amounts).with_precision_and_scale(12, 2)?),
            Arc::new(Int64Array::from(quantities)),
            Arc::new(Float64Array::from(ratings)),
            Arc::new(TimestampMicrosecondArray::from(moments).with_timezone("+00:00")),
        ],
    )
}

/// How far into the data a row is, from 0 to 1.
fn share(row: u64, all: u64) -> f64 {
    row as f64 / all.max(1) as f64
}

/// More and more is sold on the web, and of some sales nobody has noted where.
fn channel(chance: f64, when: f64) -> Option<&'static str> {
    let web = 0.42 + 0.22 * when;
    match chance {
        chance if chance < 0.04 => None,
        chance if chance < 0.04 + web => Some("web"),
        chance if chance < 0.88 => Some("store"),
        chance if chance < 0.95 => Some("phone"),
        _ => Some("partner"),
    }
}

/// Most sales are small, a few are very large: a Pareto tail. Partners buy more.
fn cents(chance: f64, channel: Option<&str>, quantity: i64) -> i128 {
    let scale = if channel == Some("partner") { 4.0 } else { 1.0 };
    let amount = 650.0 * scale * quantity as f64 * (1.0 - chance).powf(-0.55);
    amount.min(25_000_000.0) as i128
}

/// Most who say anything are content.
fn rating(chance: f64) -> Option<f64> {
    (chance > 0.38).then(|| {
        let rest = (chance - 0.38) / 0.62;
        5.0 - (rest * rest * 8.99).floor() / 2.0
    })
}

/// When sales happen: time passes faster in the slack hours.
struct Clock {
    hour: usize,
}

impl Clock {
    fn at(when: f64) -> Self {
        Self { hour: SEASON.partition_point(|&end| end <= when).min(SEASON.len() - 1) }
    }

    /// Invariant: it is asked in order.
    fn moment(&mut self, when: f64) -> i64 {
        while self.hour + 1 < SEASON.len() && SEASON[self.hour] <= when {
            self.hour += 1;
        }
        let start = if self.hour == 0 { 0.0 } else { SEASON[self.hour - 1] };
        let within = (when - start) / (SEASON[self.hour] - start);
        let micros = (within * 3_600_000_000.0) as i64;
        (FIRST_DAY + self.hour as i64 * 3600) * 1_000_000 + micros
    }
}

/// What share of all sales has happened at the end of each hour.
static SEASON: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut total = 0.0;
    let sums: Vec<f64> = (0..DAYS * 24)
        .map(|hour| {
            total += weight(hour);
            total
        })
        .collect();
    sums.into_iter().map(|sum| sum / total).collect()
});

/// How busy an hour is: growth, summer, the weeks before the holidays, weekends, the time of day.
fn weight(hour: usize) -> f64 {
    let day = hour / 24;
    let (of_year, of_week, of_day) = (day % 365, (day + 2) % 7, hour % 24);
    let growth = 1.0 + 0.35 * day as f64 / DAYS as f64;
    let season = 1.0 + 0.18 * (std::f64::consts::TAU * (of_year as f64 - 110.0) / 365.0).sin();
    let holidays = if (325..358).contains(&of_year) { 1.9 } else { 1.0 };
    let weekend = if of_week >= 5 { 0.72 } else { 1.0 };
    let daytime = 0.15 + (std::f64::consts::PI * (of_day as f64 + 0.5) / 24.0).sin().powi(3);
    growth * season * holidays * weekend * daytime
}

/// A number that looks random, from one that does not: splitmix64.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// From 0 to 1, without 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// As many as there are names.
const CUSTOMERS: f64 = 1_200.0;

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let given = "Ada Alan Amara Bela Carlos Chidi Dana Elif Emil Farah Grace Hana Ines Ivan Jamal June Kaya Kofi Lena \
                 Linus Maya Mei Nadia Niels Omar Petra Rosa Sana Tomas Yuki";
    let family = "Abara Alvarez Bauer Chen Cohen Dubois Eriksen Farouk Garcia Haas Hopper Ibrahim Ivanova Jansen Kaya \
                  Khan Kim Lindqvist Lovelace Martin Mbeki Moreau Nakamura Novak Okafor Olsen Patel Quist Ramos Rossi \
                  Sato Schmidt Silva Singh Tanaka Turing Varga Weber Wong Zhou";
    let family: Vec<&str> = family.split_whitespace().collect();
    let names = given
        .split_whitespace()
        .flat_map(|given| family.iter().map(move |family| format!("{given} {family}")));
    let mut names: Vec<String> = names.collect();
    // Those who buy often are not all called Ada.
    names.sort_by_key(|name| name.bytes().fold(7, |sum, byte| mix(sum ^ u64::from(byte))));
    names
});

/// Each state as often as it has people, about.
static STATES_BY_WEIGHT: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let weights = "CA 39 TX 30 FL 22 NY 20 PA 13 IL 13 OH 12 GA 11 NC 11 MI 10 NJ 9 VA 9 WA 8 AZ 7 TN 7 MA 7 IN 7 MO 6 \
                   MD 6 WI 6 CO 6 MN 6 SC 5 AL 5 LA 5 KY 5 OR 4 OK 4 CT 4 UT 3 IA 3 NV 3 AR 3 MS 3 KS 3 NM 2 NE 2 ID 2 \
                   WV 2 HI 1 NH 1 ME 1 MT 1 RI 1 DE 1 SD 1 ND 1 AK 1 VT 1 WY 1";
    let words: Vec<&str> = weights.split_whitespace().collect();
    let states = words.chunks_exact(2).flat_map(|pair| {
        let times = pair[1].parse().unwrap_or(1);
        std::iter::repeat_n(pair[0], times)
    });
    states.collect()
});
