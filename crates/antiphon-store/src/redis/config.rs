use std::{fmt, time::Duration};

use redis::{ConnectionInfo, IntoConnectionInfo};

use super::dial::{host_and_port, moved};
use crate::{
    error::{Error, Result},
    name,
    parameters::Parameters,
};

/// The address of the Redis servers, and the limits on connections and time.
#[derive(Clone)]
pub struct RedisConfig {
    pub(super) url: String,
    pub(super) nodes: Vec<String>,
    pub(super) cluster: bool,
    pub(super) space: String,
    pub(super) buckets: u16,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_waiting_queues: usize,
    pub(super) sentinel: Option<String>,
    pub(super) sentinel_login: (Option<String>, Option<String>),
    #[cfg(feature = "tls")]
    pub(super) authority: Option<Vec<u8>>,
    #[cfg(feature = "tls")]
    pub(super) client_certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl RedisConfig {
    /// Creates a configuration for the server at `url`, with default settings.
    ///
    /// The URL contains user, password and database. The URL starts with `redis://`, `rediss://` (feature `tls`) or
    /// `unix://`.
    ///
    /// The following parameters of the URL replace the setters:
    ///
    /// | parameter | setter |
    /// |---|---|
    /// | `node=host:port`, once for each node | [`with_node`](Self::with_node) |
    /// | `cluster=true` | [`with_cluster`](Self::with_cluster) |
    /// | `sentinel=name`, `sentinel_user`, `sentinel_password` | [`with_sentinel`](Self::with_sentinel), [`with_sentinel_login`](Self::with_sentinel_login) |
    /// | `sslrootcert=file` | `with_authority` |
    /// | `sslcert=file` and `sslkey=file` | `with_client_certificate` |
    /// | `connect_timeout`, `timeout`: seconds | [`with_connect_timeout`](Self::with_connect_timeout), [`with_timeout`](Self::with_timeout) |
    /// | `buckets`, `max_in_flight`, `max_waiting_queues` | [`with_buckets`](Self::with_buckets), [`with_max_in_flight`](Self::with_max_in_flight), [`with_max_waiting_queues`](Self::with_max_waiting_queues) |
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            nodes: Vec::new(),
            cluster: false,
            space: "antiphon".to_owned(),
            buckets: 16,
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(5),
            max_in_flight: 1024,
            max_waiting_queues: 32,
            sentinel: None,
            sentinel_login: (None, None),
            #[cfg(feature = "tls")]
            authority: None,
            #[cfg(feature = "tls")]
            client_certificate: None,
        }
    }

    /// Adds the address of a further server: a cluster node or a Sentinel. This crate discovers the other nodes of a
    /// cluster from the configured nodes. The address is `host:port`, or a URL with the same credentials as the first
    /// URL. If you add a node but set no [Sentinel](Self::with_sentinel), this crate treats the server as a cluster.
    #[must_use]
    pub fn with_node(mut self, url: impl Into<String>) -> Self {
        self.nodes.push(url.into());
        self
    }

    /// Sets whether the server is a cluster. Default: false.
    #[must_use]
    pub fn with_cluster(mut self, cluster: bool) -> Self {
        self.cluster = cluster;
        self
    }

    /// Sets the name of the primary in the configuration of Redis Sentinel, such as `mymaster`. With a Sentinel name,
    /// the URL and the [nodes](Self::with_node) are the addresses of Sentinels. The credentials and the database in
    /// the URL belong to Redis, not to the Sentinels. After a failover, this crate asks the Sentinels for the new
    /// primary. Default: none.
    #[must_use]
    pub fn with_sentinel(mut self, name: impl Into<String>) -> Self {
        self.sentinel = Some(name.into());
        self
    }

    /// Sets the user and the password of the Sentinels themselves. Without a user, Sentinel uses the user `default`.
    /// Default: the Sentinels need no password.
    #[must_use]
    pub fn with_sentinel_login(mut self, user: Option<String>, password: impl Into<String>) -> Self {
        self.sentinel_login = (user, Some(password.into()));
        self
    }

    /// Sets the namespace of the data on the server. Default: `antiphon`.
    #[must_use]
    pub fn with_space(mut self, space: impl Into<String>) -> Self {
        self.space = space.into();
        self
    }

    /// Sets the number of hash slots over which records are distributed. The number of hash slots cannot be changed
    /// later. Default: 16.
    #[must_use]
    pub fn with_buckets(mut self, buckets: u16) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets the maximum time to wait for a connection. If no connection is available within the maximum time, the call
    /// returns [`Error::Busy`]. Default: 2 seconds.
    #[must_use]
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the maximum time of one operation. If an operation takes more than the maximum time, the call returns
    /// [`Error::Backend`]. Default: 5 seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of concurrent operations. If the maximum number of operations is running, further
    /// operations wait. Default: 1024.
    #[must_use]
    pub fn with_max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// Sets the maximum number of queues that have their own connection for waiting workers. The connection of a queue
    /// blocks until a job arrives. Workers of queues without their own connection poll 10 times per second. Default:
    /// 32.
    #[must_use]
    pub fn with_max_waiting_queues(mut self, max_waiting_queues: usize) -> Self {
        self.max_waiting_queues = max_waiting_queues;
        self
    }

    /// Sets the certificate authority that verifies the server, in PEM. Use `with_authority` if the system does not
    /// trust the server's certificate authority. Default: none.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authority = Some(pem.into());
        self
    }

    /// Sets the certificate and the private key with which this client identifies itself, in PEM. Redis requires a
    /// client certificate for TLS, unless its setting `tls-auth-clients` is `no`. Default: none.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_client_certificate(mut self, pem: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.client_certificate = Some((pem.into(), key.into()));
        self
    }

    /// Applies the parameters of the URL to this configuration.
    pub(crate) fn with_parameters(mut self) -> Result<Self> {
        let mut parameters = Parameters::of(&self.url);
        self.nodes.extend(parameters.all("node"));
        self.cluster = parameters.parsed("cluster")?.unwrap_or(self.cluster);
        self.sentinel = parameters.text("sentinel").or(self.sentinel);
        let (user, password) = self.sentinel_login;
        self.sentinel_login =
            (parameters.text("sentinel_user").or(user), parameters.text("sentinel_password").or(password));
        self.buckets = parameters.parsed("buckets")?.unwrap_or(self.buckets);
        self.max_in_flight = parameters.parsed("max_in_flight")?.unwrap_or(self.max_in_flight);
        self.max_waiting_queues = parameters.parsed("max_waiting_queues")?.unwrap_or(self.max_waiting_queues);
        self.connect_timeout = parameters.seconds("connect_timeout")?.unwrap_or(self.connect_timeout);
        self.timeout = parameters.seconds("timeout")?.unwrap_or(self.timeout);
        #[cfg(feature = "tls")]
        {
            self.authority = parameters.file("sslrootcert")?.or(self.authority);
            self.client_certificate = parameters.client_certificate()?.or(self.client_certificate);
        }
        parameters.reject_others(
            &["protocol", "db", "user", "pass"],
            "`node`, `cluster`, `sentinel`, `sentinel_user`, `sentinel_password`, `sslrootcert`, `sslcert`, \
             `sslkey`, `connect_timeout`, `timeout`, `buckets`, `max_in_flight`, `max_waiting_queues`, `protocol`",
        )?;
        self.url = parameters.url();
        Ok(self)
    }

    /// Returns whether the server is a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.cluster || (self.sentinel.is_none() && !self.nodes.is_empty())
    }

    /// Checks the configuration before any connection is opened.
    pub(crate) fn check(&self) -> Result<()> {
        name::check_segment(&self.space)?;
        #[cfg(feature = "tls")]
        if (self.authority.is_some() || self.client_certificate.is_some()) && !self.url.starts_with("rediss:")
        {
            return Err(Error::Config {
                problem: "certificates are set, but the Redis URL does not ask for TLS; write `rediss://`"
                    .to_owned(),
            });
        }
        let problem = if !(1..=1024).contains(&self.buckets) {
            "`RedisConfig::with_buckets` must be between 1 and 1024"
        } else if self.max_in_flight == 0 {
            "`RedisConfig::with_max_in_flight` must be at least 1"
        } else if self.cluster && self.sentinel.is_some() {
            "a Redis server is either a cluster or has Sentinels, not both; remove `RedisConfig::with_cluster` or \
             `RedisConfig::with_sentinel`"
        } else if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            "`RedisConfig::with_timeout` and `with_connect_timeout` must be greater than 0"
        } else {
            return Ok(());
        };
        Err(Error::Config { problem: problem.to_owned() })
    }

    /// Returns the servers in the order of the configuration.
    pub(crate) fn servers(&self) -> Result<Vec<ConnectionInfo>> {
        let first = parse(&self.url)?;
        let node = |address: &String| match host_and_port(address) {
            Some((host, port)) if !address.contains("://") => {
                Ok(first.clone().set_addr(moved(first.addr(), host, port)))
            }
            _ => parse(address),
        };
        let nodes = self.nodes.iter().map(node).collect::<Result<Vec<_>>>()?;
        Ok(std::iter::once(first.clone()).chain(nodes).collect())
    }
}

