//! What all commands share.

use std::{io::IsTerminal as _, path::PathBuf, time::Duration};

use antiphon_host::{Connection, Host, HostBuilder};
use anyhow::Result;
use clap::Args;

use crate::{config::Config, target::Target};

/// Where the help of a command lists them, apart from its own.
const EVERYWHERE: &str = "Everywhere";

/// After which time of silence something is said.
const PATIENCE: Duration = Duration::from_secs(5);

/// What can be said to every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print JSON, for programs to read.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) json: bool,
    /// The folder with `config.toml` and `servers.json` [default: the platform's usual place].
    #[arg(long, global = true, value_name = "FOLDER", env = "ANTIPHON_CONFIG_DIR", hide_env_values = true, help_heading = EVERYWHERE)]
    pub(crate) config: Option<PathBuf>,
    /// Show what servers write to their log and to standard error.
    #[arg(long, short, global = true, help_heading = EVERYWHERE)]
    pub(crate) verbose: bool,
}

/// The program, set up.
#[derive(Debug)]
pub(crate) struct App {
    /// Whether a program reads what is printed.
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    /// Whether a person sits there and can be asked.
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

    /// A host that answers nothing yet.
    pub(crate) fn host() -> HostBuilder {
        Host::builder("antiphon", env!("CARGO_PKG_VERSION"))
    }

    /// Connects with a host.
    pub(crate) async fn connect(&self, target: &Target, host: HostBuilder) -> Result<Connection> {
        let host = host.with_lifecycle(target.lifecycle(&self.config)?).build();
        let connecting = host.connect(target.endpoint(&self.config, self.verbose)?);
        tokio::pin!(connecting);
        tokio::select! {
            connected = &mut connecting => return Ok(connected?),
            () = tokio::time::sleep(PATIENCE) => {}
        }
        // It may well be at work: `npx` downloads, `cargo run` compiles.
        eprintln!("still waiting for the server; `--verbose` shows what it says, Ctrl-C ends it");
        Ok(connecting.await?)
    }
}
