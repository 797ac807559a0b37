use std::{fmt, time::Duration};

use async_nats::{
    ServerAddr,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, pem::PemObject as _},
    },
};

use crate::{
    error::{Error, Result},
    name,
};

/// The address of NATS, and the options for its use.
#[derive(Clone)]
pub struct NatsConfig {
    pub(super) url: String,
    pub(super) space: String,
    pub(super) prefix: String,
    pub(super) replicas: usize,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) authority: Option<Vec<u8>>,
}

impl NatsConfig {
    /// Creates a configuration for the servers at `url` with the defaults.
    ///
    /// `url` is one or more URLs, separated by commas: `nats://host:4222`, `tls://user:password@host`,
    /// `nats://token@host`. The credentials before the `@` are percent-decoded and used for all servers. If one URL is
    /// `tls://`, TLS is required for all servers, including servers that are discovered later.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            space: "antiphon".to_owned(),
            prefix: "antiphon".to_owned(),
            replicas: 1,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            authority: None,
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

    /// Sets the number of servers that store each stream. More than one server needs NATS 2.11. Default: 1.
    ///
    /// The value applies when the streams are created. To change the number of servers later, use `nats stream edit`.
    #[must_use]
    pub fn with_replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets the maximum time to wait for a connection, both at the start and after a lost connection. Default: 5
    /// seconds.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the maximum time of one operation. The time starts when the operation has a connection. The time that a
    /// worker waits for a job is not included. Default: 5 seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the certificate authorities that verify the servers, in PEM. These authorities replace the authorities of
    /// the system. Default: none, which means the authorities of the system.
    #[must_use]
    pub fn with_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authority = Some(pem.into());
        self
    }

    /// Returns the TLS configuration if an authority is set.
    pub(super) fn tls(&self) -> Result<Option<ClientConfig>> {
        let Some(pem) = &self.authority else { return Ok(None) };
        let bad = |problem: String| config(format!("`NatsConfig::with_authority` is not valid: {problem}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(bad("no certificate was found; pass certificates in PEM".into()));
        }
        Ok(Some(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
    }

    /// Parses the URLs, and checks all settings that can be checked without a connection.
    pub(super) fn servers(&self) -> Result<Vec<ServerAddr>> {
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

/// The credentials from the URL.
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

/// Decodes percent-encoding. Other text stays unchanged.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(value) = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(value);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) fn config(problem: impl Into<String>) -> Error {
    Error::Config { problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::{Login, NatsConfig, decoded, login};

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
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }
}
