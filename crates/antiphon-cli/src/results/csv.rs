//! Formats rows as CSV (RFC 4180).

use serde_json::value::RawValue;

/// Formats a CSV line with the cells `cells`. Numbers in the line have all their digits. Spreadsheets execute text that
/// starts like a formula, so `line` puts an apostrophe before such text.
pub(crate) fn line<'a>(cells: impl Iterator<Item = Option<&'a RawValue>>) -> String {
    let mut line = String::new();
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            line.push(',');
        }
        let json = cell.map_or("null", RawValue::get);
        match json.as_bytes().first() {
            Some(b'n') => {}
            Some(b'"') => text(&serde_json::from_str::<String>(json).unwrap_or_default(), &mut line),
            Some(b'{' | b'[') => text(json, &mut line),
            _ => line.push_str(json),
        }
    }
    // CSV readers ignore an empty line, so a row with one empty cell becomes `""`.
    if line.is_empty() {
        line.push_str("\"\"");
    }
    line + "\r\n"
}

fn text(text: &str, line: &mut String) {
    let runs = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    // Quotes distinguish empty text from a missing value.
    let quoted = text.is_empty() || text.contains([',', '"', '\r', '\n']);
    if quoted {
        line.push('"');
    }
    if runs {
        line.push('\'');
    }
    line.push_str(&text.replace('"', "\"\""));
    if quoted {
        line.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be_and_formulas_do_not_run() {
        let row = r#"["a,\"b\"", "", null, 12345678901234567890.10, "=1+1", "-12", [1]]"#;
        let row: Vec<&RawValue> = serde_json::from_str(row).unwrap();
        assert_eq!(
            line(row.into_iter().map(Some)),
            "\"a,\"\"b\"\"\",\"\",,12345678901234567890.10,'=1+1,-12,[1]\r\n"
        );
        assert_eq!(line([None].into_iter()), "\"\"\r\n");
    }
}
