//! `cargo xtask chaos`: runs that must survive what production does to them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::services::{Stop, Topology};

mod asking;
mod cluster;
mod delayed;
mod fleet;
pub(crate) mod ledger;
mod proxy;
mod rounds;
mod store;
pub(crate) mod story;
mod tasks;

/// What kind of chaos.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Kind {
    /// Rounds at 2026-07-28 on three replicas that share nothing but a key ring, or a store as well.
    Rounds(Options),
    /// Writers and workers that are killed, on a server that is restarted.
    Store(store::Options),
    /// Tasks whose workers and front ends are killed, on a server that is restarted.
    Tasks(tasks::Options),
    /// Questions that users answer in a form, while workers and front ends are killed and the store is restarted.
    Asking(asking::Options),
    /// Jobs with a long delay, on servers whose leader fails while the jobs come due.
    Delayed(delayed::Options),
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
    /// Share this store, and take steps that may be taken only once.
    #[arg(long, value_enum)]
    store: Option<store::Backend>,
    /// Share a store on these servers, and let the server that accepts writes fail three times.
    #[arg(long, value_enum, conflicts_with = "store")]
    topology: Option<Topology>,
    /// How that server fails. Without this option, in every way that the topology survives.
    #[arg(long, value_enum, requires = "topology")]
    fault: Option<Stop>,
    /// Make every `requestState` good for one use, too.
    #[arg(long)]
    single_use: bool,
    /// Use this executable instead of building the example.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Runs `chaos store` on a topology, with so many writes and jobs. Returns the longest outage.
pub(crate) fn store_on(
    topology: Topology,
    fault: Option<Stop>,
    count: u64,
    restarts: u64,
) -> Result<Duration> {
    store::run(&store::Options::on(topology, fault, count, restarts))
}

/// Runs `chaos tasks` on a topology, with so many runs.
pub(crate) fn tasks_on(topology: Topology, fault: Option<Stop>, runs: u64) -> Result<()> {
    tasks::main(&tasks::Options::on(topology, fault, runs))
}

/// Runs `chaos rounds` on a topology, with so many runs.
pub(crate) fn rounds_on(topology: Topology, fault: Option<Stop>, runs: u64) -> Result<()> {
    rounds::main(&Options {
        runs,
        seed: None,
        clients: 6,
        store: None,
        topology: Some(topology),
        fault,
        single_use: false,
        binary: None,
    })
}

/// Lets it loose.
pub(crate) fn main(kind: &Kind) -> Result<()> {
    match kind {
        Kind::Rounds(options) => rounds::main(options),
        Kind::Store(options) => store::run(options).map(drop),
        Kind::Tasks(options) => tasks::main(options),
        Kind::Asking(options) => asking::main(options),
        Kind::Delayed(options) => delayed::main(options),
    }
}
