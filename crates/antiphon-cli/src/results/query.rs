//! `antiphon results query`: queries a result set with SQL.

use std::io::IsTerminal as _;

use antiphon_results::ColumnDefinition;
use anyhow::{Context as _, Result};
use axum::http::Method;
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{page::WRITING, set::Set, table};
use crate::{
    exit::{Misused, Outcome},
    global::App,
    print, stdin,
};

/// Query a result set with SQL. The answer is a new result set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon results query URL 'SELECT state, count(*) AS n FROM result GROUP BY state'
  antiphon results query URL 'SELECT * FROM result EXCEPT SELECT * FROM old' --table old=rs_xyz
  antiphon results query URL - < question.sql")]
pub(crate) struct Query {
    #[command(flatten)]
    set: Set,
    /// The SQL query, which reads the set as the table `result`. `-` reads standard input.
    // The type is an `Option`, because the positional argument for the set, which comes before this argument, is also
    // an `Option`.
    #[arg(required = true)]
    sql: Option<String>,
    /// Use another set on the same server as the table NAME. Can be given more than once.
    #[arg(long = "table", value_name = "NAME=SET", value_parser = other)]
    tables: Vec<(String, String)>,
    /// Set the name of the answer.
    #[arg(long)]
    name: Option<String>,
}

/// The new result set with the rows of the query.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    total_count: Option<u64>,
    #[serde(default)]
    exact: Option<bool>,
    #[serde(default)]
    columns: Vec<ColumnDefinition>,
    data: Vec<Value>,
    #[serde(default)]
    truncated: Option<String>,
}

impl Query {
    pub(crate) async fn run(&self, app: &App) -> Result<Outcome> {
        let sql = match self.sql.as_deref() {
            Some("-") if self.set.is_stdin() => {
                return Err(Misused("standard input can be the set or the query, not both".into()).into());
            }
            Some("-") | None => stdin::read().await?,
            Some(sql) => sql.to_owned(),
        };
        let remote = self.set.reach().await?;
        let mut body = json!({"sql": sql.trim()});
        if let Some(name) = &self.name {
            body["name"] = json!(name);
        }
        if !self.tables.is_empty() {
            let tables: Map<_, _> = self.tables.iter().map(|(name, id)| (name.clone(), json!(id))).collect();
            body["tables"] = tables.into();
        }
        let text = remote.text(Method::POST, "query", Some(&body), WRITING).await?;
        if app.json {
            print::json(&text);
            return Ok(Outcome::Done);
        }
        let answer: Answer = serde_json::from_str(&text).context("the response is not the expected JSON")?;
        answer.show();
        Ok(Outcome::Done)
    }
}

impl Answer {
    fn show(&self) {
        let width = std::io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
        let width = width.map(|(width, _)| width);
        let mut columns = table::Columns::of(&self.columns, &self.data);
        let hidden = columns.fit(width);
        print::line(&columns.table(&self.data, width));
        let shown = self.data.len() as u64;
        match (self.total_count, self.exact) {
            (Some(total), Some(true) | None) => eprintln!("{}", table::footer(0, shown, total)),
            _ => eprintln!("the first {} rows; more are still coming in", table::grouped(shown)),
        }
        if let Some(limit) = &self.truncated {
            eprintln!(
                "warning: the answer is truncated: the server reached its limit ({})",
                print::first_line(limit)
            );
        }
        if !hidden.is_empty() {
            eprintln!("hint: not shown: {}; select fewer columns", print::clean(&hidden.join(", ")));
        }
        if let Some(url) = &self.url {
            eprintln!("all rows: {}", print::first_line(url));
        }
    }
}

/// Parses `name=rs_…` or `name=https://…/rs_…`. Requests to the server identify result sets by ID.
fn other(text: &str) -> Result<(String, String), String> {
    let how = || format!("`{text}` is not a valid table; write `name=rs_…`, or `name=URL`");
    let (name, set) = text.split_once('=').ok_or_else(how)?;
    let id = if set.contains("://") {
        let url = url::Url::parse(set).map_err(|error| format!("`{set}` is not a URL: {error}"))?;
        let last = url.path_segments().and_then(|mut parts| parts.rfind(|part| !part.is_empty()));
        last.map(str::to_owned).ok_or_else(how)?
    } else {
        set.to_owned()
    };
    if name.trim().is_empty() || id.is_empty() {
        return Err(how());
    }
    Ok((name.trim().to_owned(), id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_tables_are_named_by_id_or_address() {
        let found = |text| other(text).unwrap();
        assert_eq!(found("old=rs_1"), ("old".into(), "rs_1".into()));
        assert_eq!(found("old=https://a.example/r/rs_1?link=x=y"), ("old".into(), "rs_1".into()));
        for wrong in ["rs_1", "=rs_1", "old=", "old=https://a.example/"] {
            assert!(other(wrong).unwrap_err().contains("name=rs_"), "{wrong}");
        }
    }
}
