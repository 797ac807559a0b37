//! `cargo xtask interop`: our host against servers of other makers, their clients against our servers.
//!
//! Every client, ours among them, is a driver with the same arguments and the same output: it is told what
//! to call and prints a line of JSON for each call. Nothing is judged there; see `report`. The `antiphon` command
//! is tried with the same servers; see `command`. The files that it writes are checked; see `formats`.

mod command;
mod formats;
mod matrix;
mod peers;
mod report;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use self::matrix::{Era, Mark, Matrix};
pub(crate) use self::peers::Tools;
use self::peers::{CLIENTS, SERVERS};
use self::report::{About, Call, Cell, Line};
use crate::project::{Profile, Project};
use crate::server::{self, Server};

const LIMIT: Duration = Duration::from_mins(1);
const HOST: [Cell; 6] = [Cell::List, Cell::Call, Cell::Ask, Cell::Sample, Cell::Progress, Cell::Log];
const SERVER: [Cell; 8] =
    [Cell::List, Cell::Call, Cell::Ask, Cell::Sample, Cell::Data, Cell::Progress, Cell::Log, Cell::Tour];

/// Options of `cargo xtask interop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only the rows that contain this: `FastMCP`, `stdio`, `FastMCP 4.1.2 http`.
    #[arg(long, default_value = "")]
    only: String,
}

/// Fills every cell.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let tools = Tools::install(&project)?;
    let host = project.build("lab", "interop-host", Profile::Dev)?;
    let everything = project.build("lab", "everything", Profile::Dev)?;
    let tour = project.build("tour", "tour", Profile::Dev)?;
    let antiphon = project.build("antiphon-cli", "antiphon", Profile::Dev)?;
    let logs = project.target.join("interop").join("logs");
    fs::create_dir_all(&logs)?;

    let mut ours = Matrix::new("our host against", &HOST);
    let mut theirs = Matrix::new("our servers with", &SERVER);
    let mut work = Work { jobs: VecDeque::new(), logs: &logs, only: &options.only };
    let mut foreign = work.host(&mut ours, &tools, &host)?;
    let start =
        |binary: &Path, log: &str| Server::start(binary, server::free_address()?, &[], &logs.join(log));
    let servers = [
        (start(&everything, "everything.log")?, everything, peers::our_calls()),
        (start(&tour, "tour.log")?, tour, peers::tour_calls()),
    ];
    work.clients(&mut theirs, &tools, &servers)?;
    for peer in &mut foreign {
        peer.wait_until_ready()?;
    }

    let start = Instant::now();
    let jobs = work.jobs.len();
    ensure!(jobs > 0, "there is no peer like {:?}", options.only);
    eprintln!("running {jobs} conversations");
    let done = run_all(work.jobs);
    for (job, outcomes) in done {
        let matrix = if job.ours { &mut ours } else { &mut theirs };
        for (cell, outcome) in outcomes {
            let mark = match outcome {
                Ok(()) => Mark::Passed,
                Err(error) => Mark::Failed(format!("{error:#}")),
            };
            matrix.mark(job.row, job.era, cell, mark);
        }
    }
    let command = command::run(&tools, &antiphon, &logs, &options.only)?;
    let formats = if options.only.is_empty() {
        formats::run(&tools, &antiphon, &project.root, &project.target.join("interop").join("formats"))?
    } else {
        command::Tried::default()
    };
    println!("\n{ours}\n{theirs}");
    let failures = [ours.failures(), theirs.failures(), command.failures, formats.failures].concat();
    for failure in &failures {
        println!("{failure}");
    }
    println!("{jobs} conversations in {:.0} s", start.elapsed().as_secs_f64());
    let passed = ours.passed() + theirs.passed() + command.passed + formats.passed;
    println!("{passed} passed, {} failed", failures.len());
    ensure!(failures.is_empty(), "not every cell is green; logs are in {}", logs.display());
    Ok(())
}

/// One client's conversation with one server.
#[derive(Debug)]
struct Job {
    /// Whose client it is, and so which matrix.
    ours: bool,
    row: usize,
    era: Era,
    command: Command,
    calls: Vec<Call>,
    /// Whether it is this conversation that fills the cell `list`.
    lists: bool,
    log: PathBuf,
}

#[derive(Debug)]
struct Work<'a> {
    jobs: VecDeque<Job>,
    logs: &'a Path,
    only: &'a str,
}

