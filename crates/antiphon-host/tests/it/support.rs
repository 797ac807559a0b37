//! Antiphon's servers, reached through a pipe in this process.

use antiphon::Server;
use antiphon_host::{Endpoint, Lifecycle};

/// Both ways to speak.
pub(crate) const BOTH: [Lifecycle; 2] = [Lifecycle::Legacy, Lifecycle::Modern];

/// A server in this process; every connection is a new pipe.
pub(crate) fn endpoint(server: &Server) -> Endpoint {
    let server = server.clone();
    Endpoint::new("in-process", move || {
        let (near, far) = tokio::io::duplex(1 << 20);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        std::future::ready(Ok::<_, std::io::Error>(near))
    })
}
