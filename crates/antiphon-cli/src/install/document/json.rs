//! Edits JSON with comments and trailing commas. VS Code, Zed and opencode use configuration files in this format.

use std::ops::Range;

use serde_json::{Value, json};

use super::newline;

const WHITE: [char; 4] = [' ', '\t', '\r', '\n'];

pub(super) fn parse(text: &str) -> Result<Value, String> {
    // White space replaces the comments, so that the positions in parse errors match the positions in the file.
    let plain = without_trailing_commas(&without_comments(text));
    if plain.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(&plain).map_err(|error| error.to_string())
}

pub(super) fn with(text: &str, keys: &[&str], name: &str, entry: &Value) -> Option<String> {
    let bare = without_comments(text);
    let style = Style::of(text, &bare);
    let Some(open) = bare.find('{') else {
        let between = if text.is_empty() || text.ends_with('\n') { "" } else { style.newline };
        let value = style.pretty(&nested(keys, name, entry), "");
        return Some(format!("{text}{between}{value}{}", style.newline));
    };
    let mut object = Object::scan(&bare, open)?;
    for (index, key) in keys.iter().enumerate() {
        let Some(member) = object.find(key) else {
            let value = nested(&keys[index + 1..], name, entry);
            return Some(style.insert(text, &object, key, &value));
        };
        object = Object::scan(&bare, member.value.start)?;
    }
    let Some(member) = object.find(name) else { return Some(style.insert(text, &object, name, entry)) };
    let value = if object.is_one_line(text) {
        entry.to_string()
    } else {
        style.pretty(entry, line_indentation(text, member.key.start))
    };
    Some(format!("{}{value}{}", &text[..member.value.start], &text[member.value.end..]))
}

pub(super) fn without(text: &str, keys: &[&str], name: &str) -> Option<String> {
    let bare = without_comments(text);
    let mut object = Object::scan(&bare, bare.find('{')?)?;
    for key in keys {
        object = Object::scan(&bare, object.find(key)?.value.start)?;
    }
    let index = object.members.iter().position(|member| member.name == name)?;
    let member = &object.members[index];
    let inside = object.open + 1;
    let start = inside + text[inside..member.key.start].trim_end_matches(WHITE).len();
    // If no comma follows the member, the comma before the member would become a trailing comma.
    let previous = index.checked_sub(1).filter(|_| member.comma.is_none());
    let before = previous.and_then(|previous| object.members[previous].comma);
    let one = |at: usize| at..at + 1;
    let cuts = [before.map(one), Some(start..member.value.end), member.comma.map(one)];
    let mut inner = String::new();
    let mut from = inside;
    for cut in cuts.into_iter().flatten() {
        inner.push_str(&text[from..cut.start]);
        from = cut.end;
    }
    inner.push_str(&text[from..object.close]);
    let inner = if inner.trim().is_empty() { "" } else { inner.as_str() };
    Some(format!("{}{inner}{}", &text[..inside], &text[object.close..]))
}

/// Wraps the entry in the objects that are missing in the file.
fn nested(keys: &[&str], name: &str, entry: &Value) -> Value {
    keys.iter().rev().fold(json!({ name: entry }), |value, key| json!({ *key: value }))
}

/// The positions of an object and its members.
#[derive(Debug)]
struct Object {
    /// The position of `{`.
    open: usize,
    /// The position of `}`.
    close: usize,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    key: Range<usize>,
    value: Range<usize>,
    /// The position of the comma after the value.
    comma: Option<usize>,
}

impl Object {
    /// Finds the members of the object at `open`. Returns `None` if the value is not an object, or if two members have
    /// the same name.
    fn scan(bare: &str, open: usize) -> Option<Self> {
        let bytes = bare.as_bytes();
        if bytes.get(open)? != &b'{' {
            return None;
        }
        let mut members: Vec<Member> = Vec::new();
        let mut at = after_white(bytes, open + 1);
        while bytes.get(at)? != &b'}' {
            let key = at..string_end(bytes, at)?;
            let name: String = serde_json::from_str(bare.get(key.clone())?).ok()?;
            let start = after_white(bytes, after_white(bytes, key.end) + 1);
            let value = start..value_end(bytes, start)?;
            let end = after_white(bytes, value.end);
            let comma = (bytes.get(end) == Some(&b',')).then_some(end);
            at = comma.map_or(end, |comma| after_white(bytes, comma + 1));
            if members.iter().any(|member| member.name == name) {
                return None;
            }
            members.push(Member { name, key, value, comma });
        }
        Some(Self { open, close: at, members })
    }

