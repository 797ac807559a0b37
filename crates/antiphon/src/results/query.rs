//! The tool `query_result`. A model uses this tool to run an SQL query over all rows of a result set.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use antiphon_results::{Access, DualResponse, DualResponseError, QueryOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    Results, calls,
    describe::named,
    tools::{ResultTools, SEARCH_HINT},
};
use crate::{
    ctx::Ctx,
    error::{Error, Result},
    model::ToolAnnotations,
    tool::Tool,
};

const DESCRIPTION: &str = "Runs read-only SQL over all rows of a result set that an earlier answer in this conversation \
named, and answers with a new result set: its count, its first rows, and an ID that can be queried in turn. \
Use it instead of guessing from a preview: to count, sum, group, sort, filter, join.

- The SQL reads the result set as the table `result`. To join other result sets, name them in `tables`.
- One SELECT, WITH and UNION included, in DataFusion's dialect, which is close to PostgreSQL's: date_trunc, date_part, \
CASE, window functions, approx_distinct. Put ORDER BY and LIMIT into it.
- Names are lower case unless they stand in double quotes; text stands in single quotes. `describe_result` lists the \
columns with their types and what is in them: call it first if you do not know them.
- Refused: anything that writes, other tables, files, the network, several statements. Memory, time and rows are \
bounded: aggregate or filter rather than ordering everything.
- Result sets expire, and only their owner can query them. If a result set is gone, \
repeat the tool call that created the result set.";

/// The arguments of `query_result`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The SQL query. Example: SELECT state, count(*) AS n, sum(amount) AS total FROM result GROUP BY state ORDER BY
    /// total DESC LIMIT 20
    sql: String,
    /// The result set that the query reads as the table `result`: an ID like rs_…, or a link like `resource://rs_…`.
    result: String,
    /// Other result sets that the query reads. Each key is a table name in the query. Each value is the ID or the link
    /// of a result set.
    #[serde(default)]
    tables: Option<BTreeMap<String, String>>,
    /// A display name for the new result set. Use a few words.
    #[serde(default)]
    name: Option<String>,
    /// The number of rows that you receive, from 1 to 100. Default: 50. The new result set contains all rows of the
    /// query.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    rows: Option<usize>,
}

pub(super) fn tool() -> Tool {
    let annotations = ToolAnnotations::with_title("Query a result set").read_only(true).open_world(false);
    Tool::new("query_result", DESCRIPTION, query_result)
        .with_annotations(annotations)
        .with_meta(SEARCH_HINT, "SQL count sum group filter join over earlier result rows")
}

async fn query_result(ctx: &Ctx, ask: Ask) -> Result<DualResponse> {
    let results = ctx.state::<Results>()?;
    let sources = sources(results, &ask).map_err(|error| Error::tool(error).terminal())?;
    let name = ask.name.unwrap_or_else(|| "Query result".into());
    let mut options =
        QueryOptions::new(ask.sql).with_name(name).with_sample(ask.rows.unwrap_or(ROWS).clamp(1, MAX_ROWS));
    let [(_, id), tables @ ..] = &sources[..] else {
        return Err(Error::misuse("the query names no result set: pass the ID of at least one result set"));
    };
    for (table, id) in tables {
        options = options.with_table(table, id);
    }
    let made = ctx.step("query result", || async {
        let access = results.access(ctx);
        let patience = ctx.state::<ResultTools>()?.patience;
        let begun = Instant::now();
        loop {
            match calls::query(&results.server, id, &access, options.clone()).await {
                Ok(made) => return Ok(made),
                // Another request is still writing the rows, or the query must wait for other queries.
                Err(
                    DualResponseError::NotReady { retry_after } | DualResponseError::Busy { retry_after },
                ) if begun.elapsed().saturating_add(retry_after) < patience => {
                    tokio::time::sleep(retry_after.max(SHORTEST)).await;
                }
                Err(error) => return Err(told(results, &access, &sources, &error).await),
            }
        }
    });
    made.await
}

