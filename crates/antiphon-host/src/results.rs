//! Fetches the rows behind a dual response.

use antiphon_results::client::{DualResponseClient, DualResponseClientOptions, ParsedDualResponse};
use rmcp::model::CallToolResult;

use crate::{
    connection::Connection,
    error::{Error, Result},
    host::HostBuilder,
};

impl HostBuilder {
    /// Sets the options with which the host fetches the rows of result sets. The options can allow other origins in
    /// addition to the server's origin.
    ///
    /// By default, the host fetches rows only from the origin of the MCP endpoint, over `https`, from public
    /// addresses, and without credentials. If the endpoint is on the same machine as the host, the endpoint's origin
    /// is also allowed.
    ///
    /// If you set HTTP headers, you must also set a base URL, so that headers for one server are not sent to other
    /// servers. If servers need different headers, create a [`DualResponseClient`] for each server.
    pub fn with_results(mut self, options: DualResponseClientOptions) -> Self {
        self.results = options;
        self
    }
}

impl Connection {
    /// Returns the dual response in the result of a tool, or `None` if the result contains no dual response. A dual
    /// response contains a preview, and can fetch all rows of the result set.
    ///
    /// ```no_run
    /// # async fn example(server: antiphon_host::Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// use antiphon_results::client::FetchAllOptions;
    /// use serde_json::json;
    ///
    /// let result = server.call("search_institutions", json!({"state": "NJ"})).await?;
    /// if let Some(set) = server.dual_response(&result) {
    ///     let rows = set.fetch_all(FetchAllOptions::new()).await?;
    ///     println!("{} of {} rows", rows.len(), set.total_count());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn dual_response(&self, result: &CallToolResult) -> Option<ParsedDualResponse> {
        self.results().parse(&serde_json::to_value(result).ok()?)
    }
}

/// Creates a client for the result sets of the server at `url`.
pub(crate) fn client(options: &DualResponseClientOptions, url: Option<&str>) -> Result<DualResponseClient> {
    if options.has_headers_for_any_endpoint() {
        return Err(Error::Misuse(
            "the headers of `with_results` would be sent to every connected server; set the server that they are for with `with_base_url`".into(),
        ));
    }
    let mut options = options.clone();
    if let Some(origin) = url.and_then(origin) {
        // The user chose to connect to this machine, so this origin is allowed, but no other port of this machine.
        let host = origin.host_str().unwrap_or_default();
        if matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
            options = options.allow_origin(origin.origin().ascii_serialization());
        }
        options = options.with_endpoint_origin(origin.origin().ascii_serialization());
    }
    DualResponseClient::new(options).map_err(|error| Error::Misuse(error.to_string()))
}

/// Returns the HTTP URL for a WebSocket URL, and all other URLs unchanged.
fn origin(url: &str) -> Option<url::Url> {
    let http = match url.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        _ => url.to_owned(),
    };
    url::Url::parse(&http).ok()
}
