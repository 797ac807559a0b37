//! `antiphon results`.

mod csv;
mod export;
mod set;
mod table;

use std::io::IsTerminal as _;

use antiphon_results::{
    Sort,
    client::{FetchOptions, ParsedDualResponse},
};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json, value::RawValue};

use self::{export::Export, set::Set};
use crate::{
    app::App,
    exit::{Misused, Outcome},
    print,
};

/// Look at the rows behind a tool's answer: page, sort, export.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  antiphon results http://127.0.0.1:3001/resources/abc123 --sort enrollment:desc --limit 10
  antiphon call reports search_institutions --json > answer.json
  antiphon results answer.json --origin http://127.0.0.1:3001
  antiphon results export http://127.0.0.1:3001/resources/abc123 --format csv --output all.csv"
)]
pub(crate) struct Results {
    #[command(flatten)]
    show: Show,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Export(Export),
    /// What the server knows of a result set.
    #[command(after_help = "Example:\n  antiphon results info http://127.0.0.1:3001/resources/abc123")]
    Info(Set),
    /// Keep a result set until it is deleted.
    #[command(after_help = "Example:\n  antiphon results pin http://127.0.0.1:3001/resources/abc123")]
    Pin(Set),
    /// Let a pinned result set expire again.
    #[command(after_help = "Example:\n  antiphon results unpin http://127.0.0.1:3001/resources/abc123")]
    Unpin(Set),
    /// Delete a result set. It cannot be brought back.
    #[command(after_help = "Example:\n  antiphon results delete http://127.0.0.1:3001/resources/abc123")]
    Delete(Set),
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    set: Set,
    /// The first row to show, counted from 0.
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// How many rows to show.
    #[arg(long, default_value_t = 20)]
    limit: u64,
    /// The column to sort by; `name:desc` begins with the greatest.
    #[arg(long, value_name = "COLUMN[:desc]", value_parser = sort)]
    sort: Option<Sort>,
    /// Which columns to show, in this order [default: all that fit].
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
}

impl Results {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let ended = match self.command {
            None => self.show.run(app).await,
            Some(Command::Export(export)) => export.run(app).await,
            Some(Command::Info(set)) => info(app, &set).await,
            Some(Command::Pin(set)) => change(app, &set, Change::Pin).await,
            Some(Command::Unpin(set)) => change(app, &set, Change::Unpin).await,
            Some(Command::Delete(set)) => change(app, &set, Change::Delete).await,
        };
        ended.or_else(set::failed)
    }
}

impl Show {
    async fn run(&self, app: &App) -> Result<Outcome> {
        let set = self.set.open().await?;
        let mut options = FetchOptions::new().with_offset(self.offset).with_limit(self.limit);
        if let Some(sort) = self.sort.clone() {
            options = options.with_sort(sort);
        }
        // As they came: a number may have more digits than a computer's own have.
        let page = set.fetch_as::<Box<RawValue>>(options).await?;
        let columns = set::columns(&set).await;
        let rows: Vec<Value> =
            page.data.iter().filter_map(|row| serde_json::from_str(row.get()).ok()).collect();
        if app.json {
            let rows: Vec<&str> = page.data.iter().map(|row| row.get()).collect();
            let (offset, total) = (page.offset, page.total_count);
            let (columns, next) = (json!(columns), json!(page.next_offset));
            print::line(&format!(
                "{{\"offset\": {offset}, \"total\": {total}, \"next\": {next}, \"columns\": {columns}, \"rows\": [{}]}}",
                rows.join(",\n")
            ));
            return Ok(Outcome::Done);
        }
        let mut shown = table::Columns::of(&columns, &rows);
        if !self.columns.is_empty() {
            shown.choose(&self.columns).map_err(Misused)?;
        }
        let width = std::io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
        let hidden =
            if self.columns.is_empty() { shown.fit(width.map(|(width, _)| width)) } else { Vec::new() };
        print::line(&shown.table(&rows, width.map(|(width, _)| width)));
        eprintln!("{}", table::footer(page.offset, rows.len() as u64, page.total_count));
        if !hidden.is_empty() {
            eprintln!("hint: not shown: {}; choose with `--columns`", print::clean(&hidden.join(", ")));
        }
        if let Some(next) = page.next_offset {
            eprintln!("next: --offset {next}");
        }
        Ok(Outcome::Done)
    }
}

async fn info(app: &App, set: &Set) -> Result<Outcome> {
    let metadata = set.open().await?.metadata().await?;
    print::print(app.json, &json!(metadata), || {
        let mut table = print::table(["COLUMN", "TYPE", "ABOUT"]);
        for column in &metadata.columns {
            let about = column.description.as_deref().unwrap_or_default();
            table.add_row([
                print::first_line(&column.name),
                print::first_line(column.kind.name()),
                print::first_line(about),
            ]);
        }
        let expires = metadata.expires_at.map_or_else(|| "never".to_owned(), |end| end.to_rfc3339());
        format!(
            "rows     {}\ncreated  {}\nexpires  {expires}\nread     {} times\n\n{}",
            table::grouped(metadata.total_count),
            metadata.created_at.to_rfc3339(),
            metadata.access_count,
            print::trimmed(&table)
        )
    });
    Ok(Outcome::Done)
}

#[derive(Clone, Copy)]
enum Change {
    Pin,
    Unpin,
    Delete,
}

/// Changes a set; that it is gone is said, too.
async fn change(app: &App, set: &Set, change: Change) -> Result<Outcome> {
    let set = set.open().await?;
    let (changed, what) = match change {
        Change::Pin => (set.pin().await?, "pinned"),
        Change::Unpin => (set.unpin().await?, "unpinned"),
        Change::Delete => (set.delete().await?, "deleted"),
    };
    if app.json {
        print::line(&format!("{:#}", json!({what: changed})));
    } else if changed {
        eprintln!("{what}");
    } else {
        eprintln!("there is no such result set; it may have expired");
    }
    Ok(if changed { Outcome::Done } else { Outcome::Nothing })
}

fn sort(text: &str) -> Result<Sort, String> {
    match text.rsplit_once(':') {
        Some((field, "desc")) => Ok(Sort::descending(field)),
        Some((field, "asc")) => Ok(Sort::ascending(field)),
        Some((_, order)) => Err(format!("`{order}` is no order; write `asc` or `desc`")),
        None if text.is_empty() => Err("name a column".to_owned()),
        None => Ok(Sort::ascending(text)),
    }
}

/// How many rows a set has, as its server says now.
async fn count(set: &ParsedDualResponse) -> Option<u64> {
    set.metadata().await.ok().map(|metadata| metadata.total_count)
}
