//! Edits TOML, which Codex uses. An entry is a table with a header: `[mcp_servers.desk]`.

use std::ops::Range;

use serde_json::Value;

use super::{newline, position, without_newline};

pub(super) fn parse(text: &str) -> Result<Value, String> {
    ::toml::from_str(text).map_err(|error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        format!("{} at line {line} column {column}", error.message())
    })
}

pub(super) fn with(text: &str, keys: &[&str], name: &str, entry: &Value) -> Option<String> {
    let newline = newline(text);
    let table = table(keys, name, entry)?.join(newline);
    let tables = tables(text, keys, name);
    let Some(first) = tables.first() else { return Some(append(text, &table, newline)) };
    let end = if text[first.clone()].ends_with('\n') { newline } else { "" };
    let mut edited = format!("{}{table}{end}", &text[..first.start]);
    let mut from = first.end;
    for other in &tables[1..] {
        edited.push_str(&text[from..other.start]);
        from = other.end;
    }
    Some(edited + &text[from..])
}

pub(super) fn without(text: &str, keys: &[&str], name: &str) -> Option<String> {
    let tables = tables(text, keys, name);
    if tables.is_empty() {
        return None;
    }
    let mut edited = String::new();
    let mut from = 0;
    for table in tables {
        let mut kept = &text[from..table.start];
        // `append` adds a blank line before a table.
        let before = without_newline(kept);
        if before.len() < kept.len() && (before.is_empty() || before.ends_with('\n')) {
            kept = before;
        }
        if !text[..table.end].ends_with('\n') {
            kept = without_newline(kept);
        }
        edited.push_str(kept);
        from = table.end;
    }
    Some(edited + &text[from..])
}

/// Adds a table at the end. The new text ends with a line break if the old text ends with a line break or is empty.
fn append(text: &str, table: &str, newline: &str) -> String {
    if text.is_empty() {
        format!("{table}{newline}")
    } else if text.ends_with('\n') {
        format!("{text}{newline}{table}{newline}")
    } else {
        format!("{text}{newline}{newline}{table}")
    }
}

/// Returns the lines of an entry.
fn table(keys: &[&str], name: &str, entry: &Value) -> Option<Vec<String>> {
    let path: Vec<String> = keys.iter().copied().chain([name]).map(key).collect();
    let mut lines = vec![format!("[{}]", path.join("."))];
    lines.extend(entry.as_object()?.iter().map(pair));
    Some(lines)
}

fn pair((name, value): (&String, &Value)) -> String {
    format!("{} = {}", key(name), literal(value))
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { literal(&Value::from(name)) }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => ::toml::Value::String(text.clone()).to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            format!("{{ {} }}", members.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Finds the tables of an entry: the table of the entry, and its subtables such as `[mcp_servers.desk.env]`. Comments
/// and blank lines after a table belong to the next table.
fn tables(text: &str, keys: &[&str], name: &str) -> Vec<Range<usize>> {
    let path: Vec<&str> = keys.iter().copied().chain([name]).collect();
    let mut found = Vec::new();
    let mut open: Option<Range<usize>> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let line = line.trim();
        if let Some(header) = header(line) {
            let is_own = header.len() >= path.len() && header.iter().zip(&path).all(|(own, key)| own == key);
            if !is_own {
                found.extend(open.take());
            } else if let Some(table) = &mut open {
                table.end = end;
            } else {
                open = Some(at..end);
            }
        } else if let Some(table) = &mut open
            && !line.is_empty()
            && !line.starts_with('#')
        {
            table.end = end;
        }
        at = end;
    }
    found.extend(open);
    found
}

/// Returns the keys of a table header.
fn header(line: &str) -> Option<Vec<String>> {
    if !line.starts_with('[') {
        return None;
    }
    let mut value: Value = ::toml::from_str(line).ok()?;
    let mut keys = Vec::new();
    loop {
        value = match value {
            Value::Object(members) => {
                let Some((key, inner)) = members.into_iter().next() else { return Some(keys) };
                keys.push(key);
                inner
            }
            // `[[name]]` is an item of a list.
            Value::Array(mut items) => items.pop()?,
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEYS: [&str; 1] = ["mcp_servers"];

    #[test]
    fn table_is_added_at_the_end_and_removed_again() {
        let entry = json!({"command": "/desk", "args": ["a", "b c"], "env": {"K": "v"}});
        let table = "[mcp_servers.desk]\ncommand = \"/desk\"\nargs = [\"a\", \"b c\"]\nenv = { K = \"v\" }";
        for (before, after) in [
            ("", format!("{table}\n")),
            ("a = 1\n", format!("a = 1\n\n{table}\n")),
            ("a = 1", format!("a = 1\n\n{table}")),
            ("a = 1\n\n# end\n\n", format!("a = 1\n\n# end\n\n\n{table}\n")),
            ("a = 1\r\n", format!("a = 1\r\n\r\n{}\r\n", table.replace('\n', "\r\n"))),
        ] {
            assert_eq!(with(before, &KEYS, "desk", &entry).as_deref(), Some(&*after));
            assert_eq!(without(&after, &KEYS, "desk").as_deref(), Some(before));
        }
    }

    #[test]
    fn tables_inside_of_an_entry_belong_to_it() {
        let text = "[mcp_servers.desk] # mine\ncommand = \"x\"\n\n[mcp_servers.desk.env]\nK = \"v\"\n\n# other\n[mcp_servers.desk2]\ncommand = \"y\"\n[[list]]\n[\"mcp_servers\".'desk'.tools.a]\nb = 1\n";
        assert_eq!(
            without(text, &KEYS, "desk").unwrap(),
            "\n# other\n[mcp_servers.desk2]\ncommand = \"y\"\n[[list]]\n"
        );
        let replaced = with(text, &KEYS, "desk", &json!({"url": "u"})).unwrap();
        assert!(replaced.starts_with("[mcp_servers.desk]\nurl = \"u\"\n\n# other\n"), "{replaced}");
        assert!(replaced.ends_with("[[list]]\n"), "{replaced}");
    }

    #[test]
    fn names_are_quoted_if_needed() {
        assert_eq!(table(&KEYS, "a.b", &json!({})).unwrap(), ["[mcp_servers.\"a.b\"]"]);
        assert_eq!(header("[mcp_servers.\"a.b\"] # x").unwrap(), ["mcp_servers", "a.b"]);
        assert_eq!(header("[[a.b]]").unwrap(), ["a", "b"]);
        assert_eq!(header("[\"x\"],"), None);
    }

    #[test]
    fn errors_name_the_line_and_not_the_text() {
        let error = parse("a = 1\nsecret = sesame\n").unwrap_err();
        assert!(error.contains("at line 2") && !error.contains("sesame"), "{error}");
    }
}
