//! Finds the server that a command uses. The user gives the name, the URL or the program of the server.

use antiphon_host::{Endpoint, HttpEndpoint, Lifecycle};
use antiphon_transport::revision::Revision;
use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    config::{Config, Definition, Kind, is_program},
    exit::Misused,
};

/// A server, and how to connect to it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// The server: its name in the configuration, its URL, or a program with its arguments, in quotes.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) reach: ConnectionArgs,
}

/// Options to connect to a server.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// Send this header, as `Name: value`. Can be given more than once.
    #[arg(long, value_name = "HEADER", help_heading = "Connection")]
    pub(crate) header: Vec<String>,
    /// Send this bearer token instead of the configured `Authorization`. Prefer `ANTIPHON_TOKEN`, because other users
    /// can see the command line. The variable is not used for servers with a configured `Authorization` or from
    /// `.mcp.json`.
    #[arg(long, help_heading = "Connection")]
    pub(crate) token: Option<String>,
    /// Use HTTP+SSE of 2024-11-05, the predecessor of streamable HTTP.
    #[arg(long, help_heading = "Connection")]
    pub(crate) sse: bool,
    /// Use this protocol revision [default: the newest that both sides support].
    #[arg(long, value_enum, help_heading = "Connection")]
    pub(crate) revision: Option<ProtocolChoice>,
}

const AUTHORIZATION: &str = "Authorization";

/// A protocol revision that the user can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolChoice {
    /// Without sessions: the server sends questions in its responses.
    #[value(name = Revision::Rounds.version())]
    Modern,
    /// With a session: the server sends questions during the call.
    #[value(name = Revision::Session.version())]
    Legacy,
}

impl ProtocolChoice {
    /// Returns the name of the protocol revision on the command line and in the configuration.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Modern => Revision::Rounds.version(),
            Self::Legacy => Revision::Session.version(),
        }
    }

    pub(crate) fn lifecycle(self) -> Lifecycle {
        match self {
            Self::Modern => Lifecycle::Modern,
            Self::Legacy => Lifecycle::Legacy,
        }
    }
}

impl Target {
    /// Returns the server's definition from the configuration, or parses the argument.
    pub(crate) fn definition(&self, config: &Config) -> Result<Definition> {
        Ok(Definition::find(&self.server, config)?.reached(&self.reach))
    }

    pub(crate) fn lifecycle(&self, config: &Config) -> Result<Lifecycle> {
        let configured = self.definition(config)?.lifecycle()?;
        Ok(self.reach.revision.map_or(configured, ProtocolChoice::lifecycle))
    }

    pub(crate) fn endpoint(&self, config: &Config, verbose: bool) -> Result<Endpoint> {
        self.definition(config)?.endpoint(&self.reach, verbose)
    }
}

impl Definition {
    /// Finds a server by its name in the configuration, its URL, or its command.
    pub(crate) fn find(server: &str, config: &Config) -> Result<Self> {
        // A URL is always used as a URL, even if a configured server has the same name.
        if server.contains("://") && !server.contains(' ') {
            return Self::at(server);
        }
        if let Some(definition) = config.servers.get(server) {
            return Ok(definition.clone());
        }
        let words = shell_words::split(server)
            .map_err(|_| Misused(format!("`{server}` has a quote that is not closed")))?;
        match words.as_slice() {
            [word] if !is_program(word) => Err(unknown(word, config).into()),
            [] => Err(Misused("the server is missing; pass a name, URL or command in quotes".into()).into()),
            [program, arguments @ ..] => {
                Ok(Self { command: Some(program.clone()), args: arguments.to_vec(), ..Self::default() })
            }
        }
    }

    /// Applies the connection options of the command line.
    pub(crate) fn reached(mut self, reach: &ConnectionArgs) -> Self {
        if reach.sse && self.url.is_some() {
            self.kind = Some("sse".to_owned());
        }
        self
    }

