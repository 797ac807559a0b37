//! Finds a data type that stores JSON numbers with all their digits.

use arrow::datatypes::DataType;

/// The number 2^53. All integers from 0 to 2^53 are exact as `f64`.
const EXACT: u64 = 1 << 53;

/// The properties that a data type needs to store all numbers of a column without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Whether all numbers are integers of at most 64 bits.
    integer: bool,
    /// Whether all numbers keep their digits as `f64`.
    float: bool,
    /// The maximum number of digits before the decimal point.
    whole: u32,
    /// The maximum number of digits after the decimal point.
    scale: u32,
}

impl Numbers {
    /// Combines two `Numbers` values: returns the properties of a data type that can store the numbers of `self` and of
    /// `other`.
    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            integer: self.integer && other.integer,
            float: self.float && other.float,
            whole: self.whole.max(other.whole),
            scale: self.scale.max(other.scale),
        }
    }

    /// Returns the numeric type that can store all numbers. Returns `None` if no numeric type can store all numbers.
    pub(super) fn data_type(self) -> Option<DataType> {
        let scale = i8::try_from(self.scale).ok();
        match (self.whole.saturating_add(self.scale), scale) {
            _ if self.integer => Some(DataType::Int64),
            _ if self.float => Some(DataType::Float64),
            (..=38, Some(scale)) => Some(DataType::Decimal128(38, scale)),
            (..=76, Some(scale)) => Some(DataType::Decimal256(76, scale)),
            _ => None,
        }
    }

    /// Returns the properties that a data type needs to store one JSON number.
    pub(super) fn measure(text: &str) -> Self {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let whole = u32::try_from(digits.len()).unwrap_or(u32::MAX);
            let integer = text.parse::<i64>().is_ok() && text != "-0";
            let float = digits.parse::<u64>().is_ok_and(|number| number <= EXACT);
            return Self { integer, float, whole, scale: 0 };
        }
        let number = Decimal::parse(text);
        let exponent = number.exponent;
        let count = i64::try_from(number.digits.len()).unwrap_or(i64::MAX);
        let clamp = |places: i64| u32::try_from(places.max(0)).unwrap_or(u32::MAX);
        let (whole, scale) = (clamp(count.saturating_add(exponent)), clamp(exponent.saturating_neg()));
        Self { integer: false, float: number.fits_float(text), whole, scale }
    }
}

/// A number as digits and a power of ten. The digits have no leading and no trailing zeros. Two equal numbers have
/// equal `Decimal` values.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Parses a number in the format of JSON or Rust.
    fn parse(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // If an exponent has too many digits for an `i64`, only the sign of the exponent matters.
        let far = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
        let exponent =
            exponent.strip_prefix('+').unwrap_or(exponent).parse().unwrap_or(far).clamp(-(1 << 40), 1 << 40);
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Self { negative, digits: String::new(), exponent: 0 };
        }
        let places = |count: usize| i64::try_from(count).unwrap_or(i64::MAX / 4);
        let exponent = exponent - places(fraction.len()) + places(digits.len() - kept.len());
        Self { negative, digits: kept.to_owned(), exponent }
    }

    fn fits_float(&self, text: &str) -> bool {
        // An `f64` preserves 15 digits, if the exponent is far from the limits of `f64`.
        if self.digits.len() <= 15 && self.exponent.abs() < 250 {
            return true;
        }
        let Ok(number) = text.parse::<f64>() else { return false };
        number.is_finite() && Self::parse(&format!("{number:e}")) == *self
    }
}

/// Returns the digits of a number with `scale` decimal places, without the decimal point. Invariant: the number has at
/// most `scale` decimal places.
pub(super) fn unscaled(text: &str, scale: i8) -> String {
    let number = Decimal::parse(text);
    let zeros = usize::try_from(number.exponent + i64::from(scale)).unwrap_or(0);
    let sign = if number.negative && !number.digits.is_empty() { "-" } else { "" };
    if number.digits.is_empty() {
        return "0".into();
    }
    format!("{sign}{}{}", number.digits, "0".repeat(zeros))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(numbers: &[&str]) -> Option<DataType> {
        numbers.iter().map(|text| Numbers::measure(text)).reduce(Numbers::merge)?.data_type()
    }

    #[test]
    fn numbers_take_the_least_type_that_keeps_every_digit() {
        assert_eq!(kind(&["1", "-7", "9223372036854775807"]), Some(DataType::Int64));
        assert_eq!(kind(&["9223372036854775808"]), Some(DataType::Decimal128(38, 0)));
        assert_eq!(kind(&["1", "2.5", "1e3", "1.10"]), Some(DataType::Float64));
        assert_eq!(kind(&["9007199254740993", "0.5"]), Some(DataType::Decimal128(38, 1)));
        assert_eq!(kind(&["12345678901234567.89"]), Some(DataType::Decimal128(38, 2)));
        assert_eq!(kind(&["0.1234567890123456789012345678901234567890"]), Some(DataType::Decimal256(76, 39)));
        assert_eq!(kind(&["1e400"]), None);
        assert_eq!(kind(&["1e-400", "1"]), None);
        assert_eq!(kind(&["5e-324"]), Some(DataType::Float64));
        assert_eq!(kind(&["1.7976931348623157e308"]), Some(DataType::Float64));
        assert_eq!(kind(&["1e99999999999999999999"]), None);
    }

    #[test]
    fn a_decimal_has_its_digits_behind_the_right_place() {
        assert_eq!(unscaled("-1.5", 3), "-1500");
        assert_eq!(unscaled("1.50e2", 0), "150");
        assert_eq!(unscaled("0.00", 2), "0");
        assert_eq!(unscaled("12345678901234567.89", 2), "1234567890123456789");
    }
}
