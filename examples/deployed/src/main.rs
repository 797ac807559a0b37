//! Serves the onboarding as a deployment does. `deploy/` has its image, and three replicas of it.

use antiphon::http::shutdown_signal;
use deployed::{Settings, Traces, serve};

// With glibc's own a process that is long-lived grows by what lies freed between its threads.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let traces = Traces::begin(&settings)?;
    let ended = serve(settings, shutdown_signal()).await;
    traces.end();
    ended
}
