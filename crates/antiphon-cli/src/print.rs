//! What people and programs read.

use std::{
    io::{self, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use serde_json::Value;

/// A table without lines, that fits the terminal.
pub(crate) fn table<const N: usize>(heads: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(heads);
    table
}

/// A table as text, without spaces at the ends of its lines.
pub(crate) fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// A value for programs, or text for people.
pub(crate) fn print(json: bool, value: &Value, text: impl FnOnce() -> String) {
    if json { line(&format!("{value:#}")) } else { line(&text()) }
}

/// A line on standard output. Whoever reads it may have had enough (`| head`): that is no failure.
pub(crate) fn line(text: &str) {
    if let Err(error) = writeln!(io::stdout(), "{text}")
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("error: standard output cannot be written: {error}");
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether something could not be printed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether something could not be printed, and not because nobody wanted it.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Text from a server, made safe to print: without what would move the cursor, colour the screen, or show text in
/// another order than it has.
pub(crate) fn clean(text: &str) -> String {
    let unsafe_to_print = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if unsafe_to_print(c) { '\u{fffd}' } else { c }).collect()
}

/// The first line of a text.
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
    }
}
