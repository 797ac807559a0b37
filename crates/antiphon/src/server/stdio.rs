use antiphon_transport::{boxed::BoxTransport, legacy_tasks::Lines};

use rmcp::{RoleServer, transport::IntoTransport};

use super::{ServeError, Server};
use crate::run::client::Connection;

impl Server {
    /// Serves one client over standard input and output. Returns when the client disconnects.
    ///
    /// Your program must not write its own text to standard output. Write logs to standard error.
    ///
    /// # Errors
    ///
    /// Returns an error if the client does not use MCP, or if a stream fails.
    pub async fn serve_stdio(&self) -> Result<(), ServeError> {
        self.serve_boxed(transport(), Connection::only()).await
    }
}

fn transport() -> BoxTransport {
    let (input, output) = rmcp::transport::stdio();
    BoxTransport::new(IntoTransport::<RoleServer, _, _>::into_transport((
        Lines::server(input),
        Lines::server(output),
    )))
}
