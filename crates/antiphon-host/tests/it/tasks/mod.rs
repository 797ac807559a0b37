//! Tasks, in both revisions.

mod legacy;
mod legacy_server;
mod modern;
mod modern_server;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use antiphon_host::{Endpoint, Form, Host, HostBuilder, HostLimits, Lifecycle, Shown, model::CallToolResult};
use rmcp::{ServerHandler, ServiceExt as _};
use serde_json::json;
use tokio::task::AbortHandle;

/// The pipes to a server, to be cut.
#[derive(Clone, Default)]
struct Pipes(Arc<Mutex<Vec<AbortHandle>>>);

impl Pipes {
    fn cut(&self) {
        for pipe in self.0.lock().unwrap().drain(..) {
            pipe.abort();
        }
    }
}

/// A server of the SDK's in this process; every connection is a new pipe.
fn serve<H: ServerHandler + Clone>(handler: &H) -> (Endpoint, Pipes) {
    let (handler, pipes) = (handler.clone(), Pipes::default());
    let opened = pipes.clone();
    let endpoint = Endpoint::new("in-process", move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        let handler = handler.clone();
        let serving = tokio::spawn(async move {
            if let Ok(running) = handler.serve(far).await {
                let _ = running.waiting().await;
            }
        });
        opened.0.lock().unwrap().push(serving.abort_handle());
        std::future::ready(Ok::<_, std::io::Error>(near))
    });
    (endpoint, pipes)
}

/// A host that calls everybody Ada, and counts how often it was asked.
fn ada(lifecycle: Lifecycle) -> (HostBuilder, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let builder = host(lifecycle).with_forms(move |_: Form| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Shown::Accept(json!({"name": "Ada"})))
    });
    (builder, asked)
}

fn host(lifecycle: Lifecycle) -> HostBuilder {
    let fast = std::time::Duration::from_millis(1);
    let limits = HostLimits::default().with_reconnects(5, fast, fast * 10);
    Host::builder("h", "1").with_lifecycle(lifecycle).with_limits(limits)
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}
