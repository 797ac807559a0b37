use std::time::Duration;

use super::{app, describe, query};
use crate::tool::Tool;

/// The `_meta` key with the search words of a tool. The tool search of Claude Code finds a tool by these 3 to 10 words.
pub(super) const SEARCH_HINT: &str = "anthropic/searchHint";

/// The configuration of the tools that query result sets for models, and of the viewer that shows the rows to users.
///
/// | tool | used by | what it does |
/// |---|---|---|
/// | `query_result` | models | runs read-only SQL over the caller's result sets, and returns a new result set |
/// | `describe_result` | models | returns the columns, counts and column statistics of a result set |
/// | `result_manifest` | the viewer | returns the description of a result set |
/// | `result_page` | the viewer | returns a page of rows of a result set |
/// | `result_stats` | the viewer | returns column statistics of a result set |
/// | `result_aggregate` | the viewer | groups the rows of a result set and aggregates each group |
/// | `result_link` | the viewer | returns a signed link to a result set |
///
/// The viewer is an MCP App: a web page that hosts show together with a tool's result. The viewer shows a table of all
/// rows, statistics, charts and exports. Hosts show the viewer for results of `query_result`. To show the viewer for
/// the results of another tool, use [`Tool::with_result_viewer`]. The server lists the viewer's tools only to clients
/// that have declared the extension `io.modelcontextprotocol/ui`.
///
/// ```
/// use antiphon::{results::ResultTools, Server};
/// use antiphon_results::{DualResponseServer, DualResponseServerOptions};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let results = DualResponseServer::new(DualResponseServerOptions::new("https://api.example.com/resources"))?;
/// let server = Server::builder("sales", "1.0.0")
///     .with_results(results)
///     .with_result_tools(ResultTools::new())
///     .build()?;
/// # let _ = server;
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "result tools do nothing until you pass them to `ServerBuilder::with_result_tools`"]
pub struct ResultTools {
    query: bool,
    viewer: bool,
    pub(super) patience: Duration,
}

impl Default for ResultTools {
    fn default() -> Self {
        Self { query: true, viewer: true, patience: Duration::from_secs(30) }
    }
}

impl ResultTools {
    /// Creates a configuration that turns on all tools and the viewer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the server has the tools `query_result` and `describe_result` for models. Default: yes.
    pub fn with_query(mut self, query: bool) -> Self {
        self.query = query;
        self
    }

    /// Sets whether the server has the viewer and its tools. Default: yes.
    pub fn with_viewer(mut self, viewer: bool) -> Self {
        self.viewer = viewer;
        self
    }

    /// Sets how long `query_result` waits while another request is still writing the rows of a result set. Default: 30
    /// seconds.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(crate) fn has_viewer(&self) -> bool {
        self.viewer
    }

    /// Returns the tools that this configuration turns on.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        let mut tools = Vec::new();
        if self.query {
            let query = query::tool();
            tools.push(if self.viewer { query.with_result_viewer() } else { query });
            tools.push(describe::tool());
        }
        if self.viewer {
            tools.extend(app::tools());
        }
        tools
    }
}
