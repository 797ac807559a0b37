use std::{fmt, time::Duration};

use async_nats::{
    ServerAddr,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

use crate::{
    error::{Error, Result},
    name,
    parameters::{Parameters, decoded},
};

/// The address of the NATS servers, and the options of the connection and the streams.
#[derive(Clone)]
pub struct NatsConfig {
    pub(super) url: String,
    pub(super) space: String,
    pub(super) prefix: String,
    pub(super) replicas: usize,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) authority: Option<Vec<u8>>,
    pub(super) client_certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) credentials: Option<String>,
    pub(super) nkey: Option<String>,
}

impl NatsConfig {
    /// Creates a configuration for the servers at `url`, with default settings.
    ///
    /// `url` is one or more URLs, separated by commas: `nats://host:4222`, `tls://user:password@host`,
    /// `nats://token@host`. The credentials before the `@` are percent-decoded and used for all servers. TLS is
    /// required for all servers if one URL is `tls://`, or if an authority or a client certificate is set. This
    /// requirement for TLS includes servers that are discovered later.
    ///
    /// The following parameters after the last URL replace the setters:
    ///
    /// | parameter | setter |
    /// |---|---|
    /// | `replicas` | [`with_replicas`](Self::with_replicas) |
    /// | `prefix` | [`with_prefix`](Self::with_prefix) |
    /// | `sslrootcert=file` | [`with_authority`](Self::with_authority) |
    /// | `sslcert=file` and `sslkey=file` | [`with_client_certificate`](Self::with_client_certificate) |
    /// | `credentials=file` | [`with_credentials`](Self::with_credentials) |
    /// | `nkey=file` | [`with_nkey`](Self::with_nkey) |
    /// | `connect_timeout`, `timeout`: seconds | [`with_connect_timeout`](Self::with_connect_timeout), [`with_timeout`](Self::with_timeout) |
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            space: "antiphon".to_owned(),
            prefix: "antiphon".to_owned(),
            replicas: 1,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            authority: None,
            client_certificate: None,
            credentials: None,
            nkey: None,
        }
    }

    /// Sets the namespace of the application on a shared server. A namespace must be one [segment](crate::name) of a
    /// name. Default: `antiphon`.
    #[must_use]
    pub fn with_space(mut self, space: impl Into<String>) -> Self {
        self.space = space.into();
        self
    }

    /// Sets the prefix of all stream names and subjects. The prefix must be one [segment](crate::name) of a name. All
    /// spaces with the same prefix share streams. Default: `antiphon`.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the number of servers that store each stream. A value above 1 requires NATS 2.11 or later. Default: 1.
    ///
    /// The number of servers applies only when the streams are created. To change the number of servers later, use
    /// `nats stream edit`.
    #[must_use]
    pub fn with_replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets the maximum time to wait for a connection, both at the start and after a lost connection. If the servers
    /// are still electing their leaders at the start, the client retries to open the streams for up to this time.
    /// Default: 5 seconds.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the maximum time of one operation. The timeout of an operation starts when the operation has a
    /// connection. The timeout does not include the time that a worker waits for a job. Default: 5 seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the certificate authorities that verify the servers, in PEM. The configured authorities replace the
    /// authorities of the system. Default: none, which means the authorities of the system.
    #[must_use]
    pub fn with_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authority = Some(pem.into());
        self
    }

    /// Sets the certificate and the private key with which this client identifies itself, in PEM. Default: none.
    #[must_use]
    pub fn with_client_certificate(mut self, pem: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.client_certificate = Some((pem.into(), key.into()));
        self
    }

    /// Sets the contents of a credentials file (`.creds`), which contains a JWT and a seed. Synadia and servers with
    /// decentralized authentication issue credentials files. Default: none.
    #[must_use]
    pub fn with_credentials(mut self, credentials: impl Into<String>) -> Self {
        self.credentials = Some(credentials.into());
        self
    }

    /// Sets the seed of an `NKey`, which starts with `SU`. Default: none.
    #[must_use]
    pub fn with_nkey(mut self, seed: impl Into<String>) -> Self {
        self.nkey = Some(seed.into());
        self
    }

    /// Applies the parameters of the URL to this configuration.
    pub(crate) fn with_parameters(mut self) -> Result<Self> {
        let mut parameters = Parameters::of(&self.url);
        self.replicas = parameters.parsed("replicas")?.unwrap_or(self.replicas);
        self.prefix = parameters.text("prefix").unwrap_or(self.prefix);
        self.connect_timeout = parameters.seconds("connect_timeout")?.unwrap_or(self.connect_timeout);
        self.timeout = parameters.seconds("timeout")?.unwrap_or(self.timeout);
        self.authority = parameters.file("sslrootcert")?.or(self.authority);
        self.client_certificate = parameters.client_certificate()?.or(self.client_certificate);
        let secret =
            |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        self.credentials = secret(parameters.file("credentials")?).or(self.credentials);
        self.nkey = secret(parameters.file("nkey")?).or(self.nkey);
        parameters.reject_others(
            &[],
            "`replicas`, `prefix`, `sslrootcert`, `sslcert`, `sslkey`, `credentials`, `nkey`, `connect_timeout`, \
             `timeout`",
        )?;
        self.url = parameters.url();
        if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            return Err(config(
                "`NatsConfig::with_timeout` and `with_connect_timeout` must be greater than 0",
            ));
        }
        Ok(self)
    }

    /// Returns the TLS configuration if an authority or a client certificate is set.
    pub(crate) fn tls(&self) -> Result<Option<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        match &self.authority {
            Some(pem) => {
                let bad = |problem: &dyn fmt::Display| {
                    config(format!("`NatsConfig::with_authority` is not valid: {problem}"))
                };
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate = certificate.map_err(|error| bad(&error))?;
                    roots.add(certificate).map_err(|error| bad(&error))?;
                }
                if roots.is_empty() {
                    return Err(bad(&"no certificate was found; pass certificates in PEM"));
                }
            }
            None if self.client_certificate.is_some() => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            None => return Ok(None),
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let Some((pem, key)) = &self.client_certificate else {
            return Ok(Some(builder.with_no_client_auth()));
        };
        let bad = |problem: &dyn fmt::Display| {
            config(format!("`NatsConfig::with_client_certificate` is not valid: {problem}"))
        };
        let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|error| bad(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| bad(&error))?;
        builder.with_client_auth_cert(certificates, key).map(Some).map_err(|error| bad(&error))
    }

    /// Parses the URLs, and checks all settings that can be checked without a connection.
    pub(crate) fn servers(&self) -> Result<Vec<ServerAddr>> {
        name::check_segment(&self.space)?;
        name::check_segment(&self.prefix)?;
        if !(1..=5).contains(&self.replicas) {
            let replicas = self.replicas;
            return Err(config(format!(
                "`NatsConfig::with_replicas` is {replicas}, and NATS supports 1 to 5 replicas of a stream"
            )));
        }
        self.url
            .split(',')
            // The parser's message can contain the URL with its password, so the error omits it.
            .map(|url| {
                let problem = "the NATS URL is not valid; write `nats://host:4222`, with commas between URLs";
                url.trim().parse().map_err(|_| config(problem))
            })
            .collect()
    }
}

impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.servers().map(|servers| {
            servers.iter().map(|server| format!("{}:{}", server.host(), server.port())).collect::<Vec<_>>()
        });
        f.debug_struct("NatsConfig")
            .field("hosts", &hosts.unwrap_or_default())
            .field("space", &self.space)
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// The credentials that the URL contains.
pub(super) enum Login {
    Nobody,
    Token(String),
    User(String, String),
}

pub(super) fn login(servers: &[ServerAddr]) -> Login {
    for server in servers {
        match (server.username(), server.password()) {
            (Some(user), Some(password)) => return Login::User(decoded(user), decoded(password)),
            (Some(token), None) => return Login::Token(decoded(token)),
            _ => {}
        }
    }
    Login::Nobody
}

pub(super) fn config(problem: impl Into<String>) -> Error {
    Error::Config { problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::{Error, Login, NatsConfig, login};

    #[test]
    fn secrets_are_not_shown() {
        let config = NatsConfig::new("nats://user:hush@one:4222, nats://two");
        assert!(!format!("{config:?}").contains("hush"));
        assert!(format!("{config:?}").contains("one:4222"));
        let bad = NatsConfig::new("nats://user:hush@on e").servers().unwrap_err();
        assert!(!format!("{bad:?}").contains("hush"));
    }

    #[test]
    fn credentials_come_from_the_url() {
        let servers = NatsConfig::new("nats://us%40er:p%3Aw@one").servers().unwrap();
        assert!(
            matches!(login(&servers), Login::User(user, password) if user == "us@er" && password == "p:w")
        );
        let servers = NatsConfig::new("nats://one,tls://to%2Fken@two").servers().unwrap();
        assert!(matches!(login(&servers), Login::Token(token) if token == "to/ken"));
    }

    #[test]
    fn parameters_of_the_url_set_the_options() {
        let config =
            NatsConfig::new("tls://u:p@one,tls://two?replicas=3&timeout=2").with_parameters().unwrap();
        assert_eq!((config.replicas, config.timeout.as_secs()), (3, 2));
        assert_eq!(config.servers().unwrap()[1].host(), "two");
        for url in [
            "nats://one?sentinel=x",
            "nats://one?replicas=three",
            "nats://one?nkey=/no/such/file",
            "nats://one?sslkey=/dev/null",
        ] {
            let refused = NatsConfig::new(url).with_parameters();
            assert!(matches!(&refused, Err(Error::Config { .. })), "{url}: {refused:?}");
        }
    }
}
