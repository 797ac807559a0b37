use std::time::Duration;

use super::{app, describe, query};
use crate::tool::Tool;

/// Ready tools on result sets, for models and for people.
///
/// | tool | for whom | what it does |
/// |---|---|---|
/// | `query_result` | models | read-only SQL over sets of the same caller; the answer is a new set |
/// | `describe_result` | models | columns, counts and what is in each column |
/// | `result_manifest`, `result_page`, `result_stats`, `result_aggregate`, `result_link` | the viewer | what it shows |
///
/// The viewer is an MCP App: a page that hosts show beside an answer, with every row in a table, statistics, charts
/// and exports. `query_result` brings it; [`Tool::with_result_viewer`] lets any other tool bring it too. Its own tools are
/// left out of the list of a client that has not declared the extension `io.modelcontextprotocol/ui`.
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
    /// All of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether models are given `query_result` and `describe_result`. Default: yes.
    pub fn with_query(mut self, query: bool) -> Self {
        self.query = query;
        self
    }

    /// Whether there is a viewer. Default: yes.
    pub fn with_viewer(mut self, viewer: bool) -> Self {
        self.viewer = viewer;
        self
    }

    /// How long `query_result` waits for rows that are still being written. Default: 30 seconds.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub(crate) fn has_viewer(&self) -> bool {
        self.viewer
    }

    /// The tools that were asked for.
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
