//! The parts that `chaos tasks` and `chaos asking` share: a store with front ends and workers, clients that start runs
//! while processes are killed, and the report of the rules.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::http::Message;
use crate::mcp;
use crate::project::{Profile, Project};
use crate::server;
use crate::services::{Host, Place};

pub(crate) mod crew;
pub(crate) mod notes;
mod race;
mod report;

use self::crew::Crew;
pub(crate) use self::race::{Pace, Race};
pub(crate) use self::report::{Found, Report, Verdict};

/// The token of the operators' routes.
const TOKEN: &str = "the-operators-token-of-chaos";

/// How long a client waits for the end of a run. Kills and restarts are included.
const PATIENCE: Duration = Duration::from_mins(3);

/// How long a client waits before it tries again.
pub(crate) const PAUSE: Duration = Duration::from_millis(40);

/// How long runs without a client can take after the last kill: a lease, a sweep for lost jobs, and their steps.
const FOLLOW: Duration = Duration::from_secs(90);

/// How long a run can take if a fault is injected.
const BROKEN: Duration = Duration::from_secs(20);

/// Of a thousand effects, the process dies after so many before it has stored the result.
const FALLS: u32 = 25;

const TICK: Duration = Duration::from_millis(5);

/// The settings of a cluster.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// The name of the command, for example `tasks`.
    pub(crate) name: &'a str,
    pub(crate) place: Place,
    /// The executable to use instead of building `task-worker`.
    pub(crate) binary: Option<&'a Path>,
    pub(crate) seed: Option<u64>,
    /// Whether the processes also have the tools of `chaos asking`.
    pub(crate) asking: bool,
    /// The fault of the processes, or null.
    pub(crate) breaks: Value,
}

/// A store, and the processes that use it.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The name of the store's server.
    pub(crate) engine: &'static str,
    pub(crate) seed: u64,
    /// The folder with the ledger and the logs.
    pub(crate) folder: PathBuf,
    /// The file in which the processes note what they do.
    pub(crate) ledger: PathBuf,
    pub(crate) fronts: Vec<SocketAddr>,
    pub(crate) host: Host,
    pub(crate) crew: Crew,
    pub(crate) rng: Rng,
}

impl Cluster {
    /// Starts the store's server, the front ends and the workers.
    pub(crate) fn start(setup: &Setup<'_>) -> Result<Self> {
        let project = Project::open()?;
        let binary = match setup.binary {
            Some(binary) => binary.to_path_buf(),
            None => project.build("lab", "task-worker", Profile::Dev)?,
        };
        let seed = setup.seed.unwrap_or_else(|| fastrand::u64(..));
        let mut rng = Rng::with_seed(seed);
        let (engine, place) = (setup.place.backend().engine(), setup.place.name());
        let folder = project.target.join("chaos").join(format!("{}-{place}", setup.name));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
        eprintln!("starting {place}, seed {seed}");
        let host = setup.place.start(&folder)?;
        let ledger = folder.join("ledger.jsonl");
        let plan = json!({
            "engine": engine.name(), "url": host.url(), "space": "chaos", "ledger": ledger, "falls": FALLS,
            "keys": format!("1={:032x}{:032x}", rng.u128(..), rng.u128(..)), "breaks": setup.breaks,
            "token": TOKEN, "asking": setup.asking,
        });
        let fronts = (0..crew::FRONTS).map(|_| server::free_address()).collect::<Result<Vec<_>>>()?;
        let crew = Crew::start(binary, plan, &folder.join("workers.log"), &fronts, rng.fork())?;
        Ok(Self { engine: place, seed, folder, ledger, fronts, host, crew, rng })
    }

    /// Waits until operators see no run at work and `is_done` returns true, but not for long. Returns the runs that
    /// operators still see at work.
    pub(crate) fn follow(
        &mut self,
        is_broken: bool,
        mut is_done: impl FnMut() -> Result<bool>,
    ) -> Result<Vec<String>> {
        let limit = if is_broken { BROKEN } else { FOLLOW };
        let start = Instant::now();
        let mut stranded = vec!["no front end listed the runs".to_owned()];
        while start.elapsed() < limit {
            for _ in 0..100 {
                thread::sleep(TICK);
                self.crew.check()?;
            }
            // A front end can have died just now.
            stranded = stranded_at(self.fronts[0]).unwrap_or(stranded);
            if stranded.is_empty() && is_done()? {
                break;
            }
        }
        Ok(stranded)
    }
}

/// Returns how long a client waits for the end of a run.
pub(crate) fn patience(is_broken: bool) -> Duration {
    if is_broken { BROKEN } else { PATIENCE }
}

/// Returns the runs that operators see as neither ended nor waiting for a user.
fn stranded_at(front: SocketAddr) -> Result<Vec<String>> {
    let (mut stranded, mut after) = (Vec::new(), String::new());
    loop {
        let mut request = Message::post(&front.to_string(), &[], Vec::new());
        request.start = format!("GET /runs?status=working&limit=100{after} HTTP/1.1");
        request.headers.push(("authorization".into(), format!("Bearer {TOKEN}")));
        request.headers.push(("connection".into(), "close".into()));
        let page = mcp::exchange_once(front, &request.to_bytes(), Duration::from_secs(10))?;
        let text = String::from_utf8_lossy(&page.body).into_owned();
        ensure!(page.status() == 200, "runs were listed with {}: {text}", page.status());
        let page: Value = serde_json::from_str(&text)?;
        let runs = page["runs"].as_array().into_iter().flatten();
        stranded.extend(runs.map(|run| format!("an operator sees a run that nobody works on: {run}")));
        let Some(next) = page["next"].as_str() else { return Ok(stranded) };
        // A cursor is the backend's own, and some have characters that a URL has not.
        after = next.bytes().fold("&after=".to_owned(), |after, byte| match byte {
            byte if byte.is_ascii_alphanumeric() => after + char::from(byte).encode_utf8(&mut [0; 4]),
            byte => format!("{after}%{byte:02X}"),
        });
    }
}
