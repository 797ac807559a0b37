use std::{fmt, time::Duration};

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::{
    error::{Error, Result},
    name,
};

/// The address of Redis, and the limits for its use.
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
    #[cfg(feature = "tls")]
    pub(super) authority: Option<Vec<u8>>,
}

impl RedisConfig {
    /// Creates a configuration for the server at `url` with the defaults.
    ///
    /// The URL contains user, password and database. The URL starts with `redis://`, `rediss://` (feature `tls`) or
    /// `unix://`.
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
            #[cfg(feature = "tls")]
            authority: None,
        }
    }

    /// Adds the URL of a cluster node, from which the other nodes are discovered. This URL must have the same
    /// credentials as the first URL. If at least one node is added, the server is treated as a cluster.
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

    /// Sets the namespace of the data on the server. Default: `antiphon`.
    #[must_use]
    pub fn with_space(mut self, space: impl Into<String>) -> Self {
        self.space = space.into();
        self
    }

    /// Sets the number of hash slots over which records are distributed. This number cannot be changed later. Default:
    /// 16.
    #[must_use]
    pub fn with_buckets(mut self, buckets: u16) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets the maximum time to wait for a connection. After this time, the call returns [`Error::Busy`]. Default: 2
    /// seconds.
    #[must_use]
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the maximum time of one operation. After this time, the call returns [`Error::Backend`]. Default: 5
    /// seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of concurrent operations. Further operations wait. Default: 1024.
    #[must_use]
    pub fn with_max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// Sets the maximum number of queues whose waiting workers have a connection that blocks until a job arrives.
    /// Workers of other queues poll 10 times per second. Default: 32.
    #[must_use]
    pub fn with_max_waiting_queues(mut self, max_waiting_queues: usize) -> Self {
        self.max_waiting_queues = max_waiting_queues;
        self
    }

    /// Sets the certificate authority that verifies the server, in PEM. Use this method if the system does not trust
    /// the server's certificate authority. Default: none.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authority = Some(pem.into());
        self
    }

    /// Returns whether the server is a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.cluster || !self.nodes.is_empty()
    }

    /// Checks the configuration before any connection is opened.
    pub(super) fn check(&self) -> Result<()> {
        name::check_segment(&self.space)?;
        let problem = if !(1..=1024).contains(&self.buckets) {
            "`RedisConfig::with_buckets` must be between 1 and 1024"
        } else if self.max_in_flight == 0 {
            "`RedisConfig::with_max_in_flight` must be at least 1"
        } else if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            "`RedisConfig::with_timeout` and `with_connect_timeout` must be greater than 0"
        } else {
            return Ok(());
        };
        Err(Error::Config { problem: problem.to_owned() })
    }

    /// Returns the configured servers, in order.
    pub(super) fn servers(&self) -> Result<Vec<ConnectionInfo>> {
        std::iter::once(&self.url).chain(&self.nodes).map(|url| parse(url)).collect()
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
        let servers: Vec<String> = std::iter::once(&self.url)
            .chain(&self.nodes)
            .map(|url| parse(url).map_or_else(|_| "?".to_owned(), |server| server.addr().to_string()))
            .collect();
        f.debug_struct("RedisConfig")
            .field("servers", &servers)
            .field("cluster", &self.is_cluster())
            .field("space", &self.space)
            .field("buckets", &self.buckets)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("max_in_flight", &self.max_in_flight)
            .field("max_waiting_queues", &self.max_waiting_queues)
            .finish_non_exhaustive()
    }
}
