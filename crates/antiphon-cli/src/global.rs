//! Options and state that all commands share.

use std::{io::IsTerminal as _, path::PathBuf, time::Duration};

use antiphon_host::{Connection, Host, HostBuilder, StrayOutput};
use anyhow::Result;
use clap::Args;

use crate::{config::Config, print::clean, secrets, target::Target};

/// The heading of global options in the help of each command.
const EVERYWHERE: &str = "Everywhere";

/// The time after which the CLI prints that it is still connecting.
const PATIENCE: Duration = Duration::from_secs(5);

/// Global options.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// Set the folder of `config.toml` and `servers.json` [default: the platform's configuration folder].
    #[arg(long, global = true, value_name = "FOLDER", env = "ANTIPHON_CONFIG_DIR", hide_env_values = true, help_heading = EVERYWHERE)]
    pub(crate) config: Option<PathBuf>,
    /// Show the log messages and the standard error output of servers.
    #[arg(long, short, global = true, help_heading = EVERYWHERE)]
    pub(crate) verbose: bool,
}

/// The state that all commands share.
#[derive(Debug)]
pub(crate) struct App {
    /// Whether to print JSON.
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    /// Whether a terminal is present, so that the CLI can ask the user.
    pub(crate) interactive: bool,
    pub(crate) config: Config,
}

impl App {
    pub(crate) fn new(global: Global) -> Result<Self> {
        let Global { json, config, verbose } = global;
        let config = Config::load(config)?;
        let interactive = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        Ok(Self { json, verbose, interactive, config })
    }

    /// Returns a host builder without capabilities.
    pub(crate) fn host() -> HostBuilder {
        Host::builder("antiphon", env!("CARGO_PKG_VERSION"))
            .with_stray_output(|stray| eprintln!("warning: {}", Self::describe(stray)))
    }

    /// Returns a warning about text of a server program that is not an MCP message. The warning contains no secrets.
    pub(crate) fn describe(stray: &StrayOutput) -> String {
        clean(&secrets::in_output(&stray.to_string()))
    }

    pub(crate) async fn connect(&self, target: &Target, host: HostBuilder) -> Result<Connection> {
        self.open(target, host, self.verbose).await
    }

    /// Connects to a server, and pipes the standard error of its program to the host.
    pub(crate) async fn connect_piped(&self, target: &Target, host: HostBuilder) -> Result<Connection> {
        self.open(target, host, false).await
    }

    async fn open(&self, target: &Target, host: HostBuilder, inherits: bool) -> Result<Connection> {
        let host = host.with_lifecycle(target.lifecycle(&self.config)?).build();
        let connecting = host.connect(target.endpoint(&self.config, inherits)?);
        tokio::pin!(connecting);
        tokio::select! {
            connected = &mut connecting => return Ok(connected?),
            () = tokio::time::sleep(PATIENCE) => {}
        }
        // The server is possibly still starting: `npx` downloads the server, and `cargo run` compiles it.
        eprintln!("still waiting for the server; `--verbose` shows its output, Ctrl-C stops waiting");
        Ok(connecting.await?)
    }
}
