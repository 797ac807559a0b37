//! Parses tool results with a preview of a result set, and fetches all rows of the result set over HTTP.
//!
//! A [`DualResponseClient`] parses tool results. If a tool result is a dual response, you get a [`ParsedDualResponse`]
//! with the preview. You can [fetch](ParsedDualResponse::fetch) the rows of a dual response page by page, [all at
//! once](ParsedDualResponse::fetch_all), or as a [stream](ParsedDualResponse::fetch_stream).
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
//! # Security
//!
//! A dual response contains a URL that its server chose. With a malicious URL, a server could make the client send
//! requests to your internal network, or send your credentials to another server. So the client sends requests only to
//! origins that the application allows. [`DualResponseClientOptions`] describes how to allow an origin. The client
//! limits the time, bytes, lines and rows of every response.

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

/// A client that parses dual responses and fetches their rows.
///
/// Clones of the client are cheap and share connections.
#[derive(Clone)]
pub struct DualResponseClient {
    setup: Arc<Setup>,
}

impl DualResponseClient {
    /// Creates a client with these options.
    ///
    /// # Errors
    ///
    /// Returns an error if an option is invalid: for example a base URL that cannot be parsed, or a header that cannot
    /// be sent.
    pub fn new(options: DualResponseClientOptions) -> Result<Self> {
        Ok(Self { setup: Arc::new(Setup::new(options)?) })
    }

    /// Parses a tool result: its `structuredContent`, or a text block with the same JSON. Returns `None` if the tool
    /// result is not a dual response.
    pub fn parse(&self, tool_result: &Value) -> Option<ParsedDualResponse> {
        self.parse_strict(tool_result).ok()
    }

    /// Parses a tool result that must be a dual response.
    ///
    /// # Errors
    ///
    /// Returns [`Parse`](DualResponseClientError::Parse) if the tool result is not a dual response. The error names
    /// the missing or invalid part.
    pub fn parse_strict(&self, tool_result: &Value) -> Result<ParsedDualResponse> {
        let content = Content::of_result(tool_result).map_err(DualResponseClientError::Parse)?;
        Ok(ParsedDualResponse::new(Arc::clone(&self.setup), content))
    }

    /// Creates a handle to the result set at this URL, for programs that do not have the tool result. The preview and
    /// the columns of this handle are empty.
    ///
    /// # Errors
    ///
    /// Returns [`UrlRefused`](DualResponseClientError::UrlRefused) if the options do not allow the URL.
    pub fn at(&self, url: &str) -> Result<ParsedDualResponse> {
        let parsed = ParsedDualResponse::new(Arc::clone(&self.setup), Content::at(url));
        parsed.resource_url()?;
        Ok(parsed)
    }

    /// Parses the `structuredContent` of a tool result. Returns `None` if the content is not a dual response.
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
