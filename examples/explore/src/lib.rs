//! A model goes on from a result it never saw, and a person looks at all of it.
//!
//! `search_sales` finds more rows than anybody reads. They stream into a snapshot once; the model gets fifteen of them and
//! asks the rest with `query_result`, which makes new sets; a person sees all of both in the viewer, in a host that shows
//! MCP Apps or at a signed link.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "sales that never were need no last digits"
)]

pub mod sales;

use std::time::Duration;

use antiphon::results::{
    Access, CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, LinkKeys,
    LinkOptions, ResultLimits, Source,
};
use antiphon::snapshot::Snapshots;
use antiphon::{prelude::*, results::ResultTools};

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Search {
    /// How many sales to find. Default: 100,000.
    #[schemars(range(min = 1, max = 50_000_000))]
    rows: Option<u64>,
}

async fn search_sales(ctx: &Ctx, search: Search) -> Result<DualResponse> {
    let rows = search.rows.unwrap_or(100_000).min(MOST);
    ctx.dual_response(CreateOptions::new("Sales", Source::snapshot(sales::sales(rows)))).await
}

/// The most sales there are.
const MOST: u64 = 50_000_000;

/// How long a set, and a link to it, are good for: a person looks around.
const HOUR: Duration = Duration::from_hours(1);

/// Where sets are kept and fetched: under `base_url`, their rows in `snapshots`.
///
/// # Errors
///
/// When the base URL is none.
pub fn results(base_url: &str, snapshots: Snapshots) -> antiphon::results::Result<DualResponseServer> {
    let options = DualResponseServerOptions::new(base_url)
        .with_snapshots(snapshots)
        .with_limits(ResultLimits::default().with_link_life(HOUR))
        .with_default_expiration(HOUR)
        .with_link_keys(LinkKeys::random());
    DualResponseServer::new(options)
}

/// The MCP server.
///
/// # Errors
///
/// Never, as it stands.
pub fn server(results: &DualResponseServer) -> Result<Server> {
    let search =
        Tool::new("search_sales", "Finds sales: who bought what, where, when, for how much", search_sales);
    Ok(Server::builder("explore", env!("CARGO_PKG_VERSION"))
        .with_instructions(
            "Answers show the first rows only. Use `query_result` with the result set of an answer to count, sum, group and filter all of them.",
        )
        .with_results(results.clone())
        .with_result_tools(ResultTools::new())
        .tool(search.with_result_viewer())
        .build()?)
}

/// A set that is there from the start, and how to look at it.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The set's id.
    pub id: String,
    /// A signed link to it, for programs.
    pub link: String,
    /// A signed link to the viewer, for people.
    pub view: String,
}

/// Makes a set of `rows` sales, waits until all are written, and signs links to it.
///
/// # Errors
///
/// When the rows cannot be written.
pub async fn show(results: &DualResponseServer, rows: u64) -> antiphon::results::Result<Shown> {
    let options = CreateOptions::new("Sales", Source::snapshot(sales::sales(rows))).complete();
    let set = results.create_response(options).await?;
    let options = LinkOptions::default().with_life(HOUR);
    let link = results.mint_link(&set.resource_id, &Access::Program, options).await?.url;
    let view = link.replacen('?', "/view?", 1);
    Ok(Shown { id: set.resource_id, link, view })
}
