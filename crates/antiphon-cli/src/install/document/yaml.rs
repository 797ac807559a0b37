//! Edits YAML, which goose uses. The list of servers must be a block at the top level:
//!
//! ```yaml
//! extensions:
//!   desk:
//!     cmd: /path/to/desk
//! ```

use std::ops::Range;

use serde_json::{Map, Value};
use yaml_rust2::{Yaml, YamlLoader};

use super::{newline, without_newline};

/// The indentation of the first entry, if the list has no entries.
const INDENT: usize = 2;

pub(super) fn parse(text: &str) -> Result<Value, String> {
    let documents = YamlLoader::load_from_str(text).map_err(|error| error.to_string())?;
    match documents.as_slice() {
        [] | [Yaml::Null | Yaml::BadValue] => Ok(Value::Object(Map::new())),
        [document] => Ok(value(document)),
        _ => Err("the file has more than one YAML document".to_owned()),
    }
}

fn value(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Real(text) | Yaml::String(text) => Value::from(text.as_str()),
        Yaml::Integer(number) => Value::from(*number),
        Yaml::Boolean(boolean) => Value::from(*boolean),
        Yaml::Array(items) => items.iter().map(value).collect(),
        Yaml::Hash(members) => {
            let key = |key: &Yaml| key.as_str().map_or_else(|| format!("{key:?}"), ToOwned::to_owned);
            members.iter().map(|(name, inner)| (key(name), value(inner))).collect()
        }
        Yaml::Null | Yaml::Alias(_) | Yaml::BadValue => Value::Null,
    }
}

pub(super) fn with(text: &str, keys: &[&str], name: &str, entry: &Value) -> Option<String> {
    let [key] = keys else { return None };
    let newline = newline(text);
    let Some(list) = List::find(text, key, name) else {
        let between = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
        let entry = lines(name, entry, INDENT)?.join(newline);
        return Some(format!("{text}{between}{key}:{newline}{entry}{newline}"));
    };
    let indent = if list.indent == 0 { INDENT } else { list.indent };
    let entry = lines(name, entry, indent)?.join(newline);
    if let Some(old) = list.entry {
        let end = if text[old.clone()].ends_with('\n') { newline } else { "" };
        return Some(format!("{}{entry}{end}{}", &text[..old.start], &text[old.end..]));
    }
    let head = &text[list.head.clone()];
    let (_, after) = head.split_once(':')?;
    let after = after.trim();
    let head = if after.starts_with("{}") {
        head.replacen(" {}", "", 1)
    } else if after.is_empty() || after.starts_with('#') {
        head.to_owned()
    } else {
        return None;
    };
    let (before, rest) = (&text[..list.head.start], &text[list.head.end..]);
    // If the file does not end with a line break, the new text does not end with a line break either.
    let (between, end) = if head.ends_with('\n') { ("", newline) } else { (newline, "") };
    Some(format!("{before}{head}{between}{entry}{end}{rest}"))
}

pub(super) fn without(text: &str, keys: &[&str], name: &str) -> Option<String> {
    let [key] = keys else { return None };
    let list = List::find(text, key, name)?;
    let entry = list.entry?;
    let mut before = text[..entry.start].to_owned();
    if !text[..entry.end].ends_with('\n') {
        before.truncate(without_newline(&before).len());
    }
    if list.entries == 1 {
        // Without this text, the value of a list without entries would be null.
        before.insert_str(list.head.start + text[list.head].find(':')? + 1, " {}");
    }
    Some(before + &text[entry.end..])
}

/// The positions of the list of servers, and of one entry.
#[derive(Debug)]
struct List {
    /// The line that contains the key of the list.
    head: Range<usize>,
    /// The indentation of the entries, or 0 for an empty list.
    indent: usize,
    /// The number of entries in the list.
    entries: usize,
    entry: Option<Range<usize>>,
}

impl List {
    fn find(text: &str, key: &str, name: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut is_inside = false;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let end = at + line.len();
            let trimmed = line.trim();
            let indent = line.len() - line.trim_start_matches(' ').len();
            if let Some(list) = &mut found {
                let is_content = !trimmed.is_empty() && !trimmed.starts_with('#');
                if is_content && indent == 0 {
                    break;
                }
                if is_content && list.indent == 0 {
                    list.indent = indent;
                }
                if is_content && indent == list.indent {
                    list.entries += 1;
                    is_inside = is_key(trimmed, name);
                }
                if is_content && is_inside {
                    let start = list.entry.as_ref().map_or(at, |entry| entry.start);
                    list.entry = Some(start..end);
                }
            } else if is_key(line, key) {
                found = Some(Self { head: at..end, indent: 0, entries: 0, entry: None });
            }
            at = end;
        }
        found
    }
}