    fn find(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    fn is_one_line(&self, text: &str) -> bool {
        !self.members.is_empty() && !text[self.open..self.close].contains('\n')
    }
}

/// The line breaks and the indentation of a file.
#[derive(Debug)]
struct Style {
    newline: &'static str,
    /// The indentation of one level.
    unit: String,
}

impl Style {
    fn of(text: &str, bare: &str) -> Self {
        let first = bare.find('"').and_then(|key| own_indentation(text, key));
        let unit = first.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned();
        Self { newline: newline(text), unit }
    }

    /// Adds a member at the end of an object.
    fn insert(&self, text: &str, object: &Object, name: &str, value: &Value) -> String {
        let inside = object.open + 1;
        // Comments after the last member stay before the new member.
        let end = inside + text[inside..object.close].trim_end_matches(WHITE).len();
        let tail = &text[end..object.close];
        let name = Value::from(name);
        let (member, tail) = if object.is_one_line(text) {
            (format!(" {name}: {value}"), tail.to_owned())
        } else {
            let outer =
                own_indentation(text, object.close).unwrap_or_else(|| line_indentation(text, object.open));
            let first = object.members.first().and_then(|first| own_indentation(text, first.key.start));
            let indent = first.map_or_else(|| format!("{outer}{}", self.unit), ToOwned::to_owned);
            let member = format!("{}{indent}{name}: {}", self.newline, self.pretty(value, &indent));
            let closing = format!("{}{outer}", self.newline);
            (member, if tail.contains('\n') { tail.to_owned() } else { closing })
        };
        let rest = &text[object.close..];
        match object.members.last() {
            None => format!("{}{member}{tail}{rest}", &text[..end]),
            // The file has trailing commas, so the new member also gets a trailing comma.
            Some(Member { comma: Some(_), .. }) => format!("{}{member},{tail}{rest}", &text[..end]),
            Some(Member { value, comma: None, .. }) => {
                format!("{},{}{member}{tail}{rest}", &text[..value.end], &text[value.end..end])
            }
        }
    }

