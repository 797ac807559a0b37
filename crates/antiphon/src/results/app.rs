//! The tools that the viewer calls through the host. Models do not see these tools, because the field
//! `_meta.ui.visibility` hides these tools from models.

use std::time::Duration;

use antiphon_results::{
    Access, DualResponseError, DualResponseServer, LinkOptions, PageOptions, Result as Outcome, Scope, Sort,
    snapshot::{Aggregate, Filter, Group, Measure},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Results, calls};
use crate::{
    ctx::Ctx,
    error::Result,
    model::ToolAnnotations,
    protocol::UI_META,
    tool::{TaskPolicy, Tool, ToolOutput},
};

/// The maximum number of rows in one message that the host forwards to the viewer.
const MAX_ROWS: u64 = 1000;

/// The result set to read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// The result set: its ID, URI or URL.
    id: String,
}

/// The result set to describe.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhichOrNewest {
    /// The result set: its ID, URI or URL. Default: the newest result set of the caller.
    id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PageOf {
    /// The result set: its ID, URI or URL.
    id: String,
    /// The offset of the first row, counted from 0.
    offset: Option<u64>,
    /// The number of rows to return, at most 1,000. Default: the page size of the server.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// The columns to sort by: at most four.
    #[schemars(with = "Option<SortsShape>")]
    sort: Option<Sorts>,
    /// The cursor that an earlier page returned.
    cursor: Option<String>,
    /// The columns to return, in this order. Default: all.
    columns: Option<Vec<String>>,
    /// The filter conditions. The tool uses only rows that meet all conditions.
    #[schemars(with = "Option<Vec<FilterShape>>")]
    filter: Option<Vec<Filter>>,
}

