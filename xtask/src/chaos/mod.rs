//! `cargo xtask chaos`: runs that must survive what production does to them.

use std::path::PathBuf;

use anyhow::Result;

mod fleet;
mod proxy;
mod rounds;
mod story;

/// What kind of chaos.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Kind {
    /// Rounds at 2026-07-28 on three replicas that share nothing but a key ring.
    Rounds(Options),
}

/// Options of `cargo xtask chaos rounds`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many runs of the tool to bring to their end.
    #[arg(long, default_value_t = 1000)]
    runs: u64,
    /// Makes the choices repeatable; their timing is not.
    #[arg(long)]
    seed: Option<u64>,
    /// How many clients work at the same time.
    #[arg(long, default_value_t = 6)]
    clients: u64,
    /// Use this executable instead of building the `tour` example.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Lets it loose.
pub(crate) fn main(kind: &Kind) -> Result<()> {
    let Kind::Rounds(options) = kind;
    rounds::main(options)
}
