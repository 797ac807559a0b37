use std::fmt::Write as _;

/// Returns the bytes in hexadecimal, with two lower-case digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0, 1, 0x0f, 0xa0, 0xff]), "00010fa0ff");
        assert_eq!(hex(&[]), "");
    }
}
