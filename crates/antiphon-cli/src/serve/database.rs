//! `institutions`: the example that reads its rows from PostgreSQL.

use std::time::Duration;

use antiphon::http::{HttpConfig, ServeConfig, shutdown_signal};
use antiphon_results::{DualResponseServerOptions, SharedStore};
use antiphon_store::Backend;
use anyhow::{Context as _, Result, bail};
use sqlx::Connection as _;
use tokio::{net::TcpListener, time::timeout};

/// The maximum time to connect to a database.
const DATABASE: Duration = Duration::from_secs(30);

/// Serves the example `institutions`. `announce` runs when the database is ready.
pub(super) async fn serve(
    database: &str,
    backend: Backend,
    listener: TcpListener,
    announce: impl FnOnce(&TcpListener) -> Result<()>,
) -> Result<()> {
    let unreachable = "the database cannot be reached";
    // A connection pool retries a refused connection for 30 seconds, and the pool's error does not contain the cause.
    // So this code first tests the connection without a pool.
    let Ok(connected) = timeout(DATABASE, sqlx::PgConnection::connect(database)).await else {
        bail!("{unreachable}: it did not answer within {DATABASE:?}; check the address of `--database`");
    };
    // This connection was opened only as a test, so close the connection.
    let _ = connected.context(unreachable)?.close().await;
    let pool = sqlx::PgPool::connect(database).await.context(unreachable)?;
    institutions::data::prepare(&pool).await.context("the table of institutions could not be created")?;
    let options = DualResponseServerOptions::new(format!("http://{}/resources", listener.local_addr()?))
        .with_store(SharedStore::new(backend));
    let results = institutions::results(options, pool)?;
    let server = institutions::server(&results).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let app = server.router(HttpConfig::default()).nest("/resources", results.router());
    announce(&listener)?;
    server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await;
    results.shutdown().await?;
    Ok(())
}