/// One sort criterion, or a list of sort criteria. Older viewers send a single sort criterion instead of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Sorts {
    One(Sort),
    Several(Vec<Sort>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AggregateOf {
    /// The result set: its ID, URI or URL.
    id: String,
    /// The columns to group by: at most two.
    #[serde(default)]
    #[schemars(with = "Vec<GroupShape>")]
    groups: Vec<Group>,
    /// The measures of each group: at most four. Default: the number of rows.
    #[serde(default)]
    #[schemars(with = "Vec<MeasureShape>")]
    measures: Vec<Measure>,
    /// The filter conditions. The tool uses only rows that meet all conditions.
    #[serde(default)]
    #[schemars(with = "Vec<FilterShape>")]
    filter: Vec<Filter>,
    /// The maximum number of groups to return, at most 10,000. If there are more groups, the tool returns the groups
    /// with the greatest first measure.
    #[schemars(range(max = 10_000))]
    limit: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkOf {
    /// The result set: its ID, URI or URL.
    id: String,
    /// The lifetime of the link, in seconds. Default: 300.
    #[schemars(range(min = 1))]
    expires_in: Option<u64>,
}

// `antiphon-results` deserializes these types. The types in this module exist only to generate JSON Schemas.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum SortsShape {
    One(SortShape),
    Several(Vec<SortShape>),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct SortShape {
    field: String,
    /// `asc` or `desc`.
    order: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct FilterShape {
    column: String,
    /// `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `in`, `contains`, `starts_with`, `is_null` or `not_null`.
    op: String,
    value: Option<Value>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct GroupShape {
    column: String,
    /// `{"width": n}`, `minute`, `hour`, `day`, `week`, `month` or `year`.
    bucket: Option<Value>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct MeasureShape {
    /// `count`, `distinct`, `sum`, `mean`, `min` or `max`.
    op: String,
    column: Option<String>,
}

/// Returns the tools that the viewer calls.
pub(super) fn tools() -> [Tool; 5] {
    [
        Tool::new("result_manifest", "What is known of a result set. For the viewer.", manifest),
        Tool::new("result_page", "A page of a result set. For the viewer.", page),
        Tool::new("result_stats", "What is in each column of a result set. For the viewer.", stats),
        Tool::new("result_aggregate", "A result set grouped and measured. For the viewer.", aggregate),
        Tool::new("result_link", "A signed link to read a result set. For the viewer.", link),
    ]
    .map(|tool| {
        tool.with_meta(UI_META, json!({"visibility": ["app"]}))
            .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
            .with_tasks(TaskPolicy::Never)
    })
}

async fn manifest(ctx: &Ctx, WhichOrNewest { id }: WhichOrNewest) -> Result<ToolOutput> {
    let id = match id {
        Some(id) => id,
        // If the host did not send a result set to the viewer, the viewer shows the newest result set of the caller.
        None => match ctx.state::<Results>()?.newest(ctx).await {
            Ok(id) => id,
            Err(error) => return Ok(failed(&error)),
        },
    };
    answer(ctx, &id, "What is known of a result set", async |server, id, access| {
        calls::manifest(server, id, access).await
    })
    .await
}

async fn stats(ctx: &Ctx, Which { id }: Which) -> Result<ToolOutput> {
    answer(ctx, &id, "What is in each column", async |server, id, access| {
        calls::stats_body(&calls::stats(server, id, access).await?)
    })
    .await
}

async fn page(ctx: &Ctx, asked: PageOf) -> Result<ToolOutput> {
    let PageOf { id, offset, limit, sort, cursor, columns, filter } = asked;
    let sorts = match sort {
        None => Vec::new(),
        Some(Sorts::One(sort)) => vec![sort],
        Some(Sorts::Several(sorts)) => sorts,
    };
    answer(ctx, &id, "Rows of a result set", async |server, id, access| {
        let limit = limit.unwrap_or_else(|| server.default_page_size()).min(MAX_ROWS);
        let options = PageOptions::new(offset.unwrap_or(0), limit)
            .with_sorts(sorts)
            .with_cursor(cursor)
            .with_columns(columns.unwrap_or_default())
            .with_filter(filter.unwrap_or_default());
        calls::page(server, id, access, options).await
    })
    .await
}

async fn aggregate(ctx: &Ctx, asked: AggregateOf) -> Result<ToolOutput> {
    let AggregateOf { id, groups, measures, filter, limit } = asked;
    let mut aggregate = Aggregate::default();
    aggregate.groups = groups;
    aggregate.measures = measures;
    aggregate.filter = filter;
    aggregate.limit = limit;
    answer(ctx, &id, "Rows grouped and measured", async |server, id, access| {
        calls::aggregate(server, id, access, &aggregate).await
    })
    .await
}

async fn link(ctx: &Ctx, LinkOf { id, expires_in }: LinkOf) -> Result<ToolOutput> {
    // The viewer only reads rows, so the link only allows reading. A web page must not be able to request a link with
    // other scopes.
    let mut options = LinkOptions::default().with_scopes([Scope::Read]);
    if let Some(seconds) = expires_in {
        options = options.with_life(Duration::from_secs(seconds));
    }
    answer(ctx, &id, "A link", async |server, id, access| calls::link(server, id, access, options).await)
        .await
}

/// Returns a response that the viewer can read. The response is the body of the corresponding HTTP route, or an `error`
/// object with an error code.
async fn answer(
    ctx: &Ctx,
    id: &str,
    what: &str,
    ask: impl AsyncFnOnce(&DualResponseServer, &str, &Access) -> Outcome<Value>,
) -> Result<ToolOutput> {
    let results = ctx.state::<Results>()?;
    let answer = match results.id(id) {
        Ok(id) => ask(&results.server, id, &results.access(ctx)).await,
        Err(error) => Err(error),
    };
    Ok(match answer {
        Ok(body) => {
            let rows =
                body["data"].as_array().map(|rows| format!(" ({} rows)", rows.len())).unwrap_or_default();
            ToolOutput::text(format!("{what}{rows}, for the app.")).with_structured(body)
        }
        Err(error) => failed(&error),
    })
}

fn failed(error: &DualResponseError) -> ToolOutput {
    let body = calls::error_body(error);
    let text = body["message"].as_str().unwrap_or_default().to_owned();
    ToolOutput::error(text).with_structured(json!({"error": body}))
}