impl Work<'_> {
    /// Our host with every server; those that listen are started.
    fn host(&mut self, matrix: &mut Matrix, tools: &Tools, host: &Path) -> Result<Vec<Server>> {
        let mut started = Vec::new();
        for server in &SERVERS {
            let name = server.name(tools)?;
            if !self.wants(&name, server.transport) {
                continue;
            }
            let row = matrix.row(&name, server.transport);
            let log = format!("host-{}-{}", server.script, server.transport);
            let address = server::free_address()?;
            let mut command = server.command(tools, address.port());
            let target: Vec<String> = if server.transport == "stdio" {
                let words = std::iter::once(command.get_program()).chain(command.get_args());
                words.map(|word| word.to_string_lossy().into_owned()).collect()
            } else {
                let log = self.logs.join(format!("{log}-server.log"));
                started.push(Server::spawn(&mut command, address, &log)?);
                vec![server.url(address.port())]
            };
            for era in Era::ALL {
                if let Some(reason) = server.unable(era) {
                    for cell in HOST {
                        matrix.mark(row, era, cell, Mark::Unable(reason));
                    }
                    continue;
                }
                let calls = server.calls();
                let mut command = Command::new(host);
                command.arg(era.name()).arg(plan(&calls)).args(&target);
                tools.compile_once(&mut command);
                let log = self.logs.join(format!("{log}-{}.log", era.name()));
                self.jobs.push_back(Job { ours: true, row, era, command, calls, lists: true, log });
            }
        }
        Ok(started)
    }

    /// Every client with our servers.
    fn clients(
        &mut self,
        matrix: &mut Matrix,
        tools: &Tools,
        servers: &[(Server, PathBuf, Vec<Call>)],
    ) -> Result<()> {
        for client in &CLIENTS {
            let name = client.name(tools)?;
            for transport in ["http", "stdio"] {
                if !self.wants(&name, transport) {
                    continue;
                }
                let row = matrix.row(&name, transport);
                for era in Era::ALL {
                    for cell in SERVER {
                        if let Some(reason) = client.unable(era, cell) {
                            matrix.mark(row, era, cell, Mark::Unable(reason));
                        }
                    }
                    if client.unable(era, Cell::List).is_some() {
                        continue;
                    }
                    for (number, (server, binary, calls)) in servers.iter().enumerate() {
                        let calls: Vec<Call> = calls
                            .iter()
                            .filter(|call| client.unable(era, call.cell).is_none())
                            .cloned()
                            .collect();
                        if calls.is_empty() {
                            continue;
                        }
                        let script = tools.folder.join("clients").join(client.script);
                        let mut command = tools.script(client.runtime, &script);
                        command.arg(era.name()).arg(plan(&calls));
                        match transport {
                            "http" => command.arg(server.url()),
                            _ => command.arg(binary).arg("--stdio"),
                        };
                        let log = format!("{}-{transport}-{}-{number}.log", client.script, era.name());
                        let log = self.logs.join(log);
                        let lists = number == 0;
                        self.jobs.push_back(Job { ours: false, row, era, command, calls, lists, log });
                    }
                }
            }
        }
        Ok(())
    }

    fn wants(&self, name: &str, transport: &str) -> bool {
        wants(self.only, name, transport)
    }
}

/// Whether a row is one of those that are wanted.
fn wants(only: &str, name: &str, transport: &str) -> bool {
    format!("{name} {transport}").contains(only)
}

fn plan(calls: &[Call]) -> String {
    calls.iter().map(Call::plan).collect::<Value>().to_string()
}

type Outcomes = Vec<(Cell, Result<()>)>;

/// Runs the jobs, a few at a time: most of their time is spent starting.
fn run_all(jobs: VecDeque<Job>) -> Vec<(Job, Outcomes)> {
    let workers = thread::available_parallelism().map_or(2, usize::from) + 1;
    let (waiting, done) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(mut job) = next else { break };
                    let outcomes = job.run();
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((job, outcomes));
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// What became of each of its cells.
    fn run(&mut self) -> Outcomes {
        let printed = match drive(&mut self.command, &self.log, LIMIT) {
            Ok(printed) => printed,
            Err(error) => {
                let cells = self.lists.then_some(Cell::List).into_iter();
                let cells = cells.chain(self.calls.iter().map(|call| call.cell));
                return cells.map(|cell| (cell, Err(anyhow::anyhow!("{error:#}")))).collect();
            }
        };
        let mut outcomes = Vec::new();
        let mut lines = printed.lines().filter(|line| line.starts_with('{'));
        let about = lines.next().context("printed nothing").and_then(|line| {
            let about: About = serde_json::from_str(line).with_context(|| format!("printed {line:?}"))?;
            about.check(self.era, &self.calls)
        });
        let lines: Vec<Result<Line>> = lines
            .map(|line| serde_json::from_str(line).with_context(|| format!("printed {line:?}")))
            .collect();
        for call in &self.calls {
            let line = lines.iter().flatten().find(|line| line.cell == call.cell);
            let line = line.with_context(|| format!("printed no result; see {}", self.log.display()));
            outcomes.push((call.cell, line.and_then(|line| line.check(call, self.era))));
        }
        if self.lists {
            outcomes.push((Cell::List, about));
        } else if let (Err(error), Some(call)) = (about, self.calls.first()) {
            outcomes.push((call.cell, Err(error)));
        }
        outcomes
    }
}

/// Runs a driver to its end and returns what it printed.
pub(crate) fn drive(command: &mut Command, log: &Path, limit: Duration) -> Result<String> {
    let output = log.with_extension("jsonl");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&output).with_context(|| format!("could not write {}", output.display()))?)
        .stderr(File::create(log)?)
        .spawn()
        .context("could not start the client")?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("gave up after {} s; see {}", limit.as_secs(), log.display());
        }
        thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.success(), "ended with {status}; see {}", log.display());
    fs::read_to_string(&output).with_context(|| format!("could not read {}", output.display()))
}
