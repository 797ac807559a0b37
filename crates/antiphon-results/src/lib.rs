//! Result sets for tools that return more rows than a model can read. The model gets a preview, and the user gets all
//! rows.
//!
//! A query can find more rows than a model can read. A *dual response* gives the model the row count, the first rows,
//! and a note about omitted rows. The link in a dual response points to a *result set*, which contains all rows. Until
//! the result set expires, applications can read, sort, stream, pin and delete the result set over HTTP.
//!
#![cfg_attr(
    feature = "server",
    doc = r#"```
use antiphon_results::{Access, CreateOptions, DualResponseServer, DualResponseServerOptions, PageOptions, Rows, Source};
use serde_json::json;

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let results = DualResponseServer::new(DualResponseServerOptions::new("https://api.example.com/resources"))?;

// In a tool: create the result set, and the answer for the model.
let mut rows = Rows::new();
for id in 1..=847 {
    rows.push(&json!({"id": id, "name": format!("Institution {id}")}))?;
}
let response = results.create_response(CreateOptions::new("Institutions", Source::rows(rows))).await?;
let answer = response.to_mcp_tool_result();
assert!(answer["content"][0]["text"].as_str().unwrap().starts_with("Found 847 results."));

// In the application: read any page of the result set.
let page = results.page(&response.resource_id, &Access::Program, PageOptions::new(800, 100)).await?;
assert_eq!((page.rows.len(), page.has_next), (47, false));
# Ok(())
# }
```
"#
)]
//! This crate implements the dual response specification, version [`SPECIFICATION`]. The types of this crate have the
//! names that the specification uses. Where the specification allows several behaviors, this crate implements one of
//! these behaviors. The crate produces JSON and does not depend on an MCP transport. In the crate `antiphon`, a tool
//! can return a `DualResponse` directly. The crate `antiphon-host` fetches the rows of a dual response.
//!
//! # Modules
//!
//! - `DualResponseServer` creates result sets. `CreateOptions` configures one result set, and `ResultLimits` limits the
//!   server.
//! - `source` contains the sources of rows: `Source`, `Query`, `SqlQuery`.
//! - `snapshot` contains the types for result sets whose rows are saved: `SnapshotStore`, `RowSource`, `View`. The
//!   crate `antiphon-snapshot` implements a `SnapshotStore`.
//! - `store` contains the stores for result sets: `ResourceStore`, `MemoryStore`, `SharedStore`.
//! - `Owner`, `Authorize` and `LinkKeys` control the access to result sets. `AuditEvent` records each access.
//! - `rest` contains the HTTP routes, and the document `openapi.json` that describes the routes.
//! - `client` parses tool results that contain a result set, and fetches all rows of the result set over HTTP. The
//!   types are `DualResponseClient` and `ParsedDualResponse`.
//! - [`exact`] converts JSON numbers to text if a program would lose their digits.
//! - All modules use the types [`Rows`], [`ColumnDefinition`], [`Sort`] and [`ErrorCode`].
//!
//! # Features
//!
//! No feature is on by default. Without features, the crate contains only types.
//!
//! | feature | adds |
//! |---|---|
//! | `server` | `DualResponseServer`: creates, stores and reads result sets |
//! | `rest` | `DualResponseServer::router`: the HTTP routes, for axum |
//! | `postgres`, `mysql`, `sqlite` | `source::SqlQuery`: named queries on a database, through `sqlx` |
//! | `client` | `client`: parses tool results with a result set, and fetches its rows (does not need `server`) |
//! | `conformance` | `store::conformance`, `snapshot::conformance`: contract tests for your own store |
//!
//! # Design decisions
//!
//! - **The tool result contains some rows, and the number of omitted rows.** All rows would fill the model's context.
//!   If rows were omitted without a note, the model would draw wrong conclusions.
//! - **Rows are JSON text** from the database to the client. The server copies rows without parsing them.
//! - **A result set of a live query stores the query's name and parameters**, not a closure. So any replica can read
//!   the pages of the result set.
//! - **The server signs a link only when a caller requests one.** Text for the model never contains a signed link.
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
    page::{DEFAULT_PAGE_SIZE, ErrorBody, LifeBody, MetadataBody, Order, Sort},
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

/// The version of the dual response specification that this crate implements.
pub const SPECIFICATION: &str = "0.1.0-draft";

/// The default URI scheme of links to result sets.
pub const SCHEME: &str = "resource";

/// A web page that shows a result set, as one HTML file with styles and scripts.
///
/// The server returns this web page at a URL below the URL of the result set. The web page reads the ID of the result
/// set from this URL, and requests the rows over HTTP.
#[cfg(feature = "server")]
pub const VIEWER: &str = include_str!("../viewer/viewer.html");
