use std::{sync::Arc, time::Duration};

use redis::{
    Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value, cluster::ClusterClientBuilder,
    cluster_async::ClusterConnection, cluster_routing::SingleNodeRoutingInfo,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

use super::{
    config::RedisConfig,
    dial::{Dialer, host_and_port},
    fate::{Fate, NAME},
    primary::Primary,
    script::Script,
};
use crate::error::{Error, Result};

/// The connection that all operations share. `Link` limits the number of concurrent operations, and retries commands.
///
/// The retries and timeouts of the client library are off, because the client library does not check whether a command
/// has run. `Link` sends a command again only if the command has certainly not run.
#[derive(Clone)]
pub(super) struct Link {
    wire: Wire,
    places: Arc<Semaphore>,
    connect_timeout: Duration,
    timeout: Duration,
}

#[derive(Clone)]
enum Wire {
    Primary(Primary),
    Cluster(ClusterConnection),
}

impl Link {
    pub(super) async fn connect(config: &RedisConfig, dialer: &Dialer) -> Result<Self> {
        let connecting = async {
            if config.is_cluster() {
                let builder = ClusterClientBuilder::new(dialer.servers().iter().cloned())
                    .retries(0)
                    .connection_timeout(config.connect_timeout)
                    .tcp_settings(dialer.tcp_settings());
                let client = dialer.secure(builder).build()?;
                match client.get_async_connection().await {
                    Ok(connection) => Ok(Wire::Cluster(connection)),
                    // The cluster client does not return the error of a node. So this code connects to a node to get
                    // the error of the node.
                    Err(error) => Err(dialer.dial_node(None, None).await.err().unwrap_or(error)),
                }
            } else {
                Primary::connect(dialer.clone()).await.map(Wire::Primary)
            }
        };
        #[cfg(feature = "tls")]
        choose_provider();
        let wire = match timeout_at(Instant::now() + config.connect_timeout, connecting).await {
            Ok(Ok(wire)) => wire,
            Ok(Err(error)) if is_final(&error) => {
                return Err(Error::Config {
                    problem: format!("Redis rejected the connection: {error}; check the user and password"),
                });
            }
            Ok(Err(error)) => {
                #[cfg(feature = "tls")]
                if let Some(problem) = crate::tls::refusal(&error) {
                    return Err(Error::Config {
                        problem: format!(
                            "TLS with Redis failed: {problem}; check the certificates and \
                             `RedisConfig::with_authority`"
                        ),
                    });
                }
                return Err(Error::busy(NAME, error));
            }
            Err(elapsed) => return Err(Error::busy(NAME, elapsed)),
        };
        Ok(Self {
            wire,
            places: Arc::new(Semaphore::new(config.max_in_flight.min(Semaphore::MAX_PERMITS))),
            connect_timeout: config.connect_timeout,
            timeout: config.timeout,
        })
    }

    /// Runs `script` on the data at `key`, with the arguments that `fill` adds.
    pub(super) async fn run(
        &self,
        script: &Script,
        key: String,
        fill: impl Fn(&mut Cmd) + Send + Sync,
    ) -> Result<Value> {
        let mut cmd = script.by_digest(&key);
        fill(&mut cmd);
        let deadline = Instant::now() + self.timeout;
        if let Some(value) = self.send(&cmd, deadline).await? {
            return Ok(value);
        }
        let mut cmd = script.by_code(&key);
        fill(&mut cmd);
        let value = self.send(&cmd, deadline).await?;
        value.ok_or_else(|| Error::backend(NAME, "Redis returned NOSCRIPT to an EVAL command"))
    }

    /// Sends a command that needs no script.
    pub(super) async fn command(&self, cmd: &Cmd) -> Result<Value> {
        self.send(cmd, Instant::now() + self.timeout).await.map(Option::unwrap_or_default)
    }

    /// Sends a command to the server once. If the server returns an error, `try_once` returns the error together with
    /// the effect of the command.
    async fn try_once(&self, cmd: &Cmd, deadline: Instant) -> Result<Result<Value, (Fate, RedisError)>> {
        let answer = match &self.wire {
            Wire::Primary(primary) => {
                let connecting = timeout_at(deadline, primary.connection()).await;
                let mut open = match connecting.map_err(|elapsed| Error::busy(NAME, elapsed))? {
                    Ok(open) => open,
                    Err(error) => return Ok(Err((Fate::without_connection(&error), error))),
                };
                timeout_at(deadline, open.query(cmd)).await
            }
            Wire::Cluster(connection) => timeout_at(deadline, query_cluster(connection.clone(), cmd)).await,
        };
        let answer = answer.map_err(|elapsed| Error::backend(NAME, elapsed))?;
        Ok(answer.map_err(|error| (Fate::of(&error), error)))
    }

    /// Sends a command to the server. Returns `None` if the server does not have the script of the command.
    async fn send(&self, cmd: &Cmd, deadline: Instant) -> Result<Option<Value>> {
        let place = timeout_at(deadline, self.places.acquire()).await;
        let _place =
            place.map_err(|elapsed| Error::busy(NAME, elapsed))?.expect("the semaphore is never closed");

        let patience = deadline.min(Instant::now() + self.connect_timeout);
        let mut pause = Duration::from_millis(5);
        loop {
            let (fate, error) = match self.try_once(cmd, deadline).await? {
                Ok(value) => return Ok(Some(value)),
                Err(error) => error,
            };
            match fate {
                Fate::NoScript => return Ok(None),
                Fate::NotYet if Instant::now() + pause < patience => {
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(200));
                }
                _ => return Err(fate.error(error)),
            }
        }
    }
}

/// Returns whether every new attempt to connect would fail with the same error.
fn is_final(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig)
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

async fn query_cluster(mut connection: ClusterConnection, cmd: &Cmd) -> RedisResult<Value> {
    match cmd.query_async(&mut connection).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
            ask(connection, cmd, error).await
        }
        answer => answer,
    }
}

/// Sends a command to the node to which the slot is being migrated.
async fn ask(mut connection: ClusterConnection, cmd: &Cmd, error: RedisError) -> RedisResult<Value> {
    let Some((host, port)) = error.redirect_node().and_then(|(node, _)| host_and_port(node)) else {
        return Err(error);
    };
    let mut pipeline = redis::pipe();
    pipeline.cmd("ASKING").add_command(cmd.clone());
    let route = SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port };
    let mut answers = connection.route_pipeline(pipeline, 0, 2, route).await?;
    answers.pop().unwrap_or_default().extract_error()
}

/// Installs a default rustls provider if the program has not installed a provider. If the dependencies contain several
/// providers and none is the default, the client would panic.
#[cfg(feature = "tls")]
fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // This call fails only if another thread has installed a provider at the same time, which is harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
