//! `cargo xtask services`: PostgreSQL, MariaDB, Redis, NATS and S3 on private ports, for tests.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Result, bail};

use crate::project::{self, Project};
use crate::table::Table;

mod backend;
mod engine;
mod folder;
mod host;
mod mariadb;
mod operate;
mod postgres;
mod process;
mod s3;
mod session;
mod topology;

pub(crate) use self::backend::{Backend, Place};
pub(crate) use self::engine::Engine;
pub(crate) use self::host::{Host, Stop};
pub(crate) use self::postgres::program as postgres_program;
pub(crate) use self::process::{children, signal};
pub(crate) use self::session::Session;
pub(crate) use self::topology::Topology;

use self::folder::Folder;
use self::operate::Order;

/// What to do with them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Start those that do not run, and print the variables that tell tests about them.
    Up(Up),
    /// Stop them and remove their data.
    Down,
    /// Make the leader of a topology fail, and wait until another server takes over.
    Fail(Fail),
    /// Start the failed server of a topology again, and wait until it has a copy of everything.
    Heal(Heal),
    /// Say which of them run, and where.
    Status,
    /// Print the variables: `eval "$(cargo xtask services env)"`.
    Env,
    /// Run a command with the variables set, and stop what was started for it.
    Run(Run),
}

/// Options of `cargo xtask services up`.
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Start this topology of servers instead, in the foreground.
    #[arg(long, value_enum)]
    topology: Option<Topology>,
}

/// Options of `cargo xtask services fail`.
#[derive(Debug, clap::Args)]
pub(crate) struct Fail {
    /// A topology that `up --topology` started.
    #[arg(value_enum)]
    topology: Topology,
    /// How its leader fails.
    #[arg(value_enum)]
    fault: Stop,
}

/// Options of `cargo xtask services heal`.
#[derive(Debug, clap::Args)]
pub(crate) struct Heal {
    /// A topology that `up --topology` started.
    #[arg(value_enum)]
    topology: Topology,
}

/// Options of `cargo xtask services run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Does it.
pub(crate) fn main(action: &Action) -> Result<()> {
    let project = Project::open()?;
    match action {
        Action::Up(options) => match options.topology {
            Some(topology) => operate::run(&project, topology),
            None => up(&project),
        },
        Action::Down => down(&project),
        Action::Fail(options) => {
            let seconds = operate::send(&project, options.topology, Some(Order::Fail(options.fault)))?;
            println!("another server accepts writes, {seconds} s after the fault");
            Ok(())
        }
        Action::Heal(options) => {
            let seconds = operate::send(&project, options.topology, Some(Order::Heal))?;
            println!("the servers are complete again after {seconds} s");
            Ok(())
        }
        Action::Status => status(&project),
        Action::Env => env(&project),
        Action::Run(options) => run(&project, options),
    }
}

fn up(project: &Project) -> Result<()> {
    let folder = Folder::lock(&Folder::path(project))?;
    for site in folder.up(&Engine::ALL, true)? {
        println!("export {}={}", site.engine.variable(), site.url());
    }
    eprintln!("They run until `cargo xtask services down`.");
    Ok(())
}

fn down(project: &Project) -> Result<()> {
    let stopped = Folder::lock(&Folder::path(project))?.down(|_| true)?;
    let topologies = Topology::ALL.into_iter();
    let ended = topologies.filter(|topology| operate::send(project, *topology, Some(Order::End)).is_ok());
    let ended: Vec<_> = ended.inspect(|topology| eprintln!("stopped {}", topology.name())).collect();
    if stopped == 0 && ended.is_empty() {
        eprintln!("none of ours runs");
    }
    Ok(())
}

fn status(project: &Project) -> Result<()> {
    let folder = Folder::lock(&Folder::path(project))?;
    let mut table = Table::new(["service", "state", "pid", "variable", "value"]);
    for engine in Engine::ALL {
        let record = folder.running(engine);
        let pid = record.as_ref().map_or_else(String::new, |it| it.process.pid.to_string());
        let state = match &record {
            Some(record) if record.kept => "running",
            Some(_) => "running, for one command",
            None => "stopped",
        };
        let url = record.map_or_else(String::new, |it| it.site.url());
        table.row([engine.name().into(), state.into(), pid, engine.variable().into(), url]);
    }
    println!("{table}");
    eprintln!("Their data and logs are in {}.", folder.path.display());
    Ok(())
}

fn env(project: &Project) -> Result<()> {
    let folder = Folder::lock(&Folder::path(project))?;
    for engine in Engine::ALL {
        let Some(record) = folder.running(engine) else {
            bail!("{} does not run; start it with `cargo xtask services up`", engine.name());
        };
        println!("export {}={}", engine.variable(), record.site.url());
    }
    Ok(())
}

fn run(project: &Project, options: &Run) -> Result<()> {
    let [program, arguments @ ..] = options.command.as_slice() else {
        bail!("say what to run: `cargo xtask services run cargo nextest run -p antiphon-store`");
    };
    let session = Session::start(project)?;
    let mut command = Command::new(program);
    project::without_our_package(&mut command);
    project::run(command.args(arguments).envs(session.variables())).or_else(|error| {
        // The command may have failed only because its server is gone.
        session.check()?;
        Err(error)
    })
}
