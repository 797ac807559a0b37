use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::{
    error::{Error, Result},
    name,
    parameters::Parameters,
};

/// The address of the PostgreSQL database, and the limits on connections and time.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresConfig {
    pub(super) url: String,
    pub(super) space: String,
    pub(super) schema: String,
    pub(super) listen_url: Option<String>,
    pub(super) max_connections: u32,
    pub(super) connect_timeout: Duration,
    pub(super) operation_timeout: Duration,
    pub(super) poll: Duration,
    pub(super) migrate: bool,
}

impl PostgresConfig {
    /// Creates a configuration for the database at `url`, with default settings.
    ///
    /// The URL is `postgres://user:password@host:port/database`, with `sslmode`, `sslrootcert` and other parameters.
    ///
    /// `sslmode` is required unless the host is this machine. Use `verify-full` for TLS with a checked certificate,
    /// and `disable` for a network that you trust.
    ///
    /// The following parameters of the URL replace the setters with the same names: `connect_timeout`,
    /// `operation_timeout` and `poll` in seconds, `listen_url` (percent-encoded), `max_connections`, `schema`,
    /// `migrate`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            space: "antiphon".into(),
            schema: "antiphon".into(),
            listen_url: None,
            max_connections: 16,
            connect_timeout: Duration::from_secs(5),
            operation_timeout: Duration::from_secs(10),
            poll: Duration::from_secs(5),
            migrate: true,
        }
    }

    /// Sets the namespace of the records, logs, queues and topics. Different spaces do not share data. Default:
    /// `antiphon`.
    #[must_use]
    pub fn with_space(mut self, space: impl Into<String>) -> Self {
        self.space = space.into();
        self
    }

    /// Sets the schema of the tables: lower case letters, digits and `_`. Default: `antiphon`.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets the URL of the connection that listens for notifications. Use `with_listen_url` if the main URL leads to a
    /// pooler that does not support `LISTEN`, such as `PgBouncer` in transaction mode. Default: the main URL.
    #[must_use]
    pub fn with_listen_url(mut self, listen_url: impl Into<String>) -> Self {
        self.listen_url = Some(listen_url.into());
        self
    }

    /// Sets the maximum number of connections. The maximum does not include the connection that listens for
    /// notifications. Default: 16.
    #[must_use]
    pub fn with_max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// Sets the maximum time to wait for a free or a new connection. Default: 5 seconds.
    #[must_use]
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the maximum time of one operation. The timeout of an operation starts when the operation has a
    /// connection. Default: 10 seconds.
    ///
    /// The server cancels a statement that exceeds the operation timeout (`statement_timeout`). The server also cancels
    /// a statement that waits for a lock for half of the operation timeout (`lock_timeout`). So a cancelled operation
    /// does not continue on the server. If the role, the database or the URL already sets `statement_timeout` or
    /// `lock_timeout`, this crate does not change the existing timeout. With
    /// [`with_listen_url`](Self::with_listen_url), this crate sets neither timeout, because the pooler shares its
    /// connections with other clients. If you use a pooler, set the timeouts with `alter role`.
    #[must_use]
    pub fn with_operation_timeout(mut self, operation_timeout: Duration) -> Self {
        self.operation_timeout = operation_timeout;
        self
    }

    /// Sets the interval at which a waiting worker polls for jobs, in case a notification is lost. Default: 5 seconds.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Sets whether [`Postgres::connect`](super::Postgres::connect) migrates the schema, which needs the permission to
    /// create the schema. If you set `false`, call [`Postgres::migrate`](super::Postgres::migrate) before you connect.
    /// Default: true.
    #[must_use]
    pub fn with_migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Applies the parameters of the URL to this configuration.
    pub(crate) fn with_parameters(mut self) -> Result<Self> {
        let mut parameters = Parameters::of(&self.url);
        self.listen_url = parameters.text("listen_url").or(self.listen_url);
        self.schema = parameters.text("schema").unwrap_or(self.schema);
        self.max_connections = parameters.parsed("max_connections")?.unwrap_or(self.max_connections);
        self.migrate = parameters.parsed("migrate")?.unwrap_or(self.migrate);
        self.connect_timeout = parameters.seconds("connect_timeout")?.unwrap_or(self.connect_timeout);
        self.operation_timeout = parameters.seconds("operation_timeout")?.unwrap_or(self.operation_timeout);
        self.poll = parameters.seconds("poll")?.unwrap_or(self.poll);
        self.url = parameters.url();
        Ok(self)
    }

    pub(crate) fn check(&self) -> Result<()> {
        name::check_segment(&self.space)?;
        let first = self.schema.bytes().next();
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let plain = first.is_some_and(letters)
            && self.schema.bytes().all(|byte| letters(byte) || byte.is_ascii_digit())
            && self.schema.len() <= 63
            && !self.schema.starts_with("pg_");
        if !plain {
            return Err(Error::Config {
                problem: format!(
                    "the schema name `{}` is not valid: use lower case letters, digits and `_`, at most 63 \
                     characters, and do not begin with a digit or `pg_`",
                    self.schema.chars().take(100).collect::<String>()
                ),
            });
        }
        if self.max_connections == 0 {
            return Err(Error::Config {
                problem: "`PostgresConfig::with_max_connections` must be at least 1".into(),
            });
        }
        Ok(())
    }

    pub(crate) fn options(&self) -> Result<PgConnectOptions> {
        parse(&self.url)
    }

    pub(crate) fn listen_options(&self) -> Result<PgConnectOptions> {
        parse(self.listen_url.as_deref().unwrap_or(&self.url))
    }
}

