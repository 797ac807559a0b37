//! `antiphon dev`: builds a server when its sources change. The new server replaces the running server while the
//! connection to the host stays open.

mod build;
mod message;
mod proxy;
mod relay;
mod server;
mod stdio;
mod watch;

use std::{io::IsTerminal as _, path::PathBuf, process::Stdio};

use antiphon::http::shutdown_signal;
use anyhow::{Context as _, Result};
use clap::Args;
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    sync::mpsc,
};

use self::{build::Build, server::Program};
use crate::{
    exit::{Misused, Outcome},
    global::App,
};

/// The number of build events that can wait.
const EVENTS: usize = 16;

/// Build a server when its sources change, and replace it behind an open connection.
///
/// A host starts `antiphon dev` in place of the server, and stays connected while the server is replaced. If a build
/// fails, the previous server keeps running, and the next tool call returns the errors of the compiler.
///
/// On MCP 2026-07-28, calls that wait for an answer continue in the new server, if the server reads its encryption keys
/// from `ANTIPHON_KEYS`. Servers of `antiphon new` do.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon install claude-code --name hello -- antiphon dev --project hello
  antiphon dev --http 127.0.0.1:8000
  antiphon dev --build 'cargo build --bin hello'
  antiphon dev --build make --watch src --http 127.0.0.1:8000 -- ./server --listen '{address}'
  antiphon dev --studio")]
pub(crate) struct Dev {
    /// Listen on this address, and forward requests to a server over HTTP [default: standard input and output]. The
    /// server must listen on the address in the variable `ADDRESS`. `{address}` in COMMAND is replaced by it, too.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Build with this command.
    #[arg(long, value_name = "COMMAND", default_value = "cargo build")]
    build: String,
    /// Build again when this file or folder changes, relative to the project [default: the folder of the project].
    /// Required with COMMAND. Can be given more than once.
    #[arg(long, value_name = "PATH")]
    watch: Vec<PathBuf>,
    /// Set the folder of the project [default: the working folder].
    #[arg(long, value_name = "FOLDER")]
    project: Option<PathBuf>,
    /// Open the studio, to call the tools of the server in the browser.
    #[arg(long)]
    studio: bool,
    /// The program of the server, with its arguments [default: the program that `cargo build` builds].
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Dev {
    pub(crate) async fn run(self, _: &App) -> Result<Outcome> {
        tokio::select! {
            ended = self.serve() => ended,
            // After this branch, `select!` drops `serve`, which kills the processes that `serve` has started.
            () = shutdown_signal() => Ok(Outcome::Interrupted),
            () = hangup() => Ok(Outcome::Interrupted),
        }
    }

    async fn serve(&self) -> Result<Outcome> {
        let folder = match &self.project {
            Some(folder) => folder.canonicalize().with_context(|| {
                let folder = folder.display();
                format!("the project {folder} cannot be opened; check `--project`")
            })?,
            None => std::env::current_dir()?,
        };
        let build = Build::new(&self.build, &self.command, &self.watch, &folder).map_err(Misused)?;
        let program = Program::new(&folder)?;
        if let Some(address) = &self.http {
            let failed = || format!("cannot listen on {address}; choose another port");
            let listener = TcpListener::bind(address).await.with_context(failed)?;
            let url = format!("http://{}/mcp", listener.local_addr()?);
            eprintln!("antiphon dev: listening on {url}");
            let _studio = self.studio.then(|| studio(&url)).transpose()?;
            let (events, builds) = mpsc::channel(EVENTS);
            tokio::select! {
                ended = proxy::run(listener, builds, &program) => ended?,
                () = build.run(events) => {}
            }
            return Ok(Outcome::Done);
        }
        let is_terminal = std::io::stdin().is_terminal();
        if self.studio && is_terminal {
            // No host is connected, because the studio is the host. The studio waits only for a limited time, so build
            // before the studio starts.
            if let Err(why) = build.build().await {
                eprintln!("antiphon dev: {}", why.lines().next().unwrap_or_default());
            }
            let ended = studio(&self.again()?)?.wait().await?;
            return Ok(if ended.success() { Outcome::Done } else { Outcome::Interrupted });
        }
        let _studio = self.studio.then(|| studio(&self.again()?)).transpose()?;
        if is_terminal {
            eprintln!(
                "antiphon dev: waiting for a host on standard input; `--studio` opens one in the browser"
            );
        }
        let (events, builds) = mpsc::channel(EVENTS);
        tokio::select! {
            () = stdio::run(builds, &program) => {}
            () = build.run(events) => {}
        }
        Ok(Outcome::Done)
    }

    /// Returns the command line of `antiphon dev` without the option `--studio`. The studio runs the returned command
    /// as its server.
    fn again(&self) -> Result<String> {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut words = vec![own_program()?, "dev".to_owned(), "--build".to_owned(), self.build.clone()];
        for watched in &self.watch {
            words.extend(["--watch".to_owned(), path(watched)]);
        }
        if let Some(folder) = &self.project {
            words.extend(["--project".to_owned(), path(folder)]);
        }
        if !self.command.is_empty() {
            words.push("--".to_owned());
            words.extend(self.command.clone());
        }
        Ok(shell_words::join(words))
    }
}

/// Waits until the terminal is closed.
async fn hangup() {
    #[cfg(unix)]
    if let Ok(mut signal) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
        signal.recv().await;
        return;
    }
    std::future::pending::<()>().await;
}

/// Starts the studio for a server. The studio prints its URL on standard error, because standard output can belong to
/// MCP.
fn studio(server: &str) -> Result<Child> {
    let mut command = Command::new(own_program()?);
    command.args(["studio", server]).stdin(Stdio::null()).stdout(std::io::stderr());
    command.kill_on_drop(true).spawn().context("the studio cannot be started")
}

fn own_program() -> Result<String> {
    Ok(std::env::current_exe()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studio_starts_the_same_command_without_the_studio() {
        let dev = Dev {
            http: None,
            build: "make all".into(),
            watch: vec!["src".into()],
            project: Some("a b".into()),
            studio: true,
            command: vec!["./server".into(), "--quiet".into()],
        };
        let line = dev.again().unwrap();
        let (_, options) = line.split_once(" dev ").unwrap();
        assert_eq!(options, "--build 'make all' --watch src --project 'a b' -- ./server --quiet");
    }
}