    /// Returns the definition of a server at a URL.
    pub(crate) fn at(server: &str) -> Result<Self> {
        let url =
            url::Url::parse(server).map_err(|error| Misused(format!("`{server}` is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            let scheme = url.scheme();
            return Err(Misused(format!("`{scheme}` is not supported; use http, https, ws or wss")).into());
        }
        Ok(Self { url: Some(server.to_owned()), ..Self::default() })
    }

    /// Returns the endpoint of the server.
    pub(crate) fn endpoint(&self, reach: &ConnectionArgs, verbose: bool) -> Result<Endpoint> {
        let this = self.expanded()?;
        match this.kind()? {
            Kind::Http(url) => {
                let mut endpoint = HttpEndpoint::new(url);
                for (name, value) in this.all_headers(reach)? {
                    endpoint = endpoint.with_header(name, value);
                }
                Ok(endpoint.into())
            }
            Kind::Sse(url) => this.without_headers(reach).map(|()| Endpoint::sse(url)),
            Kind::WebSocket(url) => this.without_headers(reach).map(|()| Endpoint::websocket(url)),
            Kind::Program(program) => Ok(this.child(program, verbose)),
        }
    }

    /// Returns the headers of the configuration and of the command line, with at most one `Authorization`.
    pub(crate) fn all_headers(&self, reach: &ConnectionArgs) -> Result<Vec<(String, String)>> {
        // The error does not repeat the text, because the text can contain a secret.
        let split = |header: &String| {
            let (name, value) = header.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let said = reach.header.iter().map(|header| {
            split(header).ok_or_else(|| Misused("a header is invalid; write `Name: value`".into()).into())
        });
        let mut headers: Vec<_> = self.headers.clone().into_iter().collect();
        for (name, value) in said.collect::<Result<Vec<_>>>()? {
            headers.retain(|(own, _)| !own.eq_ignore_ascii_case(&name));
            headers.push((name, value));
        }
        let authorized = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION));
        let ambient = || std::env::var("ANTIPHON_TOKEN").ok().filter(|_| !authorized && !self.of_folder);
        if let Some(token) = reach.token.clone().or_else(ambient) {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case(AUTHORIZATION));
            headers.push((AUTHORIZATION.to_owned(), format!("Bearer {token}")));
        }
        Ok(headers)
    }

    /// Returns an error if headers or a token are set, because transports other than HTTP would not send headers and
    /// tokens.
    fn without_headers(&self, reach: &ConnectionArgs) -> Result<()> {
        if reach.token.is_none() && reach.header.is_empty() && self.headers.is_empty() {
            return Ok(());
        }
        let message = "headers and tokens are sent over streamable HTTP only, not over WebSocket or SSE";
        Err(Misused(message.into()).into())
    }

    fn child(&self, program: &str, verbose: bool) -> Endpoint {
        let Self { args, env, cwd, .. } = self.clone();
        let program = program.to_owned();
        Endpoint::child(program.clone(), move || {
            let mut command = tokio::process::Command::new(&program);
            // These secrets are for the CLI, and not for programs that the CLI starts.
            for own in ["ANTIPHON_TOKEN", "ANTIPHON_KEYS", "ANTIPHON_OPERATORS_TOKEN"] {
                command.env_remove(own);
            }
            command.args(&args).envs(&env);
            if let Some(folder) = &cwd {
                command.current_dir(folder);
            }
            if !verbose {
                // The host reads the standard error, and shows its last lines if the connection fails.
                command.stderr(std::process::Stdio::piped());
            }
            command
        })
    }
}

fn unknown(word: &str, config: &Config) -> Misused {
    // `localhost:8000/mcp` looks like an address.
    if word.contains(':') && !word.contains('\\') && url::Url::parse(&format!("http://{word}")).is_ok() {
        return Misused(format!(
            "there is no server `{word}`, and no such program; if it is an address, write `http://{word}`"
        ));
    }
    let names: Vec<&str> = config.servers.keys().map(String::as_str).collect();
    let known = if names.is_empty() {
        "no servers are configured yet: `antiphon connect NAME URL` adds one".to_owned()
    } else {
        format!("the configured servers are {}", names.join(", "))
    };
    Misused(format!("there is no server `{word}`, and no such program; {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_name_a_url_or_a_command() {
        let mut config = Config::default();
        let named = Definition { url: Some("http://127.0.0.1:1/mcp".into()), ..Definition::default() };
        config.servers.insert("mine".into(), named.clone());
        assert_eq!(Definition::find("mine", &config).unwrap(), named);
        let at = Definition::find("https://example.com/mcp", &config).unwrap();
        assert_eq!(at.url.as_deref(), Some("https://example.com/mcp"));
        let program = Definition::find("npx -y 'a server'", &config).unwrap();
        assert_eq!(
            (program.command.as_deref(), program.args),
            (Some("npx"), vec!["-y".into(), "a server".into()])
        );
        let error = Definition::find("nine", &config).unwrap_err().to_string();
        assert!(error.contains("mine"), "{error}");
        assert!(Definition::find("ftp://example.com", &config).is_err());
    }
}
