use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr,
    jetstream::{
        Context, ErrorCode,
        context::{ContextBuilder, CreateStreamError, CreateStreamErrorKind},
        stream::{Config, Stream},
    },
};
use futures_util::future::try_join_all;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    clock::Clock,
    config::{Login, NatsConfig, config, login},
    link::{HEADERS, Kind, Link, NAME, failed, round_trip, stream_name},
};
use crate::{
    error::{Error, Result},
    store::MAX_VALUE,
    tls,
};

/// The pause after a request to which the server did not respond.
const RETRY: Duration = Duration::from_millis(50);

impl Link {
    pub(super) async fn connect(config: NatsConfig) -> Result<Arc<Self>> {
        let config = config.with_parameters()?;
        let servers = config.servers()?;
        let (announcer, announced) = watch::channel(0);
        let (interrupter, interrupted) = watch::channel(0);
        let client = connect(servers, &config, announcer).await?;
        check_server(&client, config.replicas)?;
        let context = ContextBuilder::new()
            .timeout(config.timeout)
            .ack_timeout(config.timeout)
            .backpressure_on_inflight(true)
            .build(client.clone());
        let opened = open_streams(&context, &config).await?;
        let schedules = client.is_server_compatible(2, 12, 0) && allow_schedules(&context, &config).await;
        let (streams, replicas): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
        let most = replicas.into_iter().max().unwrap_or(1);
        check_server(&client, most)?;
        let clock = Clock::new();
        let link = Arc::new(Self {
            client,
            context,
            clock,
            interrupted,
            streams,
            config,
            direct: most == 1,
            schedules,
        });
        link.run(link.set_clock()).await?;
        tokio::spawn(watch_over(Arc::downgrade(&link), announced, interrupter));
        Ok(link)
    }
}

async fn connect(
    servers: Vec<ServerAddr>,
    settings: &NatsConfig,
    announcer: watch::Sender<u64>,
) -> Result<Client> {
    // If a program contains two cryptography providers, rustls panics unless one provider is installed as the default.
    // This call does not replace a provider that is already installed.
    drop(async_nats::rustls::crypto::ring::default_provider().install_default());

    let options = match login(&servers) {
        Login::Nobody => ConnectOptions::new(),
        Login::Token(token) => ConnectOptions::with_token(token),
        Login::User(user, password) => ConnectOptions::with_user_and_password(user, password),
    };
    let options = match &settings.credentials {
        Some(credentials) => options
            .credentials(credentials)
            .map_err(|error| config(format!("`NatsConfig::with_credentials` is not valid: {error}")))?,
        None => options,
    };
    let options = match &settings.nkey {
        Some(seed) => options.nkey(seed.clone()),
        None => options,
    };
    let options = match settings.tls()? {
        Some(tls) => options.tls_client_config(tls),
        None => options,
    };
    let options = options
        .name("antiphon")
        // Discovered addresses have no scheme. Without this option, the client would send a password to these
        // addresses without TLS.
        .require_tls(
            settings.authority.is_some()
                || settings.client_certificate.is_some()
                || servers.iter().any(ServerAddr::tls_required),
        )
        // A server that stalls keeps its connections open. With this option, the client soon uses another server.
        .ping_interval(settings.timeout / 2)
        .connection_timeout(settings.connect_timeout)
        .request_timeout(Some(settings.timeout))
        .reconnect_delay_callback(|attempt| Duration::from_millis(50 << attempt.min(5)))
        .event_callback(move |event| {
            if matches!(event, Event::Disconnected | Event::SlowConsumer(_)) {
                announcer.send_modify(|count| *count += 1);
            }
            async {}
        });
    let connecting = timeout(settings.connect_timeout, options.connect(servers)).await;
    connecting.map_err(|late| Error::busy(NAME, late))?.map_err(|error| match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => config(
            "NATS rejected the connection: the credentials in the URL are missing or wrong; write \
                 `nats://user:password@host:4222` or `nats://token@host:4222`",
        ),
        _ => match tls::refusal(&error) {
            Some(problem) => config(format!(
                "TLS with NATS failed: {problem}; check the certificates and `NatsConfig::with_authority`"
            )),
            None => Error::busy(NAME, error),
        },
    })
}

fn check_server(client: &Client, replicas: usize) -> Result<()> {
    if !client.is_server_compatible(2, 9, 0) {
        return Err(config("the NATS server is too old: NATS 2.9 or later is needed; upgrade the server"));
    }
    // Up to NATS 2.10, a replicated stream checks the condition of a write before its members agree on the order of
    // writes. So two competing writers can both succeed.
    if replicas > 1 && !client.is_server_compatible(2, 11, 0) {
        return Err(config(
            "streams with several replicas need NATS 2.11 or later; use one replica, or upgrade the server",
        ));
    }
    let needed = MAX_VALUE + 2 * HEADERS;
    let accepted = client.max_payload();
    if accepted < needed {
        return Err(config(format!(
            "the NATS server accepts messages of {accepted} bytes, and Antiphon needs {needed} bytes; raise \
             `max_payload` of the server"
        )));
    }
    Ok(())
}