    /// Formats a value over several lines. All lines except the first line begin with `indent`.
    fn pretty(&self, value: &Value, indent: &str) -> String {
        let text = format!("{value:#}");
        let lines = text.lines().map(|line| {
            let rest = line.trim_start_matches(' ');
            self.unit.repeat((line.len() - rest.len()) / 2) + rest
        });
        lines.collect::<Vec<_>>().join(&format!("{}{indent}", self.newline))
    }
}

/// Returns the white space between the start of the line and `at`. Returns `None` if the line contains other text
/// before `at`.
fn own_indentation(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let before = &text[start..at];
    before.trim().is_empty().then_some(before)
}

/// Returns the white space at the start of the line that contains `at`.
fn line_indentation(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[start..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Replaces comments and the byte order mark with spaces. All other characters keep their positions.
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    bytes[..at].fill(b' ');
    while at < bytes.len() {
        at = match bytes[at] {
            b'"' => string_end(&bytes, at).unwrap_or(bytes.len()),
            b'/' => {
                let end = comment_end(text, at);
                for byte in &mut bytes[at..end] {
                    if !matches!(*byte, b'\r' | b'\n') {
                        *byte = b' ';
                    }
                }
                end.max(at + 1)
            }
            _ => at + 1,
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the end of the comment that starts at `at`. If no comment starts at `at`, returns `at`.
fn comment_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let length = if rest.starts_with("//") {
        rest.find(['\r', '\n']).unwrap_or(rest.len())
    } else if let Some(inner) = rest.strip_prefix("/*") {
        inner.find("*/").map_or(0, |end| end + "/**/".len())
    } else {
        0
    };
    at + length
}

/// Replaces trailing commas with spaces, because `serde_json` rejects trailing commas.
fn without_trailing_commas(bare: &str) -> String {
    let mut bytes = bare.as_bytes().to_vec();
    let mut trailing = None;
    let mut previous = b'{';
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let next = if byte == b'"' { string_end(&bytes, at).unwrap_or(bytes.len()) } else { at + 1 };
        if !is_white(byte) {
            if let (b'}' | b']', Some(comma)) = (byte, trailing) {
                bytes[comma] = b' ';
            }
            // A comma without a preceding value is an error, so this comma stays.
            let is_trailing = byte == b',' && !matches!(previous, b'{' | b'[' | b',' | b':');
            trailing = is_trailing.then_some(at);
            previous = byte;
        }
        at = next;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn after_white(bytes: &[u8], at: usize) -> usize {
    at + bytes.iter().skip(at).take_while(|byte| is_white(**byte)).count()
}

/// Returns the position after the string that begins with the quote at `open`.
fn string_end(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the position after the value that begins at `start`.
fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = start;
    loop {
        let byte = *bytes.get(at)?;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return Some(at),
            b'}' | b']' => depth -= 1,
            _ if depth == 0 && is_white(byte) => return Some(at),
            _ => {}
        }
        at = if byte == b'"' { string_end(bytes, at)? } else { at + 1 };
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Value {
        json!({"command": "/bin/desk", "args": ["a"]})
    }

    #[test]
    fn comments_and_trailing_commas_are_read() {
        let text = "\u{feff}// a \"quote\n{\"a\": [1, 2,], /* ü\n} */ \"b\": \"// no /* comment\",}\n";
        assert_eq!(parse(text).unwrap(), json!({"a": [1, 2], "b": "// no /* comment"}));
        assert_eq!(parse("// only a comment").unwrap(), json!({}));
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let error = parse("{\n  // a comment\n  \"a\": 1\n  \"b\": 2\n}").unwrap_err();
        assert!(error.contains("line 4 column 3"), "{error}");
        for text in ["{,}", "{\"a\": ,}", "[1,,]", "{\"a\": 1 /* open }", "{\"a\": \"open}", "{\"a\" 1}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn entry_is_added_in_the_style_of_the_file_and_removed_again() {
        for (before, after) in [
            (
                "{\n\t\"mcpServers\": {\n\t\t\"a\": {} // note\n\t}\n}\n",
                "{\n\t\"mcpServers\": {\n\t\t\"a\": {}, // note\n\t\t\"desk\": {\n\t\t\t\"command\": \"/bin/desk\",\n\t\t\t\"args\": [\n\t\t\t\t\"a\"\n\t\t\t]\n\t\t}\n\t}\n}\n",
            ),
            (
                "{\"mcpServers\": {\"a\": {}}}",
                "{\"mcpServers\": {\"a\": {}, \"desk\": {\"command\":\"/bin/desk\",\"args\":[\"a\"]}}}",
            ),
            (
                "{\r\n    \"mcpServers\": {}\r\n}",
                "{\r\n    \"mcpServers\": {\r\n        \"desk\": {\r\n            \"command\": \"/bin/desk\",\r\n            \"args\": [\r\n                \"a\"\r\n            ]\r\n        }\r\n    }\r\n}",
            ),
            (
                "{\n  \"mcpServers\": {\n    // none yet\n  },\n}",
                "{\n  \"mcpServers\": {\n    // none yet\n    \"desk\": {\n      \"command\": \"/bin/desk\",\n      \"args\": [\n        \"a\"\n      ]\n    }\n  },\n}",
            ),
            (
                "{\n  \"mcpServers\": {\n    \"a\": 1,\n  },\n}",
                "{\n  \"mcpServers\": {\n    \"a\": 1,\n    \"desk\": {\n      \"command\": \"/bin/desk\",\n      \"args\": [\n        \"a\"\n      ]\n    },\n  },\n}",
            ),
        ] {
            let keys = ["mcpServers"];
            assert_eq!(with(before, &keys, "desk", &entry()).as_deref(), Some(after));
            assert_eq!(without(after, &keys, "desk").as_deref(), Some(before));
        }
    }

    #[test]
    fn missing_objects_are_added_around_the_entry() {
        let added = with("{\n  \"a\": 1\n}\n", &["mcp", "servers"], "desk", &json!({"x": 1})).unwrap();
        assert_eq!(
            added,
            "{\n  \"a\": 1,\n  \"mcp\": {\n    \"servers\": {\n      \"desk\": {\n        \"x\": 1\n      }\n    }\n  }\n}\n"
        );
        assert_eq!(with("", &["m"], "d", &json!({})).unwrap(), "{\n  \"m\": {\n    \"d\": {}\n  }\n}\n");
        assert_eq!(
            with("// c", &["m"], "d", &json!(1)).unwrap(),
            "// c\n{\n  \"m\": {\n    \"d\": 1\n  }\n}\n"
        );
    }

    #[test]
    fn value_is_replaced_in_its_place() {
        let text = "{\n  \"m\": {\n    \"d\": {\"old\": true}, // mine\n    \"e\": null\n  }\n}";
        let replaced = with(text, &["m"], "d", &json!({"x": 1})).unwrap();
        assert_eq!(
            replaced,
            "{\n  \"m\": {\n    \"d\": {\n      \"x\": 1\n    }, // mine\n    \"e\": null\n  }\n}"
        );
        let removed = without(&replaced, &["m"], "d").unwrap();
        assert_eq!(removed, "{\n  \"m\": { // mine\n    \"e\": null\n  }\n}");
    }

    #[test]
    fn ambiguous_and_unexpected_forms_are_not_edited() {
        let forms = [r#"{"m": {}, "m": {}}"#, r#"{"m": null}"#, r#"{"m": 1}"#, r#"{"m": {"d": 1, "d": 2}}"#];
        for text in forms {
            assert_eq!(with(text, &["m"], "d", &json!(1)), None, "{text}");
        }
        assert_eq!(without("{\"m\": {}}", &["m"], "d"), None);
    }
}
