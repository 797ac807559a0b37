//! A chat: the model calls tools, the person sees every row.

use antiphon::llm::{Block, Content, Message, Model, Request, ToolDefinition};
use antiphon::results::{
    Row,
    client::{FetchAllOptions, ParsedDualResponse},
};
use antiphon_host::{Connection, model::CallToolResult};
use anyhow::{Context as _, ensure};
use serde_json::Value;

/// After so many replies the model has talked to itself for long enough.
const TURNS: usize = 8;

/// Answers a question: what the model said in the end. `show` gets every complete result set on the way.
///
/// # Errors
///
/// When the model or the server cannot be reached, or does not come to an end.
pub async fn answer(
    model: &dyn Model,
    server: &Connection,
    question: &str,
    mut show: impl FnMut(&ParsedDualResponse, &[Row]),
) -> anyhow::Result<String> {
    let tools: Vec<ToolDefinition> = server
        .tools()
        .await?
        .into_iter()
        .map(|tool| {
            let description = tool.description.unwrap_or_default();
            let schema = Value::Object((*tool.input_schema).clone());
            ToolDefinition::new(tool.name, schema).with_description(description)
        })
        .collect();
    let mut messages = vec![Message::user(question)];
    for _ in 0..TURNS {
        let mut request = Request::new(messages.clone());
        request.tools.clone_from(&tools);
        let reply = model.reply(&request).await?;
        let calls = reply.tool_calls();
        if calls.is_empty() {
            return Ok(reply.text());
        }
        messages.push(reply.to_message());
        let mut results = Vec::new();
        for call in calls {
            let result = server.call(&call.name, &call.arguments).await?;
            if let Some(set) = server.dual_response(&result) {
                // The model has its preview; the person gets the rest.
                let rows =
                    set.fetch_all(FetchAllOptions::new()).await.context("the rows could not be fetched")?;
                show(&set, &rows);
            }
            results.push(Block::tool_result(call.id, content(&result)?));
        }
        messages.push(Message::user(results));
    }
    ensure!(false, "the model returned no answer within {TURNS} turns");
    Ok(String::new())
}

/// What the tool said, for the model.
fn content(result: &CallToolResult) -> anyhow::Result<Vec<Content>> {
    let blocks = result.content.iter().map(|block| Ok(serde_json::from_value(serde_json::to_value(block)?)?));
    blocks.collect()
}

/// A table of all rows, as wide as they are.
pub fn table(set: &ParsedDualResponse, rows: &[Row]) -> String {
    let names: Vec<&str> = set.columns().iter().map(|column| column.name.as_str()).collect();
    let cell = |row: &Row, name: &str| match row.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let width = |name: &&str| {
        let widest = rows.iter().map(|row| cell(row, name).chars().count()).max().unwrap_or(0);
        widest.max(name.chars().count())
    };
    let widths: Vec<usize> = names.iter().map(width).collect();
    let line = |cells: Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(names.iter().map(|&name| name.to_owned()).collect())];
    lines.push(widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("  "));
    lines.extend(rows.iter().map(|row| line(names.iter().map(|name| cell(row, name)).collect())));
    lines.join("\n")
}
