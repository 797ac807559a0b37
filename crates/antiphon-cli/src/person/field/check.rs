//! Validates typed values.

use serde_json::Value;

use super::{Choice, Kind};

/// Converts typed text to a value. If the text is invalid, the error describes the expected input.
pub(crate) fn check(kind: &Kind, text: &str) -> Result<Value, String> {
    match kind {
        Kind::Text { format, shortest, longest } => {
            let length = text.chars().count() as u64;
            if shortest.is_some_and(|shortest| length < shortest)
                || longest.is_some_and(|longest| length > longest)
            {
                let unbounded = Kind::Text { format: None, shortest: *shortest, longest: *longest };
                return Err(format!("write {}", unbounded.describe()));
            }
            match format.as_deref() {
                Some("email") if !is_email(text) => Err("write an address like ada@example.com".into()),
                Some("uri") if url::Url::parse(text).is_err() => {
                    Err("write an address like https://example.com".into())
                }
                Some("date") if !is_date(text) => Err("write a date like 2026-07-28".into()),
                Some("date-time") if !is_date_time(text) => {
                    Err("write a date and time like 2026-07-28T12:00:00Z".into())
                }
                _ => Ok(text.into()),
            }
        }
        Kind::Number { integer, least, most } => {
            let text = text.trim();
            let wanted = || format!("write a {}", kind.describe());
            // A whole number stays exact, even if the field accepts fractions.
            let whole =
                text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok();
            let broken = || {
                let number = text.parse::<f64>().ok().filter(|_| !integer)?;
                serde_json::Number::from_f64(number).map(Value::Number)
            };
            let value = whole.or_else(broken).ok_or_else(wanted)?;
            let number = value.as_f64().unwrap_or_default();
            let beyond = least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most);
            if beyond { Err(wanted()) } else { Ok(value) }
        }
        Kind::Boolean => match text.trim().to_lowercase().as_str() {
            "true" | "yes" | "y" => Ok(true.into()),
            "false" | "no" | "n" => Ok(false.into()),
            _ => Err("write true or false".into()),
        },
        Kind::Choice(choices) => {
            let chosen = choices.iter().find(|choice| choice.word() == text || choice.title == text);
            chosen.map(|choice| choice.value.clone()).ok_or_else(|| {
                let words: Vec<String> = choices.iter().map(Choice::word).collect();
                format!("write one of {}", words.join(", "))
            })
        }
        Kind::List { of, .. } => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            let values: Vec<Value> = parts.map(|part| check(of, part)).collect::<Result<_, _>>()?;
            check_count(kind, values.len())?;
            Ok(values.into())
        }
        Kind::Json => {
            serde_json::from_str(text).map_err(|error| format!("write JSON, text in double quotes: {error}"))
        }
    }
}

/// Checks the number of items in a list.
pub(crate) fn check_count(kind: &Kind, count: usize) -> Result<(), String> {
    let Kind::List { fewest, most, .. } = kind else { return Ok(()) };
    let count = count as u64;
    match (fewest, most) {
        (Some(fewest), _) if count < *fewest => Err(format!("at least {fewest} are wanted")),
        (_, Some(most)) if count > *most => Err(format!("at most {most} are wanted")),
        _ => Ok(()),
    }
}

fn is_email(text: &str) -> bool {
    text.split_once('@').is_some_and(|(who, host)| {
        !who.is_empty() && !host.is_empty() && !host.contains('@') && !text.contains(char::is_whitespace)
    })
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |text: &str, digits: usize| -> Option<u32> {
        let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| plain)
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let zone = time.find(['Z', 'z', '+', '-']);
    let Some(time) = zone.map(|at| &time[..at]) else { return false };
    let clock = time.split('.').next().unwrap_or_default();
    let parts: Vec<Option<u32>> =
        clock.split(':').map(|part| part.parse().ok().filter(|_| part.len() == 2)).collect();
    is_date(date) && matches!(parts.as_slice(), [Some(0..=23), Some(0..=59), Some(0..=60)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(format: &str) -> Kind {
        Kind::Text { format: Some(format.into()), shortest: None, longest: None }
    }

    #[test]
    fn numbers_keep_to_their_bounds_and_say_them() {
        let kind = Kind::Number { integer: true, least: Some(1.0), most: Some(9.0) };
        assert_eq!(check(&kind, " 9 "), Ok(json!(9)));
        for wrong in ["0", "10", "1.5", "one", ""] {
            assert_eq!(check(&kind, wrong), Err("write a whole number, 1 to 9".into()), "{wrong}");
        }
        let any = Kind::Number { integer: false, least: None, most: None };
        assert_eq!(check(&any, "1.5"), Ok(json!(1.5)));
        for whole in ["3", "-3", "12345678901234567", "18446744073709551615"] {
            assert_eq!(check(&any, whole).unwrap().to_string(), whole);
        }
        assert!(check(&any, "NaN").is_err() && check(&any, "inf").is_err());
    }

    #[test]
    fn formats_and_lengths_are_kept() {
        for (format, right, wrong) in [
            ("email", "ada@example.com", "ada at example.com"),
            ("uri", "https://example.com/a", "example"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2026-07-28T23:59:59.5+02:00", "2026-07-28 23:59"),
        ] {
            assert!(check(&text(format), right).is_ok(), "{format}");
            assert!(check(&text(format), wrong).is_err(), "{format}");
        }
        let short = Kind::Text { format: None, shortest: Some(2), longest: Some(3) };
        assert_eq!(check(&short, "äöü"), Ok(json!("äöü")));
        assert_eq!(check(&short, "ä"), Err("write text of 2 to 3 characters".into()));
    }

    #[test]
    fn lists_are_written_with_commas_and_have_as_many_as_they_should() {
        let number = Kind::Number { integer: true, least: None, most: None };
        let list = Kind::List { of: Box::new(number), fewest: Some(1), most: Some(2) };
        assert_eq!(check(&list, "1, 2"), Ok(json!([1, 2])));
        assert!(check(&list, "").is_err() && check(&list, "1,2,3").is_err() && check(&list, "1,x").is_err());
    }
}