/// Returns whether a line begins with the key `key`.
fn is_key(line: &str, key: &str) -> bool {
    let unquoted = |quote: &str| line.strip_prefix(quote)?.strip_prefix(key)?.strip_prefix(quote);
    let after = ["\"", "'", ""].into_iter().find_map(unquoted);
    let value = after.and_then(|after| after.strip_prefix(':'));
    value.is_some_and(|value| value.is_empty() || value.starts_with(char::is_whitespace))
}

/// Returns the lines of an entry.
fn lines(name: &str, entry: &Value, indent: usize) -> Option<Vec<String>> {
    let mut lines = vec![format!("{}{}:", " ".repeat(indent), scalar(name))];
    for (key, value) in entry.as_object()? {
        add(&mut lines, key, value, indent + INDENT);
    }
    Some(lines)
}

fn add(lines: &mut Vec<String>, key: &str, value: &Value, indent: usize) {
    let start = format!("{}{}:", " ".repeat(indent), scalar(key));
    match value {
        Value::String(text) => lines.push(format!("{start} {}", scalar(text))),
        Value::Array(items) if !items.is_empty() => {
            lines.push(start);
            let pad = " ".repeat(indent + INDENT);
            let item = |item: &Value| item.as_str().map_or_else(|| item.to_string(), scalar);
            lines.extend(items.iter().map(|value| format!("{pad}- {}", item(value))));
        }
        Value::Object(members) if !members.is_empty() => {
            lines.push(start);
            for (key, value) in members {
                add(lines, key, value, indent + INDENT);
            }
        }
        // The value is written as JSON, which is valid YAML.
        other => lines.push(format!("{start} {other}")),
    }
}

/// Returns a text as a YAML value. If a YAML parser could read the text as another type, the value has quotes.
fn scalar(text: &str) -> String {
    const OTHER: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    if begins && text.chars().all(is_plain) && !OTHER.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEYS: [&str; 1] = ["extensions"];
    const ADDED: &str = "  desk:\n    cmd: /bin/desk\n    args: []\n    timeout: 300\n";

    fn entry() -> Value {
        json!({"cmd": "/bin/desk", "args": [], "timeout": 300})
    }

    #[test]
    fn entry_is_added_first_and_removed_again() {
        for (before, after) in [
            ("extensions: {}\n", format!("extensions:\n{ADDED}")),
            ("extensions: {} # none\nA: 1\n", format!("extensions: # none\n{ADDED}A: 1\n")),
            (
                "A: 1\nextensions:\n  # mine\n  a: {x: 1}\nB: 2\n",
                format!("A: 1\nextensions:\n{ADDED}  # mine\n  a: {{x: 1}}\nB: 2\n"),
            ),
            (
                "extensions: # list\n    a:\n        x: 1",
                format!("extensions: # list\n  {}    a:\n        x: 1", ADDED.replace("\n  ", "\n    ")),
            ),
        ] {
            assert_eq!(with(before, &KEYS, "desk", &entry()).as_deref(), Some(&*after));
            assert_eq!(without(&after, &KEYS, "desk").as_deref(), Some(before));
        }
    }

    #[test]
    fn missing_list_is_added_at_the_end() {
        assert_eq!(with("A: 1", &KEYS, "desk", &entry()).unwrap(), format!("A: 1\nextensions:\n{ADDED}"));
        assert_eq!(with("", &KEYS, "desk", &entry()).unwrap(), format!("extensions:\n{ADDED}"));
        let added = with("extensions:", &KEYS, "desk", &entry()).unwrap();
        assert_eq!(added, format!("extensions:\n{}", ADDED.trim_end()));
    }

    #[test]
    fn entry_ends_before_the_comments_of_the_next() {
        let text = "extensions:\n  'desk':\n    cmd: |\n      # not a comment\n      x\n\n  # next\n  a: 1\n";
        assert_eq!(without(text, &KEYS, "desk").unwrap(), "extensions:\n\n  # next\n  a: 1\n");
        assert_eq!(
            with(text, &KEYS, "desk", &entry()).unwrap(),
            format!("extensions:\n{ADDED}\n  # next\n  a: 1\n")
        );
    }

    #[test]
    fn other_forms_are_not_edited() {
        for text in ["extensions: {a: 1}\n", "extensions: &anchor\n  a: 1\n", "extensions: null\n"] {
            assert_eq!(with(text, &KEYS, "desk", &entry()), None, "{text}");
        }
        assert!(parse("a: 1\n---\nb: 2\n").is_err());
    }

    #[test]
    fn scalars_keep_their_type() {
        for text in ["plain", "/a/b-c.d", "true", "No", "1.5", "0x1", "a: b", "", " a", "~", "é\n\"\\", "-"]
        {
            let yaml = format!("k: {}\n", scalar(text));
            assert_eq!(parse(&yaml).unwrap(), json!({ "k": text }), "{yaml}");
        }
    }
}
