//! Converts filters to typed expressions of the query engine. No text from a caller becomes SQL.

use std::ops::Not as _;

use antiphon_results::snapshot::{Filter, FilterOp};
use arrow::datatypes::{DataType, Schema};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use datafusion::{
    common::{Column, ScalarValue},
    functions::math::expr_fn::isnan,
    logical_expr::{Expr, Operator, binary_expr, cast, lit, when},
};
use serde_json::Value;

use crate::{
    error::{Error, Result},
    read::json::is_json,
};

/// The maximum number of filters of a view.
const MAX_FILTERS: usize = 32;
/// The maximum length of a search text in bytes. The length is limited, because the query engine compiles the search
/// text again for each batch.
const MAX_TEXT_BYTES: usize = 1_000;
/// The maximum number of values in the list of an `In` filter.
const MAX_VALUES: usize = 1_000;

/// Creates a reference to a column by its exact name.
pub(super) fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// Returns the type of a column. If the column does not exist, the error contains the names of the existing columns.
pub(super) fn kind<'a>(schema: &'a Schema, name: &str) -> Result<&'a DataType> {
    if let Some((_, field)) = schema.column_with_name(name) {
        return Ok(field.data_type());
    }
    let mut names: Vec<_> = schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
    if names.len() > 30 {
        let more = names.len() - 30;
        names.truncate(30);
        names.push(format!("and {more} more"));
    }
    Err(Error::Invalid(format!("column `{name}` does not exist; the columns are {}", names.join(", "))))
}

/// Combines all filters with AND. Returns `None` if there are no filters.
pub(super) fn all(schema: &Schema, filters: &[Filter]) -> Result<Option<Expr>> {
    if filters.len() > MAX_FILTERS {
        return Err(Error::Invalid(format!(
            "`filter` has {} conditions, and the maximum is {MAX_FILTERS}",
            filters.len()
        )));
    }
    let mut all: Option<Expr> = None;
    for filter in filters {
        let one = one(schema, filter)?;
        all = Some(match all {
            Some(before) => before.and(one),
            None => one,
        });
    }
    Ok(all)
}

fn one(schema: &Schema, filter: &Filter) -> Result<Expr> {
    let kind = kind(schema, &filter.column)?;
    if schema.column_with_name(&filter.column).is_some_and(|(_, field)| is_json(field)) {
        return json(filter, kind);
    }
    let column = column(&filter.column);
    let compare = |operator| {
        if matches!(kind, DataType::Binary | DataType::LargeBinary)
            && !matches!(operator, Operator::Eq | Operator::NotEq)
        {
            return Err(Error::Invalid(format!(
                "column `{}` contains bytes, which can only be compared for equality; use `eq`, `ne` or `in`",
                filter.column
            )));
        }
        let compared = binary_expr(column.clone(), operator, lit(value(filter, kind, &filter.value)?));
        // In rows, NaN and infinities are shown as null, and null is neither less nor greater than a value.
        Ok(if kind.is_floating() { compared.and(is_no_number(&column).not()) } else { compared })
    };
    Ok(match filter.op {
        FilterOp::Eq => compare(Operator::Eq)?,
        FilterOp::Ne => compare(Operator::NotEq)?,
        FilterOp::Lt => compare(Operator::Lt)?,
        FilterOp::Le => compare(Operator::LtEq)?,
        FilterOp::Gt => compare(Operator::Gt)?,
        FilterOp::Ge => compare(Operator::GtEq)?,
        FilterOp::In => {
            let Value::Array(values) = &filter.value else {
                return Err(Error::Invalid(format!(
                    "`in` on column `{}` needs a list of values",
                    filter.column
                )));
            };
            if values.len() > MAX_VALUES {
                return Err(Error::Invalid(format!(
                    "`in` on column `{}` has {} values, and the maximum is {MAX_VALUES}",
                    filter.column,
                    values.len()
                )));
            }
            let values: Vec<_> =
                values.iter().map(|one| Ok(lit(value(filter, kind, one)?))).collect::<Result<_>>()?;
            column.in_list(values, false)
        }
        FilterOp::Contains => column.ilike(pattern(filter, kind, "%")?),
        FilterOp::StartsWith => column.like(pattern(filter, kind, "")?),
        FilterOp::IsNull if kind.is_floating() => column.clone().is_null().or(is_no_number(&column)),
        FilterOp::NotNull if kind.is_floating() => {
            column.clone().is_not_null().and(is_no_number(&column).not())
        }
        FilterOp::IsNull => column.is_null(),
        FilterOp::NotNull => column.is_not_null(),
        other => return Err(Error::Invalid(format!("the filter operator {other:?} is not supported"))),
    })
}

