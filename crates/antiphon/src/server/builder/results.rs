//! The settings for result sets.

use antiphon_results::{DualResponseServer, Owner};

use super::ServerBuilder;
use crate::{
    registry::Registry,
    results::{ResultTools, Results, is_attached},
};

impl ServerBuilder {
    /// Sets the store for result sets. [`Ctx::dual_response`](crate::Ctx::dual_response) creates result sets in the
    /// store. Each result set has a link (`resource://…`). Clients can read this link as an MCP resource, within size
    /// limits.
    ///
    /// Applications fetch all rows over HTTP. With the feature `rest` of `antiphon-results`, `results.router()` returns
    /// the HTTP routes for the rows of result sets. Merge the routes of `results.router()` into the application that
    /// serves MCP.
    ///
    /// A result set belongs to the principal that called the tool. The principal comes from
    /// [`with_principal`](Self::with_principal) or from the server's authentication.
    pub fn with_results(self, results: DualResponseServer) -> Self {
        self.with_results_for(results, |principal| Owner::principal(principal))
    }

    /// Sets the store for result sets, on a server with several tenants. `owner` is a function that returns the owner
    /// of a principal's result sets, for example the tenant. See [`with_results`](Self::with_results).
    pub fn with_results_for(
        mut self,
        results: DualResponseServer,
        owner: impl Fn(&str) -> Owner + Send + Sync + 'static,
    ) -> Self {
        self.outer_settings.insert("with_results");
        let results = Results::new(results, owner);
        let template = results.template();
        self.with_state(results).resource_template(template)
    }

    /// Adds tools with which models query result sets, and a viewer in which users see the rows.
    ///
    /// You must also call [`with_results`](Self::with_results), before or after this method. Models can query a result
    /// set only if its rows are saved. The viewer also shows column details only if the rows are saved. To save rows,
    /// use `Source::snapshot` in your tool, and set a storage with `DualResponseServerOptions::with_snapshots`.
    pub fn with_result_tools(mut self, tools: ResultTools) -> Self {
        self.outer_settings.insert("with_result_tools");
        self.with_state(tools)
    }

    /// Adds the tools and the metrics for result sets. Call this method after all settings are known.
    pub(super) fn add_result_tools(mut self) -> Self {
        if let Some(results) = self.given::<Results>().filter(|_| self.recorder.is_on()) {
            results.watch(self.recorder.clone());
        }
        let tools = self.given::<ResultTools>().cloned();
        if !tools.as_ref().is_some_and(ResultTools::has_viewer) {
            self.problems.extend(needs_viewer(&self.registry));
        }
        let Some(tools) = tools else { return self };
        let Some(results) = self.given::<Results>() else {
            self.problems.push(
                "result tools are enabled, but the server has no result sets; add them with `ServerBuilder::with_results`".into(),
            );
            return self;
        };
        let viewer = tools.has_viewer().then(|| results.viewer());
        self = self.tools(tools.tools());
        match viewer {
            Some(viewer) => self.resource(viewer),
            None => self,
        }
    }
}

/// Returns one problem for each tool that uses the result viewer. Call this function only if the server has no viewer.
pub(in crate::server) fn needs_viewer(registry: &Registry) -> impl Iterator<Item = String> {
    let shown = registry.tools().iter().filter(|tool| is_attached(tool));
    shown.map(|tool| {
        let name = tool.name();
        format!(
            "the tool `{name}` uses the result viewer, but the server has none; add it with `ServerBuilder::with_result_tools`"
        )
    })
}