/// Opens all streams, and returns each stream with its number of replicas. While the servers of a cluster elect their
/// leaders, no server answers. So `open_streams` retries until the connect timeout is over, and makes at least one
/// attempt.
async fn open_streams(context: &Context, settings: &NatsConfig) -> Result<Vec<(Stream<()>, usize)>> {
    let end = Instant::now() + settings.connect_timeout + settings.timeout;
    loop {
        match try_join_all(Kind::ALL.map(|kind| open_stream(context, settings, kind))).await {
            Ok(opened) => return Ok(opened),
            Err(error) if has_no_leader(&error) && Instant::now() < end => {
                tracing::debug!(%error, "the NATS servers have no leader for a stream yet; retrying");
                sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a stream could not be opened because its leader, or the leader of the servers, is being elected.
fn has_no_leader(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    match source.map(CreateStreamError::kind) {
        Some(CreateStreamErrorKind::TimedOut) => true,
        Some(CreateStreamErrorKind::JetStream(error)) => {
            error.code() == 503 || error.error_code() == ErrorCode::CLUSTER_NO_PEERS
        }
        _ => false,
    }
}

/// The error codes after which a retry also fails: the settings or the limits of the account do not allow the stream.
const REFUSALS: [ErrorCode; 5] = [
    ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT,
    ErrorCode::MAXIMUM_STREAMS_LIMIT,
    ErrorCode::STREAM_INVALID_CONFIG,
    ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED,
    ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
];

/// Opens a stream, and returns the stream with its number of replicas.
async fn open_stream(context: &Context, settings: &NatsConfig, kind: Kind) -> Result<(Stream<()>, usize)> {
    let name = stream_name(settings, kind);
    let stream = Config {
        name: name.clone(),
        subjects: vec![format!("{}.v1.{}.>", settings.prefix, kind.name())],
        max_messages_per_subject: if kind.keeps_one() { 1 } else { -1 },
        num_replicas: settings.replicas,
        allow_direct: true,
        ..Config::default()
    };
    // An operator may have changed the settings of the stream, so an existing stream keeps them.
    let stream = context.get_or_create_stream(stream).await.map_err(|error| match error.kind() {
        CreateStreamErrorKind::JetStream(cause) if REFUSALS.contains(&cause.error_code()) => {
            config(format!("NATS refuses to create the stream `{name}`: {cause}"))
        }
        _ => failed(error),
    })?;
    let replicas = stream.cached_info().config.num_replicas;
    Ok((context.get_stream_no_info(name).await.map_err(failed)?, replicas))
}

/// Allows schedules in the stream of jobs, and returns whether schedules are allowed.
async fn allow_schedules(context: &Context, settings: &NatsConfig) -> bool {
    let allowed = async {
        let mut config =
            context.get_stream(stream_name(settings, Kind::Jobs)).await?.cached_info().config.clone();
        if !config.allow_message_schedules {
            config.allow_message_schedules = true;
            // In a cluster, the leader of the stream can have an older version than this server. An older leader
            // ignores the setting.
            let info = context.update_stream(config).await?;
            if !info.config.allow_message_schedules {
                return Err(
                    "the leader of the stream is older than NATS 2.12; upgrade all servers of the cluster"
                        .into(),
                );
            }
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    match allowed.await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "NATS did not allow schedules in the stream of jobs; it keeps delayed jobs in memory");
            false
        }
    }
}

/// Updates the estimate of the server's clock and reports possibly missed events, while the connection is in use.
async fn watch_over(link: Weak<Link>, mut announced: watch::Receiver<u64>, interrupter: watch::Sender<u64>) {
    let mut minutes = interval(Duration::from_secs(60));
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    minutes.tick().await;
    loop {
        let cut = tokio::select! {
            _ = minutes.tick() => false,
            announced = announced.changed() => match announced {
                Ok(()) => true,
                Err(_) => return,
            },
        };
        if cut {
            interrupter.send_modify(|count| *count += 1);
        }
        loop {
            let Some(link) = link.upgrade() else { return };
            // When the server responds, all subscriptions are active again, because the subscriptions were sent before
            // this request.
            if link.run(round_trip(&link)).await.is_ok() {
                if cut {
                    interrupter.send_modify(|count| *count += 1);
                }
                if let Err(error) = link.run(link.set_clock()).await {
                    tracing::debug!(%error, "the clock of the NATS server could not be read; retrying in a minute");
                }
                break;
            }
            drop(link);
            // The requests of a closed client fail immediately. Without a pause, this task would never yield, and the
            // runtime would wait for this task forever when the program ends.
            sleep(RETRY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn runtime_stops_though_the_client_was_closed() {
        let Ok(url) = std::env::var("ANTIPHON_TEST_NATS_URL") else {
            assert!(std::env::var_os("CI").is_none(), "ANTIPHON_TEST_NATS_URL is not set");
            eprintln!("skipped: ANTIPHON_TEST_NATS_URL is not set");
            return;
        };
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let link = runtime.block_on(async {
                let link = Link::connect(NatsConfig::new(url)).await.unwrap();
                link.client.drain().await.unwrap();
                while link.run(round_trip(&link)).await.is_ok() {
                    sleep(Duration::from_millis(10)).await;
                }
                let (announcer, announced) = watch::channel(0);
                tokio::spawn(watch_over(Arc::downgrade(&link), announced, watch::Sender::new(0)));
                announcer.send(1).unwrap();
                sleep(Duration::from_millis(200)).await;
                link
            });
            drop(runtime);
            drop(link);
            ended.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(20)).expect("the runtime stops");
    }
}
