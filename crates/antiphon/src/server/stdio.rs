use antiphon_transport::legacy_tasks::Lines;

use super::{ServeError, Server};

impl Server {
    /// Serves one client over standard input and output. Returns when the client disconnects.
    ///
    /// Your program must not write anything else to standard output. Send logs to standard error.
    ///
    /// # Errors
    ///
    /// Returns an error if the client does not use MCP, or if a stream fails.
    pub async fn serve_stdio(&self) -> Result<(), ServeError> {
        let (input, output) = rmcp::transport::stdio();
        self.serve_transport((Lines::server(input), Lines::server(output))).await
    }
}