/// Returns an expression that is true for NaN and infinities. In rows, NaN and infinities are `null`.
fn is_no_number(column: &Expr) -> Expr {
    isnan(cast(column.clone(), DataType::Float64) * lit(0.0))
}

/// Returns the sort key of a column. NaN and infinities are sorted at the end, together with the nulls.
pub(super) fn sort_key(name: &str, kind: &DataType) -> Result<Expr> {
    let column = column(name);
    if !kind.is_floating() {
        return Ok(column);
    }
    let nothing = ScalarValue::try_from(kind).map_err(|error| Error::Broken(error.into()))?;
    let key = when(is_no_number(&column), lit(nothing)).otherwise(column);
    key.map_err(|error| Error::Broken(error.into()))
}

/// Converts a filter on a column that contains JSON text. The converted filter compares the JSON text of the values.
fn json(filter: &Filter, kind: &DataType) -> Result<Expr> {
    let column = column(&filter.column);
    let text = |value: &Value| {
        if value.is_null() {
            return Err(Error::Invalid(format!(
                "column `{}` cannot be compared with null; use `is_null` or `not_null`",
                filter.column
            )));
        }
        let text = serde_json::to_string(value).map_err(|error| Error::Broken(error.into()))?;
        let text = ScalarValue::Utf8(Some(text)).cast_to(kind);
        Ok(lit(text.map_err(|error| Error::Broken(error.into()))?))
    };
    Ok(match (filter.op, &filter.value) {
        (FilterOp::Eq, value) => column.eq(text(value)?),
        (FilterOp::Ne, value) => column.not_eq(text(value)?),
        (FilterOp::In, Value::Array(values)) if values.len() <= MAX_VALUES => {
            column.in_list(values.iter().map(text).collect::<Result<_>>()?, false)
        }
        (FilterOp::IsNull, _) => column.is_null(),
        (FilterOp::NotNull, _) => column.is_not_null(),
        _ => {
            return Err(Error::Invalid(format!(
                "column `{}` contains JSON; use `eq`, `ne`, `is_null`, `not_null`, or `in` with a list of at most {MAX_VALUES} values",
                filter.column
            )));
        }
    })
}

/// Returns the number of decimal places that a number needs.
fn places(number: &str) -> i64 {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    if zeros == digits.trim_start_matches(['+', '-']).len() {
        return 0;
    }
    let count = |length: usize| i64::try_from(length).unwrap_or(i64::MAX / 4);
    // An invalid number is rejected later, when the number is parsed.
    let exponent: i64 = exponent.parse().unwrap_or(0);
    count(fraction.len()).saturating_sub(count(zeros)).saturating_sub(exponent).max(0)
}

/// Returns a LIKE pattern that matches the literal text, followed by any text. If `before` is `%`, any text can
/// precede the literal text. If `before` is empty, the pattern starts with the literal text.
fn pattern(filter: &Filter, kind: &DataType, before: &str) -> Result<Expr> {
    let text = matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let Value::String(value) = &filter.value else {
        return Err(Error::Invalid(format!("the filter on column `{}` needs a text value", filter.column)));
    };
    if !text {
        return Err(Error::Invalid(format!(
            "column `{}` does not contain text; compare it with `eq`, `lt`, `gt` or a similar operator",
            filter.column
        )));
    }
    if value.len() > MAX_TEXT_BYTES {
        return Err(Error::Invalid(format!(
            "the text of the filter on column `{}` has {} bytes, and the maximum is {MAX_TEXT_BYTES}",
            filter.column,
            value.len()
        )));
    }
    let mut pattern = String::from(before);
    for character in value.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    Ok(lit(pattern))
}

