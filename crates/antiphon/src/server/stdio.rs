use antiphon_transport::legacy_tasks::Lines;

use super::{ServeError, Server};

impl Server {
    /// Serves one client over standard input and output. Ends when the client goes.
    ///
    /// Nothing else may write to standard output; send logs to standard error.
    ///
    /// # Errors
    ///
    /// When the client speaks something else than MCP, or a stream fails.
    pub async fn serve_stdio(&self) -> Result<(), ServeError> {
        let (input, output) = rmcp::transport::stdio();
        self.serve_transport((Lines::server(input), Lines::server(output))).await
    }
}
