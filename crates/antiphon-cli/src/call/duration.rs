//! Parses durations as users write them.

use std::time::Duration;

/// Parses `500ms`, `30s`, `5m` or `2h`. A number without a unit is in seconds.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time like 500ms, 30s, 5m or 2h".to_owned();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2"), Ok(Duration::from_secs(2)));
        for wrong in ["", "s", "-1s", "0", "1d", "1e99h", "soon"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
