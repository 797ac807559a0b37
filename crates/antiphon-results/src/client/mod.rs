//! Reads dual responses and fetches what is behind them.
//!
//! A [`DualResponseClient`] takes what a tool returned. If it is a dual response, there is a
//! [`ParsedDualResponse`]: the preview is in it, and all rows can be [fetched](ParsedDualResponse::fetch),
//! page by page, [at once](ParsedDualResponse::fetch_all) or as a
//! [stream](ParsedDualResponse::fetch_stream).
//!
//! ```no_run
//! use antiphon_results::client::{DualResponseClient, DualResponseClientOptions, FetchAllOptions};
//!
//! # async fn example(tool_result: serde_json::Value) -> antiphon_results::client::Result<()> {
//! let options = DualResponseClientOptions::new().with_endpoint_origin("https://api.example.com/mcp");
//! let client = DualResponseClient::new(options)?;
//!
//! if let Some(parsed) = client.parse(&tool_result) {
//!     println!("{} rows, the first are {:?}", parsed.total_count(), parsed.sample());
//!     let rows = parsed.fetch_all(FetchAllOptions::new()).await?;
//!     println!("here are all {}", rows.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Servers are not trusted
//!
//! A dual response holds a URL that its server chose, and the client is where that server wants to get: inside
//! a network, with credentials. So the client goes only where the application said it may, and
//! [`DualResponseClientOptions`] says how that is said. What comes back is bounded: time, bytes, lines, rows.

mod all;
mod content;
mod error;
mod exchange;
mod export;
mod fetch;
mod guard;
mod http;
mod lines;
mod locate;
mod options;
mod page;
mod parsed;
mod sets;
mod setup;
mod stream;
mod wire;

use std::{fmt, sync::Arc};

use serde_json::Value;

pub use self::{
    all::FetchAllOptions,
    error::{DualResponseClientError, FetchError, Result},
    export::{Download, ExportOptions},
    fetch::{Fetch, FetchBody, FetchRequest, FetchResponse},
    guard::{AddressRefused, AddressScope, Resolve, SystemResolver},
    http::HttpFetch,
    options::DualResponseClientOptions,
    page::{FetchOptions, FetchResult},
    parsed::{ParsedDualResponse, ResourceMetadata},
    sets::QueryRequest,
    stream::StreamOptions,
};
use self::{content::Content, setup::Setup};

/// Reads dual responses.
///
/// Cloning is cheap, and clones share connections.
#[derive(Clone)]
pub struct DualResponseClient {
    setup: Arc<Setup>,
}

impl DualResponseClient {
    /// A client that works as `options` say.
    ///
    /// # Errors
    ///
    /// When they contradict themselves: a base URL that is none, a header that cannot be sent.
    pub fn new(options: DualResponseClientOptions) -> Result<Self> {
        Ok(Self { setup: Arc::new(Setup::new(options)?) })
    }

    /// Reads a tool result: its `structuredContent`, or else a text in it that is JSON of the same shape.
    /// `None` if it is no dual response.
    pub fn parse(&self, tool_result: &Value) -> Option<ParsedDualResponse> {
        self.parse_strict(tool_result).ok()
    }

    /// Reads a tool result that must be a dual response.
    ///
    /// # Errors
    ///
    /// When it is none: the error says what is missing.
    pub fn parse_strict(&self, tool_result: &Value) -> Result<ParsedDualResponse> {
        let content = Content::of_result(tool_result).map_err(DualResponseClientError::Parse)?;
        Ok(ParsedDualResponse::new(Arc::clone(&self.setup), content))
    }

    /// The result set at a URL, without the tool result that it came in. Preview and columns are empty.
    ///
    /// # Errors
    ///
    /// Returns [`UrlRefused`](DualResponseClientError::UrlRefused) if the options do not allow the URL.
    pub fn at(&self, url: &str) -> Result<ParsedDualResponse> {
        let parsed = ParsedDualResponse::new(Arc::clone(&self.setup), Content::at(url));
        parsed.resource_url()?;
        Ok(parsed)
    }

    /// Reads the `structuredContent` of a tool result. `None` if it is no dual response.
    pub fn parse_structured(&self, structured_content: &Value) -> Option<ParsedDualResponse> {
        let content = Content::of_structured(structured_content).ok()?;
        Some(ParsedDualResponse::new(Arc::clone(&self.setup), content))
    }
}

impl fmt::Debug for DualResponseClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DualResponseClient").field("fetch", &self.setup.fetch).finish_non_exhaustive()
    }
}