/// The default number of rows in a query's preview. Most queries return groups, so this default is larger than the
/// default for other previews.
const ROWS: usize = 50;

/// The maximum number of rows that a model can request for the preview.
const MAX_ROWS: usize = 100;

/// The minimum time that the tool waits before it runs a busy query again.
const SHORTEST: Duration = Duration::from_millis(50);

/// Returns a pair of table name and result set ID for each table of a query. The first pair is the table `result`.
fn sources(results: &Results, ask: &Ask) -> Result<Vec<(String, String)>, String> {
    let id = |argument: &str, named: &str| {
        results.id(named).map(ToOwned::to_owned).map_err(|error| format!("`{argument}`: {error}"))
    };
    let mut sources = vec![("result".to_owned(), id("result", &ask.result)?)];
    for (table, named) in ask.tables.iter().flatten() {
        if table == "result" {
            return Err(
                "`tables`: the table name `result` is reserved for the set in the argument `result`; use another name".into(),
            );
        }
        sources.push((table.clone(), id(&format!("tables.{table}"), named)?));
    }
    Ok(sources)
}

/// Returns an error that describes how the model can correct its query.
async fn told(
    results: &Results,
    access: &Access,
    sources: &[(String, String)],
    error: &DualResponseError,
) -> Error {
    let said = calls::message(error);
    let (text, lasting) = match error {
        DualResponseError::Refused { rule, .. } => {
            // An invalid query can contain a wrong column name. So only the error for an invalid query lists the
            // columns.
            let columns = match *rule {
                "not_valid" => columns(results, access, sources).await,
                _ => String::new(),
            };
            (format!("the query was refused ({rule}): {said}{columns}"), true)
        }
        DualResponseError::Invalid(_) => (format!("{said}{}", columns(results, access, sources).await), true),
        DualResponseError::NotFound | DualResponseError::Expired => {
            (gone(results, access, sources).await, true)
        }
        DualResponseError::Timeout { .. } => (
            format!(
                "the query was stopped: {said}. Filter first, group, or take fewer columns, and try again"
            ),
            true,
        ),
        // A message of the query engine can contain internal details, so the model does not receive this message.
        DualResponseError::Query(_) => (
            "the query failed during its execution; look for a division by zero, an invalid cast, or a number that is too large"
                .into(),
            true,
        ),
        DualResponseError::NotReady { .. } => {
            ("the rows are still being written; call again in a while".into(), false)
        }
        DualResponseError::TooLarge(_)
        | DualResponseError::Unsupported(_)
        | DualResponseError::Failed(_)
        | DualResponseError::Config(_) => (said, true),
        _ => (said, false),
    };
    let error = Error::tool(text);
    if lasting { error.terminal() } else { error }
}

/// Returns a text that lists the columns of the result sets.
async fn columns(results: &Results, access: &Access, sources: &[(String, String)]) -> String {
    let mut text = String::new();
    for (table, id) in sources {
        let Ok(resource) = results.server.describe(id, access).await else { continue };
        let columns = resource.columns.iter().take(MAX_COLUMNS).map(named).collect::<Vec<_>>().join(", ");
        let more = if resource.columns.len() > MAX_COLUMNS { ", …" } else { "" };
        let _ = write!(text, "\nColumns of `{table}`: {columns}{more}");
    }
    text
}

/// The maximum number of columns that an error lists for each result set.
const MAX_COLUMNS: usize = 50;

/// Returns an error that lists the result sets that the query needs and that do not exist.
async fn gone(results: &Results, access: &Access, sources: &[(String, String)]) -> String {
    let mut missing = Vec::new();
    for (table, id) in sources {
        if results.server.describe(id, access).await.is_err() {
            missing.push(format!("`{id}` (table `{table}`)"));
        }
    }
    let missing =
        if missing.is_empty() { "`result`, or a set in `tables`".into() } else { missing.join(", ") };
    format!(
        "the result set does not exist or has expired: {missing}; repeat the tool call that created the \
         result set, and use the ID in the new answer"
    )
}