fn parse(url: &str) -> Result<PgConnectOptions> {
    // sqlx would accept a URL with any scheme.
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(Error::Config { problem: "the PostgreSQL URL must begin with `postgres://`".into() });
    }
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::Config { problem: format!("the PostgreSQL URL cannot be used: {error}") })?;
    if !chooses_tls(url, &options) && !is_local(&options) {
        return Err(Error::Config {
            problem: "the PostgreSQL URL does not say whether to use TLS: add `?sslmode=verify-full` (and \
                      `sslrootcert` for an authority of your own), or `?sslmode=disable` if you trust the network"
                .into(),
        });
    }
    Ok(match options.get_application_name() {
        Some(_) => options,
        None => options.application_name("antiphon"),
    })
}

/// Returns whether the URL or the environment sets `sslmode`. With `sslmode=prefer`, which is the default, the client
/// silently continues without TLS if the server does not offer TLS.
fn chooses_tls(url: &str, options: &PgConnectOptions) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    !matches!(options.get_ssl_mode(), PgSslMode::Prefer)
        || query.split('&').any(|pair| pair.starts_with("sslmode=") || pair.starts_with("ssl-mode="))
}

/// Returns whether the server is on this machine.
fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || address.is_ok_and(|address| address.is_loopback())
}

/// A URL without its secret parts, for `Debug`.
struct RedactedUrl<'a>(&'a str);

impl fmt::Debug for RedactedUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match parse(self.0) {
            Ok(options) => write!(
                f,
                "postgres://{}:{}/{}",
                options.get_host(),
                options.get_port(),
                options.get_database().unwrap_or_default()
            ),
            Err(_) => f.write_str("unusable"),
        }
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("url", &RedactedUrl(&self.url))
            .field("space", &self.space)
            .field("schema", &self.schema)
            .field("listen_url", &self.listen_url.as_deref().map(RedactedUrl))
            .field("max_connections", &self.max_connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("operation_timeout", &self.operation_timeout)
            .field("poll", &self.poll)
            .field("migrate", &self.migrate)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, parse};

    #[test]
    fn url_to_another_machine_must_say_whether_to_use_tls() {
        for url in ["postgres://db.example.com/app", "postgres://10.0.0.7/app?application_name=sslmode"] {
            let refused = parse(url);
            assert!(
                matches!(&refused, Err(Error::Config { problem }) if problem.contains("sslmode")),
                "{refused:?}"
            );
        }
        for url in [
            "postgres://db.example.com/app?sslmode=verify-full",
            "postgres://db.example.com/app?application_name=x&sslmode=disable",
            "postgres://db.example.com/app?ssl-mode=prefer",
            "postgres://localhost/app",
            "postgres://127.0.0.1:5432/app",
            "postgres://[::1]/app",
            "postgres://%2Frun%2Fpostgresql/app",
            "postgres:///app?host=/run/postgresql",
        ] {
            assert!(parse(url).is_ok(), "{url}");
        }
    }
}
