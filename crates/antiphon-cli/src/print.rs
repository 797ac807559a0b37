//! Prints output for users and programs.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use serde_json::Value;

/// Creates a table without borders that fits the terminal.
pub(crate) fn table<const N: usize>(heads: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(heads);
    table
}

/// Formats a table without trailing spaces.
pub(crate) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Prints `value` as JSON if `json` is set. If `json` is not set, prints `text`.
pub(crate) fn print(json: bool, value: &Value, text: impl FnOnce() -> String) {
    if json { self::json(&format!("{value:#}")) } else { line(&text()) }
}

/// Prints a line to standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn line(text: &str) {
    if let Err(error) = writeln!(io::stdout(), "{text}")
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("error: standard output cannot be written: {error}");
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether a write to standard output failed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Returns whether a write to standard output failed for a reason other than a closed pipe.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Makes text from a server safe to print. `clean` replaces characters that move the cursor, colour the screen, or
/// reorder or hide text.
pub(crate) fn clean(text: &str) -> String {
    let replaced = |c: char| is_deceptive(c) && c != '\n' && c != '\t' && !joins(c);
    text.chars().map(|c| if replaced(c) { '\u{fffd}' } else { c }).collect()
}

/// Prints JSON to standard output.
pub(crate) fn json(json: &str) {
    line(&clean_json(json));
}

/// Makes JSON safe to print. Deceptive characters are escaped, so the value stays the same. Outside strings, JSON
/// contains no deceptive characters except white space.
fn clean_json(json: &str) -> String {
    let mut cleaned = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\r' => cleaned.push(' '),
            c if c == '\n' || c == '\t' || !is_deceptive(c) => cleaned.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(cleaned, "\\u{unit:04x}");
                }
            }
        }
    }
    cleaned
}

/// Returns whether a character controls a terminal, reorders text, or is invisible. Deceptive characters are control
/// characters, direction marks, zero-width characters, and tag characters.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns whether a character joins other characters. Some scripts and emoji need joining characters.
fn joins(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Returns the first line of a text, safe to print.
pub(crate) fn first_line(text: &str) -> String {
    clean(text.lines().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_servers_can_neither_steer_the_terminal_nor_turn_itself_round() {
        assert_eq!(clean("a\u{1b}[2J\r\u{7}b\n\tc\u{9b}d"), "a\u{fffd}[2J\u{fffd}\u{fffd}b\n\tc\u{fffd}d");
        assert_eq!(clean("moc.\u{202e}live\u{2066}"), "moc.\u{fffd}live\u{fffd}");
        assert_eq!(clean("שלום ✓"), "שלום ✓");
        assert_eq!(clean("pay\u{200b}pal\u{e0041}\u{feff}"), "pay\u{fffd}pal\u{fffd}\u{fffd}");
        assert_eq!(clean("👩\u{200d}🚀"), "👩\u{200d}🚀");
    }

    #[test]
    fn json_of_servers_is_escaped_and_stays_equal() {
        let value = serde_json::json!({
            "a\u{9b}31m": ["moc.\u{202e}live", "zero\u{200b}width\u{feff}", "tag\u{e0041}", "e\u{301}👩\u{200d}🚀"],
            "plain": "שלום ✓\n",
        });
        let printed = clean_json(&format!("{value:#}"));
        assert!(printed.chars().all(|c| c == '\n' || !is_deceptive(c)), "{printed}");
        assert!(printed.contains("tag\\udb40\\udc41") && printed.contains("שלום ✓"), "{printed}");
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), value);
    }
}
