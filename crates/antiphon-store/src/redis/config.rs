use std::{fmt, time::Duration};

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::{
    error::{Error, Result},
    name,
};

/// Where Redis is, and how to use it.
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisConfig {
    /// `redis://`, `rediss://` (feature `tls`) or `unix://`, with user, password and database.
    pub url: String,
    /// More nodes to learn a cluster's shape from, with the same credentials. Default: none.
    pub nodes: Vec<String>,
    /// Whether it is a cluster. More than one node means that it is. Default: no.
    pub cluster: bool,
    /// What keeps this data apart from others' on the same server. Default: `antiphon`.
    pub space: String,
    /// Over how many hash slots the records are spread. It cannot be changed later. Default: 16.
    pub buckets: u16,
    /// How long to try to get a connection, before [`Error::Busy`]. Default: 2 seconds.
    pub connect_timeout: Duration,
    /// How long one operation may take, before [`Error::Backend`]. Default: 5 seconds.
    pub timeout: Duration,
    /// How many operations may be under way at once; others queue here. Default: 1024.
    pub max_in_flight: usize,
    /// For how many queues a connection may be kept that waits for jobs; the workers of any others ask
    /// again ten times a second. Default: 32.
    pub max_waiting_queues: usize,
    /// PEM of the authority that signed the server's certificate, if the system does not know it.
    #[cfg(feature = "tls")]
    pub authority: Option<Vec<u8>>,
}

impl RedisConfig {
    /// The defaults, for the server at `url`.
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

    /// Adds a node to learn a cluster's shape from.
    #[must_use]
    pub fn with_node(mut self, url: impl Into<String>) -> Self {
        self.nodes.push(url.into());
        self
    }

    /// Sets whether it is a cluster.
    #[must_use]
    pub fn with_cluster(mut self, cluster: bool) -> Self {
        self.cluster = cluster;
        self
    }

    /// Sets what keeps this data apart from others'.
    #[must_use]
    pub fn with_space(mut self, space: impl Into<String>) -> Self {
        self.space = space.into();
        self
    }

    /// Sets over how many hash slots the records are spread.
    #[must_use]
    pub fn with_buckets(mut self, buckets: u16) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets how long to try to get a connection.
    #[must_use]
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets how long one operation may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many operations may be under way at once.
    #[must_use]
    pub fn with_max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// Sets for how many queues a connection may be kept that waits for jobs.
    #[must_use]
    pub fn with_max_waiting_queues(mut self, max_waiting_queues: usize) -> Self {
        self.max_waiting_queues = max_waiting_queues;
        self
    }

    /// Sets the authority, in PEM, that signed the server's certificate.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authority = Some(pem.into());
        self
    }

    /// Whether several nodes share the data.
    pub(super) fn is_cluster(&self) -> bool {
        self.cluster || !self.nodes.is_empty()
    }

    /// Refuses what cannot be used, before anything is connected.
    pub(super) fn check(&self) -> Result<()> {
        name::check_segment(&self.space)?;
        let problem = if !(1..=1024).contains(&self.buckets) {
            "`buckets` is not between 1 and 1024"
        } else if self.max_in_flight == 0 {
            "`max_in_flight` is 0: nothing could ever be done"
        } else if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            "`timeout` and `connect_timeout` cannot be 0"
        } else {
            return Ok(());
        };
        Err(Error::Config { problem: problem.to_owned() })
    }

    /// The servers that were named, in that order.
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
    // Neither the URL nor what the parser says of it is repeated: there may be a password in it.
    url.into_connection_info().map_err(|_| Error::Config {
        problem: "not a URL of a Redis server: write `redis://user:password@host:port/0`".to_owned(),
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
