//! Which server is meant.

use antiphon_host::{Endpoint, HttpEndpoint, Lifecycle};
use antiphon_transport::revision;
use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    config::{Config, Definition, Kind, is_program},
    exit::Misused,
};

/// Which server is meant, and how it is reached.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// The server: its name in the configuration, its URL, or a program with its arguments, in quotes.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) reach: ConnectionArgs,
}

/// How a server is reached.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// A header to send along, `Name: value`. May be given several times.
    #[arg(long, value_name = "HEADER", help_heading = "Connection")]
    pub(crate) header: Vec<String>,
    /// A bearer token, instead of the server's own `Authorization`. Better in `ANTIPHON_TOKEN` than on the command line,
    /// where others see it; from there it is taken for servers that have no `Authorization` of their own.
    #[arg(long, help_heading = "Connection")]
    pub(crate) token: Option<String>,
    /// The URL is one of the HTTP+SSE of 2024-11-05, which came before streamable HTTP.
    #[arg(long, help_heading = "Connection")]
    pub(crate) sse: bool,
    /// Which revision of MCP to speak [default: the newest both know].
    #[arg(long, value_enum, help_heading = "Connection")]
    pub(crate) revision: Option<Revision>,
}

const AUTHORIZATION: &str = "Authorization";

/// A revision of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Revision {
    /// Without sessions: the server asks in its answers.
    #[value(name = revision::ROUNDS)]
    Modern,
    /// With a session: the server asks while the call is under way.
    #[value(name = revision::SESSION)]
    Legacy,
}

impl Revision {
    pub(crate) fn lifecycle(this: Option<Self>) -> Lifecycle {
        match this {
            None => Lifecycle::Auto,
            Some(Self::Modern) => Lifecycle::Modern,
            Some(Self::Legacy) => Lifecycle::Legacy,
        }
    }
}

impl Target {
    /// What the configuration has of it, or what the words themselves say.
    pub(crate) fn definition(&self, config: &Config) -> Result<Definition> {
        Ok(Definition::find(&self.server, config)?.reached(&self.reach))
    }

    pub(crate) fn lifecycle(&self, config: &Config) -> Result<Lifecycle> {
        let configured = self.definition(config)?.lifecycle()?;
        Ok(self.reach.revision.map_or(configured, |revision| Revision::lifecycle(Some(revision))))
    }

    pub(crate) fn endpoint(&self, config: &Config, verbose: bool) -> Result<Endpoint> {
        self.definition(config)?.endpoint(&self.reach, verbose)
    }
}

impl Definition {
    /// A server by its name in the configuration, its URL, or its command.
    pub(crate) fn find(server: &str, config: &Config) -> Result<Self> {
        // An address is what it says, whatever a file calls so.
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
            [] => Err(Misused("name a server: its name, its URL, or its command in quotes".into()).into()),
            [program, arguments @ ..] => {
                Ok(Self { command: Some(program.clone()), args: arguments.to_vec(), ..Self::default() })
            }
        }
    }

    /// As the command line has it.
    pub(crate) fn reached(mut self, reach: &ConnectionArgs) -> Self {
        if reach.sse && self.url.is_some() {
            self.kind = Some("sse".to_owned());
        }
        self
    }

    /// A server by its URL.
    pub(crate) fn at(server: &str) -> Result<Self> {
        let url =
            url::Url::parse(server).map_err(|error| Misused(format!("`{server}` is no URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            let scheme = url.scheme();
            return Err(Misused(format!("`{scheme}` is not spoken; use http, https, ws or wss")).into());
        }
        Ok(Self { url: Some(server.to_owned()), ..Self::default() })
    }

    /// How it is reached.
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

    /// What is sent along: the server's own headers, those of the command line, and one `Authorization` at most.
    pub(crate) fn all_headers(&self, reach: &ConnectionArgs) -> Result<Vec<(String, String)>> {
        // What was meant to be a value is not repeated: it may be a secret.
        let split = |header: &String| {
            let (name, value) = header.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let said = reach.header.iter().map(|header| {
            split(header).ok_or_else(|| Misused("a header is written as `Name: value`".into()).into())
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

    /// Nobody may believe that a token was sent that was not.
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
            // They are for us, and for no program that we start.
            for own in ["ANTIPHON_TOKEN", "ANTIPHON_KEYS", "ANTIPHON_OPERATORS_TOKEN"] {
                command.env_remove(own);
            }
            command.args(&args).envs(&env);
            if let Some(folder) = &cwd {
                command.current_dir(folder);
            }
            if !verbose {
                command.stderr(std::process::Stdio::null());
            }
            command
        })
    }
}

fn unknown(word: &str, config: &Config) -> Misused {
    let names: Vec<&str> = config.servers.keys().map(String::as_str).collect();
    let known = if names.is_empty() {
        "no servers are configured yet: `antiphon connect NAME URL` adds one".to_owned()
    } else {
        format!("these are configured: {}", names.join(", "))
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
