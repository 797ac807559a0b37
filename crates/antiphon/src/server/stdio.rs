use antiphon_transport::legacy_tasks::Lines;

use super::{ServeError, Server};
use crate::run::client::Connection;

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
        let transport = (Lines::server(input), Lines::server(output));
        self.serve_connection(transport, Connection::only()).await
    }
}