fn parse(url: &str) -> Result<ConnectionInfo> {
    #[cfg(not(feature = "tls"))]
    if url.starts_with("rediss:") {
        return Err(Error::Config {
            problem: "`rediss://` needs TLS, and this program was built without the feature `tls` of `antiphon-store`"
                .to_owned(),
        });
    }
    // The error contains neither the URL nor the parser's message, because both can contain a password.
    url.into_connection_info().map_err(|_| Error::Config {
        problem: "the Redis URL is not valid; write `redis://user:password@host:port/0`".to_owned(),
    })
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self
            .servers()
            .map(|servers| servers.iter().map(|server| server.addr().to_string()).collect())
            .unwrap_or_default();
        f.debug_struct("RedisConfig")
            .field("servers", &servers)
            .field("cluster", &self.is_cluster())
            .field("sentinel", &self.sentinel)
            .field("space", &self.space)
            .field("buckets", &self.buckets)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("max_in_flight", &self.max_in_flight)
            .field("max_waiting_queues", &self.max_waiting_queues)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, RedisConfig};

    #[test]
    fn parameters_of_the_url_set_the_options() {
        let url =
            "redis://u:p@one:26379/3?sentinel=mymaster&node=two:26379&sentinel_password=s%40p&timeout=7";
        let config = RedisConfig::new(url).with_parameters().unwrap();
        assert_eq!(config.sentinel.as_deref(), Some("mymaster"));
        assert_eq!(config.sentinel_login, (None, Some("s@p".to_owned())));
        assert_eq!(config.timeout.as_secs(), 7);
        assert!(!config.is_cluster());
        let servers = config.servers().unwrap();
        assert_eq!(servers[1].addr().to_string(), "two:26379");
        assert_eq!(servers[1].redis_settings().password(), Some("p"));
        assert!(RedisConfig::new("redis://one?node=two:6379").with_parameters().unwrap().is_cluster());
    }

    #[test]
    fn password_with_a_question_mark_is_not_shown() {
        let refused = RedisConfig::new("redis://user:hu?sh@one:6379/0").with_parameters().unwrap_err();
        assert!(!refused.to_string().contains("sh@"), "{refused}");
    }

    #[test]
    #[cfg(feature = "tls")]
    fn certificates_without_tls_are_rejected() {
        let config = RedisConfig::new("redis://one").with_authority("pem");
        assert!(matches!(config.check(), Err(Error::Config { problem }) if problem.contains("rediss://")));
    }

    #[test]
    fn unknown_and_incomplete_parameters_are_rejected() {
        let mut urls = vec!["redis://one?replicas=3", "redis://one?cluster=maybe"];
        if cfg!(feature = "tls") {
            urls.push("rediss://one?sslcert=/dev/null");
        }
        for url in urls {
            let refused = RedisConfig::new(url).with_parameters();
            assert!(matches!(&refused, Err(Error::Config { .. })), "{url}: {refused:?}");
        }
    }
}
