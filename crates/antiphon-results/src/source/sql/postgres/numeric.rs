/// Maximum distance of a digit from the decimal point. The limit is high enough for the values of parameters, and
/// keeps messages to the server small.
const REACH: usize = 1000;

/// Encodes a decimal for PostgreSQL: digits of base 10,000, and the position of the point.
pub(super) fn encode(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Position of the decimal point, after the exponent is applied.
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    if digits.len() > REACH || point.unsigned_abs() as usize > REACH {
        return None;
    }
    let scale = usize::try_from(i32::try_from(digits.len()).ok()? - point).unwrap_or(0);
    if scale > REACH {
        return None;
    }
    // Groups of four digits are counted from the decimal point, so zeros fill the first and the last group.
    let front = usize::try_from((-point).max(0)).ok()?;
    let whole_len = usize::try_from(point.max(0)).ok()?;
    let back = whole_len.saturating_sub(digits.len());
    let padded = format!("{}{digits}{}", "0".repeat(front), "0".repeat(back));
    let (whole, fraction) = padded.split_at(whole_len);
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let group = |group: &[u8]| group.iter().fold(0_i16, |sum, digit| sum * 10 + i16::from(digit - b'0'));
    let mut groups: Vec<i16> = format!("{whole}{fraction}").as_bytes().chunks(4).map(group).collect();
    let mut weight = i16::try_from(whole.len() / 4).ok()? - 1;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    let sign: u16 = if is_negative && !groups.is_empty() { 0x4000 } else { 0 };
    let mut bytes = Vec::with_capacity(8 + groups.len() * 2);
    bytes.extend(i16::try_from(groups.len()).ok()?.to_be_bytes());
    bytes.extend(weight.to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend(i16::try_from(scale).ok()?.to_be_bytes());
    bytes.extend(groups.into_iter().flat_map(i16::to_be_bytes));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<Vec<u16>> {
        Some(encode(text)?.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect())
    }

    #[test]
    fn groups_stand_around_the_point() {
        assert_eq!(parts("0").unwrap(), [0, 0, 0, 0]);
        assert_eq!(parts("12345.678").unwrap(), [3, 1, 0, 3, 1, 2345, 6780]);
        assert_eq!(parts("-0.00012").unwrap(), [2, u16::MAX, 0x4000, 5, 1, 2000]);
        assert_eq!(parts("1e5").unwrap(), [1, 1, 0, 0, 10]);
        assert_eq!(parts("1.5e-5").unwrap(), [1, 0_u16.wrapping_sub(2), 0, 6, 1500]);
        for bad in ["", "-", ".", "1.2.3", "NaN", "1e", "1e9999", "0x1", " 1", "1;", "१"] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }
}