/// Converts the JSON value of a filter to the type of the column.
fn value(filter: &Filter, kind: &DataType, value: &Value) -> Result<ScalarValue> {
    let unfit = |wanted: &str| {
        let mut shown = value.to_string();
        if let Some((cut, _)) = shown.char_indices().nth(60) {
            shown.truncate(cut);
            shown.push('…');
        }
        Error::Invalid(format!("column `{}` contains {wanted}; {shown} does not match", filter.column))
    };
    let wanted = wanted(kind).ok_or_else(|| {
        Error::Invalid(format!("column `{}` is nested; use `is_null` or `not_null`", filter.column))
    })?;
    let mut text = match (kind, value) {
        (DataType::Boolean, Value::Bool(value)) => value.to_string(),
        (DataType::Binary | DataType::LargeBinary, Value::String(text)) => {
            let bytes = BASE64_STANDARD.decode(text).map_err(|_| unfit(wanted))?;
            let bytes = ScalarValue::Binary(Some(bytes));
            return bytes.cast_to(kind).map_err(|_| unfit(wanted));
        }
        (kind, Value::Number(number)) if kind.is_numeric() => number.to_string(),
        // Numbers that JSON cannot represent exactly arrive as text.
        (kind, Value::String(text)) if kind.is_numeric() && text.len() <= 80 => text.clone(),
        (kind, Value::String(text)) if !kind.is_numeric() && *kind != DataType::Boolean => text.clone(),
        _ => return Err(unfit(wanted)),
    };
    // If a value were rounded to the scale of the column, it would be a different number, and would select different
    // rows.
    if let DataType::Decimal32(_, scale)
    | DataType::Decimal64(_, scale)
    | DataType::Decimal128(_, scale)
    | DataType::Decimal256(_, scale) = kind
    {
        if places(&text) > i64::from(*scale) {
            return Err(Error::Invalid(format!(
                "column `{}` has numbers with {scale} decimal places, and {text} has more; round the number",
                filter.column
            )));
        }
        text = plain(&text).ok_or_else(|| unfit(wanted))?;
    }
    match ScalarValue::try_from_string(text, kind) {
        Ok(value) if !value.is_null() && is_finite(&value) => Ok(value),
        _ => Err(unfit(wanted)),
    }
}

/// Formats a number without an exponent, because the query engine cannot parse every decimal with an exponent.
fn plain(number: &str) -> Option<String> {
    /// The maximum number of digits of a decimal.
    const MOST: usize = 80;
    let Some((digits, exponent)) = number.split_once(['e', 'E']) else { return Some(number.to_owned()) };
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{part}");
    let exponent: i32 = exponent.parse().ok()?;
    let moved = usize::try_from(exponent.unsigned_abs()).ok().filter(|moved| *moved <= MOST)?;
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // With this many zeros on either side, the decimal point stays inside the digits.
    let zeros = "0".repeat(moved);
    let (padded, point) = if exponent < 0 {
        (format!("{zeros}{digits}"), whole.len())
    } else {
        (format!("{digits}{zeros}"), whole.len() + moved)
    };
    let (whole, part) = padded.split_at(point);
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") })
}

fn is_finite(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float64(Some(number)) => number.is_finite(),
        ScalarValue::Float32(Some(number)) => number.is_finite(),
        _ => true,
    }
}

/// Describes the values of a column type for error messages. Returns `None` if values of the type cannot be compared.
fn wanted(kind: &DataType) -> Option<&'static str> {
    Some(match kind {
        DataType::Boolean => "true or false",
        kind if kind.is_integer() => "whole numbers",
        kind if kind.is_numeric() => "numbers",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Date32 | DataType::Date64 => "dates, as `2026-01-31`",
        DataType::Timestamp(..) => "timestamps, as `2026-01-31T12:00:00Z`",
        DataType::Time32(_) | DataType::Time64(_) => "times of day, as `12:00:00`",
        DataType::Binary | DataType::LargeBinary => "bytes, as base64",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{places, plain};

    #[test]
    fn numbers_are_the_same_without_an_exponent() {
        for (number, expected) in [
            ("1.50", Some("1.50")),
            ("10e-1", Some("1")),
            ("-1.25E+1", Some("-12.5")),
            ("5e-3", Some("0.005")),
            (".5e2", Some("50")),
            ("1e99999999999", None),
            ("e5", None),
            ("1x0e2", None),
        ] {
            assert_eq!(plain(number).as_deref(), expected, "{number}");
        }
    }

    #[test]
    fn places_are_counted_however_a_number_is_written() {
        for (number, expected) in [
            ("1", 0),
            ("-100", 0),
            ("1.00", 0),
            ("1.004", 3),
            ("-1.50", 1),
            ("1e-7", 7),
            ("1.5e1", 0),
            ("1.25e1", 1),
            ("100e-2", 0),
            ("0e-9", 0),
            ("0.0", 0),
            ("+0.10", 1),
            (".5", 1),
        ] {
            assert_eq!(places(number), expected, "{number}");
        }
    }
}
