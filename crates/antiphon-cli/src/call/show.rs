//! Prints the result of a tool.

use std::path::Path;

use antiphon_host::{Connection, model::CallToolResult};
use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};
use serde_json::{Value, json};

use super::media;
use crate::{
    exit::Outcome,
    print::{self, clean, line, trimmed},
};

/// Prints the result of a tool to standard output. Without `json`, the text of a failed call goes to standard error.
pub(crate) fn print_result(
    connection: &Connection,
    result: &CallToolResult,
    json: bool,
    save: Option<&Path>,
    tool: &str,
) -> Result<Outcome> {
    let value = json!(result);
    let failed = value["isError"] == true;
    let outcome = if failed { Outcome::ToolFailed } else { Outcome::Done };
    if let Some(folder) = save {
        for path in media::save_all(folder, tool, &value["content"])? {
            eprintln!("saved {}", path.display());
        }
    }
    if json {
        print::json(&format!("{value:#}"));
        return Ok(outcome);
    }
    let text = match connection.dual_response(result) {
        Some(set) => {
            let columns: Vec<String> = set.columns().iter().map(|column| column.name.clone()).collect();
            let rows: Vec<&serde_json::Map<String, Value>> = set.sample().iter().collect();
            let shown = rows.len();
            eprintln!(
                "{}",
                hint(shown, set.total_count(), set.resource_url().map_err(|_| set.resource_uri()))
            );
            table(&columns, &rows)
        }
        None => text(&value),
    };
    if failed {
        eprintln!("the tool failed: {}", if text.is_empty() { "the tool returned no text" } else { &text });
    } else if !text.is_empty() {
        line(&text);
    }
    Ok(outcome)
}

fn hint(shown: usize, total: u64, url: Result<&str, &str>) -> String {
    let rows = if total == 1 { "row" } else { "rows" };
    let rest = match url {
        Ok(url) => format!("all of them: antiphon results {}", shell_words::quote(url)),
        Err(uri) => format!("the others are at {uri}, which the CLI cannot fetch"),
    };
    clean(&format!("{shown} of {total} {rows}; {rest}"))
}

/// Returns the content blocks of a result as text, and its structured data if no block is text.
fn text(result: &Value) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let data = result.get("structuredContent").filter(|data| !data.is_null());
    // Servers repeat the structured data as text, for clients that do not read structured data. The CLI does not
    // print this text, because the formatted data is easier to read.
    let again = |block: &Value| {
        data.is_some()
            && block["text"].as_str().is_some_and(|text| serde_json::from_str(text).ok().as_ref() == data)
    };
    let blocks: Vec<&Value> = blocks.iter().filter(|block| !again(block)).collect();
    let parts: Vec<String> = blocks.iter().map(|one| block(one)).collect();
    let data = data.filter(|_| blocks.iter().all(|block| block["type"] != "text"));
    let data = data.map(|data| clean(&format!("{data:#}")));
    parts.into_iter().chain(data).collect::<Vec<_>>().join("\n")
}

/// Formats a content block for the user.
pub(crate) fn block(block: &Value) -> String {
    let field = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    clean(&match block["type"].as_str() {
        Some("text") => field(block, "text"),
        Some("image" | "audio") => {
            format!("[{}, {}]", field(block, "mimeType"), media::size(&field(block, "data")))
        }
        Some("resource_link") => format!("{}  {}", field(block, "name"), field(block, "uri")),
        Some("resource") => resource(&block["resource"]),
        _ => block.to_string(),
    })
}

/// Formats the contents of a resource for the user.
pub(crate) fn resource(resource: &Value) -> String {
    match (resource["text"].as_str(), resource["blob"].as_str()) {
        (Some(text), _) => clean(text),
        (None, Some(blob)) => {
            let kind = resource["mimeType"].as_str().unwrap_or("application/octet-stream");
            let uri = resource["uri"].as_str().unwrap_or_default();
            clean(&format!("[{kind}, {}]  {uri}", media::size(blob)))
        }
        (None, None) => clean(&resource.to_string()),
    }
}

/// Formats rows as a table. If no columns are declared, the table has the columns of the first row.
fn table(columns: &[String], rows: &[&serde_json::Map<String, Value>]) -> String {
    let first = rows.first().map(|row| row.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let columns = if columns.is_empty() { &first } else { columns };
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => clean(text),
        Some(other) => clean(&other.to_string()),
    };
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(|column| clean(column)));
    for row in rows {
        table.add_row(columns.iter().map(|column| cell(row.get(column))));
    }
    trimmed(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_content_has_its_line() {
        let result = json!({"content": [
            {"type": "text", "text": "red\u{1b}[31m alert"},
            {"type": "image", "mimeType": "image/png", "data": "AAAAAAAA"},
            {"type": "resource_link", "name": "report", "uri": "file:///r.txt"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "a/b", "blob": "AA=="}},
        ], "structuredContent": {"hidden": "there is text"}});
        insta::assert_snapshot!(text(&result), @"
        red�[31m alert
        [image/png, 6 B]
        report  file:///r.txt
        inside
        [a/b, 1 B]  file:///b
        ");
    }

    #[test]
    fn data_is_shown_when_there_is_no_text() {
        let result = json!({"content": [], "structuredContent": {"sum": 3}});
        assert_eq!(text(&result), "{\n  \"sum\": 3\n}");
        let twice =
            json!({"content": [{"type": "text", "text": "{\"sum\":3}"}], "structuredContent": {"sum": 3}});
        assert_eq!(text(&twice), "{\n  \"sum\": 3\n}");
        assert_eq!(text(&json!({"content": []})), "");
    }
}
