//! `antiphon results`: shows, sorts, filters, queries and exports result sets.

mod csv;
mod export;
mod filter;
mod info;
mod open;
mod page;
mod query;
mod set;
mod stats;
mod table;
mod view;
mod wait;

use std::io::IsTerminal as _;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::{export::Export, open::Open, query::Query, set::Set, view::View};
pub(crate) use self::{open::address, set::Remote};
use crate::{
    exit::{Misused, Outcome},
    global::App,
    print,
};

/// Show, sort, filter, query and export the rows behind a tool's answer.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  antiphon results http://127.0.0.1:3001/resources/abc123 --filter 'size>=1000' --sort=-size
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
    Query(Query),
    Open(Open),
    /// Show statistics of each column: minimum, maximum, missing values and distribution.
    #[command(after_help = "Example:\n  antiphon results stats http://127.0.0.1:3001/resources/abc123")]
    Stats(Set),
    /// Show the metadata of a result set.
    #[command(after_help = "Example:\n  antiphon results info http://127.0.0.1:3001/resources/abc123")]
    Info(Set),
    /// Keep a result set until it is deleted.
    #[command(after_help = "Example:\n  antiphon results pin http://127.0.0.1:3001/resources/abc123")]
    Pin(Set),
    /// Let a pinned result set expire again.
    #[command(after_help = "Example:\n  antiphon results unpin http://127.0.0.1:3001/resources/abc123")]
    Unpin(Set),
    /// Delete a result set. This cannot be undone.
    #[command(after_help = "Example:\n  antiphon results delete http://127.0.0.1:3001/resources/abc123")]
    Delete(Set),
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    set: Set,
    /// Start at this row, counted from 0.
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// Show at most this number of rows.
    #[arg(long, default_value_t = 20)]
    limit: u64,
    #[command(flatten)]
    view: View,
    /// Show only these columns, in this order [default: all that fit].
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
}

impl Results {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let ended = match self.command {
            None => self.show.run(app).await,
            Some(Command::Export(export)) => export.run(app).await,
            Some(Command::Query(query)) => query.run(app).await,
            Some(Command::Open(open)) => open.run(app).await,
            Some(Command::Stats(set)) => stats::run(app, &set).await,
            Some(Command::Info(set)) => info::run(app, &set).await,
            Some(Command::Pin(set)) => change(app, &set, Change::Pin).await,
            Some(Command::Unpin(set)) => change(app, &set, Change::Unpin).await,
            Some(Command::Delete(set)) => change(app, &set, Change::Delete).await,
        };
        ended.or_else(set::failed)
    }
}

impl Show {
    async fn run(&self, app: &App) -> Result<Outcome> {
        self.view.check()?;
        let remote = self.set.reach().await?;
        let columns = set::columns(&remote.set).await;
        // Keep the rows as raw JSON, because a number can have more digits than an `f64`.
        let page = remote.page(&self.view, &columns, self.offset, self.limit).await?;
        let rows: Vec<Value> =
            page.rows.iter().filter_map(|row| serde_json::from_str(row.get()).ok()).collect();
        if app.json {
            let rows: Vec<&str> = page.rows.iter().map(|row| row.get()).collect();
            let (offset, total) = (self.offset, page.total);
            let (columns, next) = (json!(columns), json!(page.next));
            print::json(&format!(
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
        eprintln!("{}", table::footer(self.offset, rows.len() as u64, page.total));
        if !hidden.is_empty() {
            eprintln!("hint: not shown: {}; choose with `--columns`", print::clean(&hidden.join(", ")));
        }
        if let Some(next) = page.next {
            eprintln!("next: --offset {next}");
        }
        Ok(Outcome::Done)
    }
}

#[derive(Clone, Copy)]
enum Change {
    Pin,
    Unpin,
    Delete,
}

/// Pins, unpins or deletes a result set. Prints a message if the set does not exist.
async fn change(app: &App, set: &Set, change: Change) -> Result<Outcome> {
    let set = set.reach().await?.set;
    let (changed, what) = match change {
        Change::Pin => (set.pin().await?, "pinned"),
        Change::Unpin => (set.unpin().await?, "unpinned"),
        Change::Delete => (set.delete().await?, "deleted"),
    };
    if app.json {
        print::json(&format!("{:#}", json!({what: changed})));
    } else if changed {
        eprintln!("{what}");
    } else {
        eprintln!("the result set does not exist, or has expired");
    }
    Ok(if changed { Outcome::Done } else { Outcome::Nothing })
}
