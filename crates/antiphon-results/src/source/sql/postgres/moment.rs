//! Dates and times in the format of PostgreSQL, which counts from January 1, 2000.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

use crate::{
    error::BoxError,
    source::sql::{moment::Moment, write},
};

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Number of days from March 1 of the year 0 to January 1, 2000.
const EPOCH: i64 = 730_425;

pub(super) fn write_date(bytes: &[u8], json: &mut Vec<u8>) -> Result<(), BoxError> {
    let days = i32::from_be_bytes(bytes.try_into()?);
    if matches!(days, i32::MAX | i32::MIN) {
        write::plain(if days > 0 { "infinity" } else { "-infinity" }, json);
        return Ok(());
    }
    let moment = civil(days.into());
    json.push(b'"');
    moment.write_date(json);
    moment.write_era(json);
    json.push(b'"');
    Ok(())
}

pub(super) fn write_time(bytes: &[u8], json: &mut Vec<u8>) -> Result<(), BoxError> {
    let micros = i64::from_be_bytes(bytes.try_into()?);
    json.push(b'"');
    at(Moment::default(), micros).write_time(json);
    json.push(b'"');
    Ok(())
}

pub(super) fn write_timestamp(bytes: &[u8], is_utc: bool, json: &mut Vec<u8>) -> Result<(), BoxError> {
    let micros = i64::from_be_bytes(bytes.try_into()?);
    if matches!(micros, i64::MAX | i64::MIN) {
        write::plain(if micros > 0 { "infinity" } else { "-infinity" }, json);
        return Ok(());
    }
    let day = civil(micros.div_euclid(MICROS_PER_DAY));
    at(day, micros.rem_euclid(MICROS_PER_DAY)).write(is_utc, json);
    Ok(())
}

/// Returns the date that is `days` days after January 1, 2000, in the Gregorian calendar. The calculation uses years
/// that begin in March, so that a leap day is the last day of the year.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the parts of a date are small")]
fn civil(days: i64) -> Moment {
    let days = days + EPOCH;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let year = (year_of_era + era * 400 + i64::from(is_next_year)) as i32;
    let is_bc = year <= 0;
    Moment {
        year: if is_bc { 1 - year } else { year },
        is_bc,
        month: (if is_next_year { month - 9 } else { month + 3 }) as u8,
        day: day as u8,
        ..Moment::default()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the parts of a day are small")]
fn at(day: Moment, micros: i64) -> Moment {
    let seconds = micros / 1_000_000;
    Moment {
        hour: (seconds / 3600) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micros: (micros % 1_000_000) as u32,
        ..day
    }
}

fn epoch() -> NaiveDateTime {
    NaiveDate::from_ymd_opt(2000, 1, 1).and_then(|day| day.and_hms_opt(0, 0, 0)).unwrap_or_default()
}

/// Parses a date, and returns the number of days since January 1, 2000.
pub(super) fn read_date(text: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    i32::try_from((date - epoch().date()).num_days()).ok()
}

/// Parses a time, and returns the number of microseconds since midnight.
pub(super) fn read_time(text: &str) -> Option<i64> {
    (text.parse::<NaiveTime>().ok()? - NaiveTime::MIN).num_microseconds()
}

/// Parses a timestamp without a time zone, and returns the number of microseconds since January 1, 2000.
pub(super) fn read_timestamp(text: &str) -> Option<i64> {
    let parse = |format| NaiveDateTime::parse_from_str(text, format).ok();
    let moment = parse("%Y-%m-%dT%H:%M:%S%.f").or_else(|| parse("%Y-%m-%d %H:%M:%S%.f"))?;
    (moment - epoch()).num_microseconds()
}

/// Parses a timestamp with a time zone, and returns the number of microseconds since January 1, 2000 in UTC.
pub(super) fn read_timestamp_tz(text: &str) -> Option<i64> {
    let moment = DateTime::parse_from_rfc3339(text).ok()?;
    (moment.naive_utc() - epoch()).num_microseconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for days in (-800_000..800_000).step_by(13) {
            let date = epoch().date() + chrono::Duration::days(days);
            let moment = civil(days);
            let year = if moment.is_bc { 1 - moment.year } else { moment.year };
            let found = NaiveDate::from_ymd_opt(year, moment.month.into(), moment.day.into());
            assert_eq!(found, Some(date));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for micros in [0, 1, -1, 820_454_400_123_456, -1_000_000_000_000_001] {
            let mut json = Vec::new();
            write_timestamp(&i64::to_be_bytes(micros), true, &mut json).unwrap();
            let text: String = serde_json::from_slice(&json).unwrap();
            assert_eq!(read_timestamp_tz(&text), Some(micros), "{text}");
            assert_eq!(read_timestamp(text.trim_end_matches('Z')), Some(micros), "{text}");
        }
        assert_eq!(read_date("2000-01-02"), Some(1));
        assert_eq!(read_time("00:00:01.5"), Some(1_500_000));
        assert_eq!(read_timestamp_tz("2000-01-01T02:00:00+02:00"), Some(0));
    }
}
