use std::time::Duration;

use super::{app, describe, query};
use crate::tool::Tool;

/// Tools for result sets, for models and for users.
///
/// | tool | used by | what it does |
/// |---|---|---|
/// | `query_result` | models | runs read-only SQL over result sets of the same caller and returns a new result set |
/// | `describe_result` | models | returns columns, counts and column statistics |
/// | `result_manifest`, `result_page`, `result_stats`, `result_aggregate`, `result_link` | the viewer | return the data that the viewer shows |
///
/// The viewer is an MCP App: a web page that hosts show with an answer. It has a table of all rows, statistics, charts
/// and exports. `query_result` shows it, and [`Tool::with_result_viewer`] adds it to any other tool. The viewer's tools
/// are not listed for clients that have not declared the extension `io.modelcontextprotocol/ui`.
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
#[must_use = "give it to `ServerBuilder::with_result_tools`"]
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
    /// Creates all tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether models can use `query_result` and `describe_result`. Default: yes.
    pub fn with_query(mut self, query: bool) -> Self {
        self.query = query;
        self
    }

    /// Sets whether the server has a viewer. Default: yes.
    pub fn with_viewer(mut self, viewer: bool) -> Self {
        self.viewer = viewer;
        self
    }

    /// Sets how long `query_result` waits for rows that are still being written. Default: 30 seconds.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(crate) fn has_viewer(&self) -> bool {
        self.viewer
    }

    /// Returns the selected tools.
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
