//! A reporting server on PostgreSQL, and a chat that uses it.
//!
//! `search_institutions` finds more rows than a model can read. The model gets the first fifteen and the count; the
//! chat fetches every row over HTTP and shows them as a table.

pub mod chat;
pub mod data;

use antiphon::prelude::*;
use antiphon::results::{
    ColumnDefinition, CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, Source,
    source::SqlQuery,
};
use serde_json::json;
use sqlx::PgPool;

/// What to look for.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Search {
    /// State abbreviation.
    state: Option<String>,
    control: Option<Control>,
}

/// Who runs an institution.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    /// The state.
    Public,
    /// Somebody else.
    Private,
}

// ANCHOR: tool
async fn search_institutions(ctx: &Ctx, search: Search) -> Result<DualResponse> {
    let source = Source::query("institutions", json!({"state": search.state, "control": search.control}));
    ctx.dual_response(CreateOptions::new("Institution Search Results", source)).await
}
// ANCHOR_END: tool

// ANCHOR: results
/// Creates the server of result sets, under the base URL of `options`.
///
/// # Errors
///
/// Returns an error if the options are not valid.
pub fn results(
    options: DualResponseServerOptions,
    pool: PgPool,
) -> antiphon::results::Result<DualResponseServer> {
    let query = SqlQuery::postgres(
        pool,
        "SELECT id, name, state, control, enrollment FROM institutions
         WHERE ($1::text IS NULL OR state = $1) AND ($2::text IS NULL OR control = $2)",
    )
    .with_parameters(["state", "control"])
    .with_columns([
        ColumnDefinition::number("id"),
        ColumnDefinition::string("name"),
        ColumnDefinition::string("state"),
        ColumnDefinition::string("control"),
        ColumnDefinition::number("enrollment"),
    ])
    .with_key(["id"]);
    DualResponseServer::new(options.with_query("institutions", query))
}

/// Creates the MCP server.
///
/// # Errors
///
/// Returns an error if the server cannot be built.
pub fn server(results: &DualResponseServer) -> Result<Server> {
    let tool = Tool::new("search_institutions", "Search colleges and universities", search_institutions);
    Ok(Server::builder("ipeds-reporting", "1.0.0").with_results(results.clone()).tool(tool).build()?)
}
// ANCHOR_END: results
