//! Serves the onboarding as a deployment does. `deploy/` has its image, and three replicas of it.

use antiphon::shutdown_signal;
use deployed::{Settings, Traces, serve};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    let traces = Traces::begin(&settings)?;
    let ended = serve(settings, shutdown_signal()).await;
    traces.end();
    ended
}
