//! Formats dates and timestamps as text.

use std::io::Write as _;

use arrow::datatypes::TimeUnit;

const DAY: i64 = 86_400;

/// Returns the number of time units in a second.
pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Writes a date such as `2025-01-15`. `days` is the number of days since 1970-01-01. A year outside 0 to 9999 has a
/// sign and at least five digits.
pub(crate) fn day(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    let mut text = *b"0000-00-00";
    if (0..=9999).contains(&year) {
        digits(year.unsigned_abs(), &mut text[..4]);
    }
    digits(month, &mut text[5..7]);
    digits(day, &mut text[8..]);
    if (0..=9999).contains(&year) {
        out.extend_from_slice(&text);
    } else {
        // Writing to memory does not fail.
        let _ = write!(out, "{year:+06}");
        out.extend_from_slice(&text[4..]);
    }
}

/// Writes a timestamp such as `2025-01-15T12:30:00.250`, followed by `Z` if the timestamp has a time zone.
pub(crate) fn moment(value: i64, unit: TimeUnit, zoned: bool, out: &mut Vec<u8>) {
    let per_second = per_second(unit);
    let (seconds, rest) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    day(seconds.div_euclid(DAY), out);
    let second = seconds.rem_euclid(DAY).unsigned_abs();
    let mut text = *b"T00:00:00";
    digits(second / 3_600, &mut text[1..3]);
    digits(second / 60 % 60, &mut text[4..6]);
    digits(second % 60, &mut text[7..]);
    out.extend_from_slice(&text);
    if rest != 0 {
        let nanos = (rest * (1_000_000_000 / per_second)).unsigned_abs();
        let mut text = *b".000000000";
        digits(nanos, &mut text[1..]);
        let kept = match nanos {
            nanos if nanos % 1_000_000 == 0 => 4,
            nanos if nanos % 1_000 == 0 => 7,
            _ => 10,
        };
        out.extend_from_slice(&text[..kept]);
    }
    if zoned {
        out.push(b'Z');
    }
}

/// Writes a number into `place`, with leading zeros so that the digits fill `place`.
fn digits(mut number: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

/// Converts days since 1970 to year, month and day in the proleptic Gregorian calendar. The conversion uses eras of
/// 400 years that start on 1 March.
pub(crate) fn civil(days: i64) -> (i64, u64, u64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month.unsigned_abs(), day.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Datelike as _, SecondsFormat};

    use super::*;

    #[test]
    fn moments_are_written_as_chrono_writes_them() {
        let mut value: i64 = -62_135_596_800_000_000;
        while value < 253_402_300_799_000_000 {
            for value in [value, value + 1, value + 500_000, value + 999_000] {
                let mut text = Vec::new();
                moment(value, TimeUnit::Microsecond, true, &mut text);
                let expected = DateTime::from_timestamp_micros(value)
                    .unwrap()
                    .to_rfc3339_opts(SecondsFormat::AutoSi, true);
                assert_eq!(String::from_utf8(text).unwrap(), expected);
            }
            value += 997 * 86_400 * 1_000_000 + 12_345 * 1_000_000;
        }
    }

    #[test]
    fn no_moment_is_too_far() {
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            for value in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX] {
                let mut text = Vec::new();
                moment(value, unit, false, &mut text);
                assert!(text.len() >= 19);
            }
        }
        let (year, month, day) = civil(-719_529);
        assert_eq!((year, month, day), (-1, 12, 31));
        assert_eq!(DateTime::from_timestamp(0, 0).unwrap().year(), 1970);
    }
}
