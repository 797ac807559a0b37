//! Result sets: the model gets a preview, the application a link, people every row.
//!
//! A query finds more rows than a model can read. A *dual response* tells the model how many there are, shows it the
//! first of them, and says what is left out; behind it stands a *result set*, which applications page, sort, stream,
//! pin and delete over HTTP for as long as it lives.
//!
#![cfg_attr(
    feature = "server",
    doc = r#"```
use antiphon_results::{Access, CreateOptions, DualResponseServer, DualResponseServerOptions, PageOptions, Rows, Source};
use serde_json::json;

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let results = DualResponseServer::new(DualResponseServerOptions::new("https://api.example.com/resources"))?;

// In a tool: what the model reads, and what the application does.
let mut rows = Rows::new();
for id in 1..=847 {
    rows.push(&json!({"id": id, "name": format!("Institution {id}")}))?;
}
let response = results.create_response(CreateOptions::new("Institutions", Source::rows(rows))).await?;
let answer = response.to_mcp_tool_result();
assert!(answer["content"][0]["text"].as_str().unwrap().starts_with("Found 847 results."));

// Out of band: any page of it.
let page = results.page(&response.resource_id, &Access::Program, PageOptions::new(800, 100)).await?;
assert_eq!((page.rows.len(), page.has_next), (47, false));
# Ok(())
# }
```
"#
)]
//! It follows the dual response specification, version [`SPECIFICATION`], whose names it keeps, and answers the
//! questions that one leaves open. It knows no MCP transport: what it makes is JSON. The crate `antiphon` takes a
//! `DualResponse` as a tool's answer as it is, and `antiphon-host` fetches what is behind one.
//!
//! # The parts
//!
//! - `DualResponseServer`, `CreateOptions`, `ResultLimits`: making sets, and what bounds them.
//! - `source`: where rows come from. `Source`, `Query`, `SqlQuery`.
//! - `snapshot`: rows that are saved, at any size. `SnapshotStore`, `RowSource`, `View`; kept by `antiphon-snapshot`.
//! - `store`: where sets are kept. `ResourceStore`, `MemoryStore`, `SharedStore`.
//! - `Owner`, `Authorize`, `LinkKeys`, `AuditEvent`: who may see a set, and who did.
//! - `rest`: the routes, and `openapi.json`.
//! - `client`: `DualResponseClient`, `ParsedDualResponse`.
//! - [`exact`]: numbers that keep every digit.
//! - [`Rows`], [`ColumnDefinition`], [`Sort`], [`ErrorCode`]: what all of them speak of.
//!
//! # Features
//!
//! None is on by default: without any, the crate is types.
//!
//! | feature | what it gives |
//! |---|---|
//! | `server` | `DualResponseServer`: makes result sets, keeps them, reads pages of them |
//! | `rest` | `DualResponseServer::router`: the routes, for axum |
//! | `postgres`, `mysql`, `sqlite` | `source::SqlQuery`: named queries on a database, through `sqlx` |
//! | `client` | `client`: reads dual responses and fetches what is behind them; builds without the server |
//! | `conformance` | `store::conformance`, `snapshot::conformance`: the laws of a store of sets, and of a store of rows, as tests |
//!
//! # Why not otherwise
//!
//! - **Not all rows in the answer, and not a silent cut.** The first floods the model; the second makes it sure of what
//!   is wrong.
//! - **Rows are JSON text** from the database to the reader: nobody between them needs to look inside.
//! - **Names and parameters, not closures**, are what a set keeps of its query, so that any replica can go on with it.
//! - **Links are signed on demand** and are in nothing that a model reads.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod column;
mod error;
pub mod exact;
mod owner;
mod page;
mod rows;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod hex;
#[cfg(feature = "server")]
mod link;
#[cfg(feature = "server")]
mod response;
#[cfg(feature = "rest")]
pub mod rest;
#[cfg(feature = "server")]
mod server;
#[cfg(any(feature = "server", feature = "client"))]
pub mod snapshot;
#[cfg(feature = "server")]
pub mod source;
#[cfg(feature = "server")]
pub mod store;

pub use self::{
    column::{ColumnDefinition, ColumnType},
    error::{BoxError, DualResponseError, ErrorCode, Result},
    owner::Owner,
    page::{DEFAULT_LIMIT, ErrorBody, LifeBody, MetadataBody, Order, Sort},
    rows::{Row, Rows},
};

#[cfg(feature = "server")]
pub use self::{
    link::{Link, LinkKeys, LinkOptions, Scope},
    response::{DualResponse, Omitted},
    server::{
        Access, Action, AuditEvent, Authorize, Consistency, CreateOptions, DualResponseServer,
        DualResponseServerOptions, Expiry, LinkAccess, Page, PageOptions, QueryOptions, ResultLimits,
        SetExport,
    },
    source::{Query, Source},
    store::{MemoryStore, ResourceStore, SharedStore},
};

/// The version of the specification that is followed.
pub const SPECIFICATION: &str = "0.1.0-draft";

/// The scheme of links, where nothing else is configured.
pub const SCHEME: &str = "resource";

/// A page that shows a result set, as one file: HTML with its styles and scripts. It takes the set from its own address,
/// and asks the routes beside it for rows.
#[cfg(feature = "server")]
pub const VIEWER: &str = include_str!("../viewer/viewer.html");
