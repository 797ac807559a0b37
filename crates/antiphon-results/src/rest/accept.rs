//! Content negotiation for rows.

use http::{HeaderMap, header};

use crate::snapshot::ExportFormat;

/// The format of rows in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One page as JSON.
    Json,
    /// NDJSON: one row on each line.
    Ndjson,
    /// NDJSON with its newer media type, `application/jsonl`.
    Jsonl,
    /// CSV: comma-separated values.
    Csv,
}

impl Format {
    /// All formats. If a client prefers two formats equally, the server uses the format that is first in this list.
    const ALL: [Self; 4] = [Self::Json, Self::Ndjson, Self::Jsonl, Self::Csv];

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Jsonl => "application/jsonl",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Json => ("application", "json"),
            Self::Ndjson => ("application", "x-ndjson"),
            Self::Jsonl => ("application", "jsonl"),
            Self::Csv => ("text", "csv"),
        }
    }

    /// Returns the format that the client prefers. If the client prefers two formats equally, the most specific media
    /// type wins. Returns `None` if the client accepts none of the formats.
    pub(super) fn wanted(headers: &HeaderMap) -> Option<Self> {
        wanted(headers, &Self::ALL.map(Self::names)).map(|place| Self::ALL[place])
    }
}

/// Returns the export format that the client prefers. Without an `Accept` header, the format is NDJSON.
pub(super) fn export(headers: &HeaderMap) -> Option<ExportFormat> {
    let names = ExportFormat::ALL.map(|format| {
        let essence = format.media_type().split(';').next().unwrap_or_default();
        essence.split_once('/').unwrap_or_default()
    });
    wanted(headers, &names).map(|place| ExportFormat::ALL[place])
}

/// Returns the index of the media type that the client prefers. Without an `Accept` header, returns the index of the
/// first media type.
fn wanted(headers: &HeaderMap, names: &[(&str, &str)]) -> Option<usize> {
    let mut accepts = headers.get_all(header::ACCEPT).iter().peekable();
    if accepts.peek().is_none() {
        return Some(0);
    }
    // Each entry belongs to one media type. The entry contains the precision of the most specific range that matches
    // the media type, and the quality of this range in thousandths.
    let mut wanted = vec![(0_u8, 0_u16); names.len()];
    let ranges = accepts.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    for (kind, subtype, quality) in ranges.filter_map(range) {
        for ((own_kind, own_subtype), best) in names.iter().zip(&mut wanted) {
            let exactness = match (kind, subtype) {
                ("*", "*") => 1,
                (kind, "*") if kind.eq_ignore_ascii_case(own_kind) => 2,
                (kind, subtype)
                    if kind.eq_ignore_ascii_case(own_kind) && subtype.eq_ignore_ascii_case(own_subtype) =>
                {
                    3
                }
                _ => continue,
            };
            if exactness > best.0 || (exactness == best.0 && quality > best.1) {
                *best = (exactness, quality);
            }
        }
    }
    let mut best: Option<(usize, (u16, u8))> = None;
    for (place, (exactness, quality)) in wanted.into_iter().enumerate() {
        if quality > 0 && best.is_none_or(|(_, than)| (quality, exactness) > than) {
            best = Some((place, (quality, exactness)));
        }
    }
    best.map(|(place, _)| place)
}

/// Parses one media range of an `Accept` header, such as `text/csv;q=0.5`. Returns `None` for an invalid media range.
/// The caller ignores invalid media ranges.
fn range(text: &str) -> Option<(&str, &str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let (kind, subtype) = parts.next()?.split_once('/')?;
    let mut thousandths = 1000;
    for parameter in parts {
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("q")
        {
            thousandths = quality(value.trim())?;
        }
    }
    Some((kind, subtype, thousandths))
}

/// Converts a quality such as `0.5` to thousandths. HTTP allows at most three digits after the point.
fn quality(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u16 = format!("{fraction:0<3}").parse().ok()?;
    match (whole, fraction) {
        ("0", fraction) => Some(fraction),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_format_is_what_is_wanted_most() {
        for (accept, wanted) in [
            ("*/*", Some(Format::Json)),
            ("application/*", Some(Format::Json)),
            ("text/*", Some(Format::Csv)),
            ("application/json, text/plain, */*", Some(Format::Json)),
            ("application/x-ndjson, */*", Some(Format::Ndjson)),
            ("application/jsonl", Some(Format::Jsonl)),
            ("APPLICATION/X-NDJSON", Some(Format::Ndjson)),
            ("text/csv;q=0.9, application/json;q=0.8", Some(Format::Csv)),
            ("text/csv;q=0.1, */*;q=0.2", Some(Format::Json)),
            ("application/json;q=0, */*;q=0.1", Some(Format::Ndjson)),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Some(Format::Json)),
            ("application/json; charset=utf-8; q=1.000", Some(Format::Json)),
            ("*/*;q=0", None),
            ("text/html", None),
            ("", None),
            ("json", None),
            ("*/json", None),
            ("application/json;q=2", None),
            ("application/json;q=0.0001", None),
            (",,;;q=,/", None),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Format::wanted(&headers), wanted, "{accept}");
        }
        assert_eq!(Format::wanted(&HeaderMap::new()), Some(Format::Json));
    }
}
