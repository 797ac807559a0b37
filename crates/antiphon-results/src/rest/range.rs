//! Parses and formats the HTTP headers for ranges of bytes.

use http::{HeaderMap, HeaderValue, header};

use crate::snapshot::ByteRange;

/// Returns the range of bytes that the request headers ask for. Invalid ranges and lists of ranges are ignored,
/// because HTTP allows a server to send the whole file instead.
pub(super) fn asked(headers: &HeaderMap) -> Option<ByteRange> {
    let mut values = headers.get_all(header::RANGE).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (unit, range) = value.to_str().ok()?.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    match (first.trim_end(), last.trim_start()) {
        ("", last) => number(last).map(ByteRange::Last),
        (first, "") => Some(ByteRange::From { first: number(first)?, last: None }),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(ByteRange::From { first, last: Some(last) })
        }
    }
}

/// Returns the `Content-Range` header of a response with a part of a file.
pub(super) fn content_range(start: u64, length: u64, total: Option<u64>) -> Option<HeaderValue> {
    let last = start.checked_add(length.checked_sub(1)?)?;
    let total = total.map_or_else(|| "*".to_owned(), |total| total.to_string());
    HeaderValue::try_from(format!("bytes {start}-{last}/{total}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_read_and_all_else_is_the_whole() {
        let from = |first, last| Some(ByteRange::From { first, last });
        for (text, range) in [
            ("bytes=0-0", from(0, Some(0))),
            ("bytes=5-", from(5, None)),
            ("BYTES=5-9", from(5, Some(9))),
            ("bytes=-7", Some(ByteRange::Last(7))),
            ("bytes=-0", Some(ByteRange::Last(0))),
            ("bytes=9-5", None),
            ("bytes=0-1,4-5", None),
            ("bytes=-", None),
            ("bytes=", None),
            ("rows=0-5", None),
            ("bytes=+1-2", None),
            ("bytes=1-99999999999999999999", None),
            ("bytes", None),
        ] {
            let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(text))]);
            assert_eq!(asked(&headers), range, "{text}");
        }
        let twice = [(header::RANGE, HeaderValue::from_static("bytes=0-1"))];
        let mut headers = HeaderMap::from_iter(twice.clone());
        headers.append(header::RANGE, twice[0].1.clone());
        assert_eq!(asked(&headers), None);
    }
}
