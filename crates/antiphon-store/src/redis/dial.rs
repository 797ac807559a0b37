use std::{sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, ProtocolVersion, PushInfo,
    RedisError, RedisResult, ServerErrorKind, TlsMode, Value,
    aio::{MultiplexedConnection, SendError},
    cluster::ClusterClientBuilder,
    io::tcp::TcpSettings,
    sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType},
};
use tokio::{sync::Mutex, time::timeout};

use super::config::RedisConfig;
use crate::error::{Error, Result};

/// A callback for the messages that the server pushes.
pub(super) type OnPush = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// Opens connections to the servers of the configuration.
#[derive(Clone)]
pub(super) struct Dialer {
    servers: Vec<ConnectionInfo>,
    cluster: bool,
    sentinel: Option<Arc<Mutex<SentinelClient>>>,
    connect_timeout: Duration,
    timeout: Duration,
    #[cfg(feature = "tls")]
    certificates: Option<redis::TlsCertificates>,
}

impl Dialer {
    pub(super) fn new(config: &RedisConfig) -> Result<Self> {
        let mut dialer = Self {
            servers: Vec::new(),
            cluster: config.is_cluster(),
            sentinel: None,
            connect_timeout: config.connect_timeout,
            timeout: config.timeout,
            #[cfg(feature = "tls")]
            certificates: certificates(config),
        };
        let tcp_settings = dialer.tcp_settings();
        for server in config.servers()? {
            // RESP3 reports a lost connection immediately.
            let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            dialer.servers.push(server.set_redis_settings(settings).set_tcp_settings(tcp_settings.clone()));
        }
        if let Some(name) = &config.sentinel {
            let client = dialer.sentinel(name, &config.sentinel_login).map_err(|error| Error::Config {
                problem: format!("the addresses of the Sentinels cannot be used: {error}"),
            })?;
            dialer.sentinel = Some(Arc::new(Mutex::new(client)));
        }
        Ok(dialer)
    }

    /// Returns the client that asks the Sentinels for the primary.
    fn sentinel(
        &self,
        name: &str,
        (user, password): &(Option<String>, Option<String>),
    ) -> RedisResult<SentinelClient> {
        let addresses = self.servers.iter().map(|server| server.addr().clone());
        let settings = self.servers[0].redis_settings();
        let mut builder = SentinelClientBuilder::new(addresses, name, SentinelServerType::Master)?
            .set_client_to_redis_db(settings.db())
            .set_client_to_redis_protocol(ProtocolVersion::RESP3)
            .set_client_to_redis_tcp_settings(self.tcp_settings())
            .set_client_to_sentinel_tcp_settings(self.tcp_settings());
        if let Some(user) = settings.username() {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = settings.password() {
            builder = builder.set_client_to_redis_password(password);
        }
        if let Some(user) = user {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = password {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let ConnectionAddr::TcpTls { insecure, .. } = self.servers[0].addr() {
            let mode = if *insecure { TlsMode::Insecure } else { TlsMode::Secure };
            builder = builder.set_client_to_redis_tls_mode(mode).set_client_to_sentinel_tls_mode(mode);
            #[cfg(feature = "tls")]
            if let Some(certificates) = &self.certificates {
                builder = builder
                    .set_client_to_redis_certificates(certificates.clone())
                    .set_client_to_sentinel_certificates(certificates.clone());
            }
        }
        builder.build()
    }

    pub(super) fn servers(&self) -> &[ConnectionInfo] {
        &self.servers
    }

    /// Returns TCP settings with which the operating system closes a connection if the peer sends no TCP
    /// acknowledgements.
    pub(super) fn tcp_settings(&self) -> TcpSettings {
        let settings = TcpSettings::default().set_nodelay(true);
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        let settings = settings.set_user_timeout(self.timeout);
        settings
    }

    /// Opens a connection to the node that owns `key`.
    pub(super) async fn dial(
        &self,
        key: &str,
        on_push: Option<OnPush>,
    ) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.dial_node(None, on_push.clone()).await?;
        if !self.cluster {
            return Ok(connection);
        }
        // A node that does not own the key rejects any command on the key, and the error names the owner.
        let mut cmd = redis::cmd("EXISTS");
        let asked = cmd.arg(key).query_async::<Value>(&mut connection);
        let late = |_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        match timeout(self.timeout, asked).await.map_err(late)? {
            Ok(_) => Ok(connection),
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Moved) => {
                let node = error.redirect_node().map(|(node, _)| node);
                self.dial_node(node, on_push).await
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a connection to `node` (host and port), to the primary that Sentinel names, or to the first configured
    /// server that responds.
    pub(super) async fn dial_node(
        &self,
        node: Option<&str>,
        on_push: Option<OnPush>,
    ) -> RedisResult<MultiplexedConnection> {
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(None);
        if let Some(on_push) = on_push {
            config = config.set_push_sender(move |info| {
                on_push(info);
                Ok::<(), SendError>(())
            });
        }
        let first = &self.servers[0];
        if let Some((host, port)) = node.and_then(host_and_port) {
            let server = first.clone().set_addr(moved(first.addr(), host, port));
            return self.client_of(server)?.get_multiplexed_async_connection_with_config(&config).await;
        }
        if let Some(sentinel) = &self.sentinel {
            let client = sentinel.lock().await.async_get_client().await?;
            return client.get_multiplexed_async_connection_with_config(&config).await;
        }
        let open = async |server: &ConnectionInfo| {
            self.client_of(server.clone())?.get_multiplexed_async_connection_with_config(&config).await
        };
        let mut tried = open(first).await;
        for server in &self.servers[1..] {
            if tried.is_err() {
                tried = open(server).await;
            }
        }
        tried
    }

    #[cfg_attr(not(feature = "tls"), expect(clippy::unused_self, reason = "it knows the certificates"))]
    fn client_of(&self, server: ConnectionInfo) -> RedisResult<Client> {
        #[cfg(feature = "tls")]
        if let Some(certificates) = &self.certificates
            && matches!(server.addr(), ConnectionAddr::TcpTls { .. })
        {
            return Client::build_with_tls(server, certificates.clone());
        }
        Client::open(server)
    }

    #[cfg_attr(not(feature = "tls"), expect(clippy::unused_self, reason = "it knows the certificates"))]
    pub(super) fn secure(&self, builder: ClusterClientBuilder) -> ClusterClientBuilder {
        #[cfg(feature = "tls")]
        if let Some(certificates) = &self.certificates {
            return builder.certs(certificates.clone());
        }
        builder
    }
}

#[cfg(feature = "tls")]
fn certificates(config: &RedisConfig) -> Option<redis::TlsCertificates> {
    let client_tls = config.client_certificate.clone();
    let client_tls =
        client_tls.map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key });
    let root_cert = config.authority.clone();
    (client_tls.is_some() || root_cert.is_some()).then_some(redis::TlsCertificates { client_tls, root_cert })
}

/// Splits the text `host:port` into the host and the port. The host is empty if a node has no announced host name.
pub(super) fn host_and_port(node: &str) -> Option<(&str, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

pub(super) fn moved(addr: &ConnectionAddr, to: &str, port: u16) -> ConnectionAddr {
    let host = |host: &String| if to.is_empty() { host.clone() } else { to.to_owned() };
    match addr {
        ConnectionAddr::Tcp(old, _) => ConnectionAddr::Tcp(host(old), port),
        ConnectionAddr::TcpTls { host: old, insecure, tls_params, .. } => ConnectionAddr::TcpTls {
            host: host(old),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        other => other.clone(),
    }
}
