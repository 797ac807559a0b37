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
        self.serve_transport(rmcp::transport::stdio()).await
    }
}
