//! Formats runs for users.

use std::fmt::Write as _;

use serde_json::Value;

use crate::print::{table, trimmed};

/// Formats runs as a table.
pub(super) fn list(runs: &[Value]) -> String {
    if runs.is_empty() {
        return "no runs match".to_owned();
    }
    let mut table = table(["RUN", "TOOL", "STATUS", "LEGS", "UPDATED", "WAITS FOR"]);
    for run in runs {
        let status = if run["dead"] == true {
            format!("{} (given up)", text(&run["status"]))
        } else {
            text(&run["status"])
        };
        let waits = match names(&run["waitsFor"]) {
            keys if !keys.is_empty() => keys,
            _ => text(&run["message"]),
        };
        table.add_row([
            text(&run["run"]),
            text(&run["tool"]),
            status,
            text(&run["legs"]),
            text(&run["updated"]),
            waits,
        ]);
    }
    trimmed(&table)
}

/// Formats one run: its fields, its timeline and its journal.
pub(super) fn report(report: &Value) -> String {
    let mut out = String::new();
    let mut head = table(["", ""]);
    for (name, field) in [
        ("run", "run"),
        ("tool", "tool"),
        ("status", "status"),
        ("message", "message"),
        ("created", "created"),
        ("expires", "expires"),
        ("next leg", "due"),
        ("failures", "failures"),
    ] {
        if !report[field].is_null() {
            head.add_row([name.to_owned(), text(&report[field])]);
        }
    }
    head.add_row(["arguments".to_owned(), report["arguments"].to_string()]);
    if !names(&report["waitsFor"]).is_empty() {
        head.add_row(["waits for".to_owned(), names(&report["waitsFor"])]);
    }
    out.push_str(trimmed(&head).trim_start_matches('\n'));
    let _ = write!(out, "\n\nTimeline\n");
    let mut timeline = table(["AT", "WHAT", ""]);
    for event in report["timeline"].as_array().into_iter().flatten() {
        timeline.add_row([text(&event["at"]), text(&event["what"]), text(&event["detail"])]);
    }
    out.push_str(&trimmed(&timeline));
    let _ = write!(out, "\n\nJournal (values are hidden)\n");
    let mut journal = table(["#", "KEY", "OP", "OUTCOME", "SHAPE"]);
    for (number, entry) in report["journal"].as_array().into_iter().flatten().enumerate() {
        let shape = match &entry["shape"] {
            Value::String(shape) => shape.clone(),
            shape => shape.to_string(),
        };
        let outcome = text(&entry["outcome"]);
        let outcome = match entry["via"].as_str() {
            // Most questions use the channel `client`, so this channel is not printed.
            None | Some("client") => outcome,
            Some(channel) => format!("{outcome} ({channel})"),
        };
        let cells = [(number + 1).to_string(), text(&entry["key"]), text(&entry["op"]), outcome, shape];
        journal.add_row(cells);
    }
    out.push_str(&trimmed(&journal));
    out
}

fn names(value: &Value) -> String {
    let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
