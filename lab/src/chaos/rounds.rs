//! Clients, killers and a key rotation, all at once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};

use super::Options;
use super::fleet::Fleet;
use super::ledger::Audit;
use super::proxy::Proxy;
use super::story::{Answer, Effects, Next, Plot, Story};
use crate::mcp::{self, Connection};
use crate::project::{Profile, Project};
use crate::services::Host;
use crate::table::Table;

const REPLICAS: usize = 3;
/// How likely, at each round, a client kills a replica, sends twice, or sends an old request again.
const KILL: f64 = 0.04;
const DUPLICATE: f64 = 0.2;
const STALE: f64 = 0.2;
/// How often the leader of a topology fails.
const FAILURES: u64 = 3;

/// Runs the whole thing and prints what happened.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let is_shared = options.store.is_some() || options.topology.is_some();
    ensure!(is_shared || !options.single_use, "`--single-use` needs `--store` or `--topology`");
    let (plot, example) = if is_shared { (Plot::Checkout, "checkout") } else { (Plot::Trip, "tour") };
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build(example, example, Profile::Dev)?,
    };
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let (old, new) = (key(&mut rng), key(&mut rng));
    let folder = project.target.join("chaos");
    let (log, ledger) = (folder.join(format!("{example}.log")), folder.join(format!("{example}.ledger")));
    // They grow over restarts within a run; the last run's are of no use any more.
    let _ = std::fs::remove_file(&log);
    let _ = std::fs::remove_file(&ledger);
    let mut host = start_host(options, &folder.join("rounds"))?;
    let extra = host.as_ref().map_or_else(Vec::new, |host| shared(host, &ledger, options.single_use));
    let fleet = Fleet::start(binary, log.clone(), REPLICAS, format!("1={old}"), extra)?;
    let proxy = Proxy::start(fleet.addresses.clone())?;
    let arena = Arena {
        plot,
        fleet,
        proxy,
        tally: Tally::default(),
        next_run: AtomicU64::new(0),
        over: AtomicBool::new(false),
        runs: options.runs,
        bar: progress_bar(options.runs),
    };

    let start = Instant::now();
    let outcome = thread::scope(|scope| {
        let killer_rng = rng.fork();
        let killer = scope.spawn(|| arena.kill_at_random(killer_rng));
        let rotation = scope.spawn(|| arena.rotate_keys(&old, &new));
        let failing = host.as_mut().filter(|_| options.topology.is_some());
        let failover = scope.spawn(|| failing.map_or(Ok(()), |host| arena.fail_leader(host)));
        let clients: Vec<_> = (0..options.clients.max(1))
            .map(|_| {
                let rng = rng.fork();
                scope.spawn(|| arena.be_a_client(rng))
            })
            .collect();
        let clients: Vec<Result<()>> = clients.into_iter().map(join).collect();
        arena.over.store(true, Ordering::Relaxed);
        clients.into_iter().chain([join(killer), join(rotation), join(failover)]).collect::<Result<()>>()
    });
    arena.bar.finish_and_clear();
    let audit = match plot {
        Plot::Trip => None,
        Plot::Checkout => Some(Audit::of(&ledger, &lock(&arena.tally.effects))?),
    };
    arena.report(seed, start.elapsed(), audit.as_ref());
    let failures = host.as_ref().map_or(0, |host| host.restarts);
    host.map_or(Ok(()), Host::end)?;
    outcome?;
    if options.topology.is_some() {
        println!("The server that accepts writes failed {failures} times.");
        ensure!(failures > 0, "no server failed; ask for more runs");
    }
    arena.tally.judge(options.runs, audit.as_ref()).map_err(|error| {
        anyhow::anyhow!(
            "{error}; repeat with `--seed {seed}`, or read what the servers wrote in {}",
            log.display()
        )
    })
}

/// Starts the servers whose store the replicas share, if they share one.
fn start_host(options: &Options, folder: &Path) -> Result<Option<Host>> {
    if let Some(topology) = options.topology {
        let host = Host::start_topology(topology, folder)?;
        return Ok(Some(match options.fault {
            Some(fault) => host.with_fault(fault),
            None => host,
        }));
    }
    options.store.map(|store| Host::start(store.engine(), folder, store.settings())).transpose()
}

/// What replicas are told that share a store.
fn shared(host: &Host, ledger: &Path, single_use: bool) -> Vec<String> {
    let mut extra = vec!["--store".into(), host.url(), "--ledger".into(), ledger.display().to_string()];
    // A replica that is killed is waited for in vain; here nobody thinks for seconds.
    extra.extend(["--beat-ms".into(), "100".into()]);
    extra.extend(single_use.then(|| "--single-use".into()));
    extra
}

#[derive(Debug)]
struct Arena {
    plot: Plot,
    fleet: Fleet,
    proxy: Proxy,
    tally: Tally,
    next_run: AtomicU64,
    over: AtomicBool,
    runs: u64,
    bar: ProgressBar,
}

#[derive(Debug, Default)]
struct Tally {
    rounds: AtomicU64,
    duplicates: AtomicU64,
    stale: AtomicU64,
    rotations: AtomicU64,
    completed: AtomicU64,
    lost: AtomicU64,
    wrong: AtomicU64,
    complaints: Mutex<Vec<String>>,
    /// What the world must have seen.
    effects: Mutex<Vec<Effects>>,
}

/// Why a run did not come to its right end.
#[derive(Debug)]
enum Failure {
    /// No answer, or an error, where there should have been an answer.
    Lost(anyhow::Error),
    /// An answer that is not the right one.
    Wrong(anyhow::Error),
}

impl Arena {
    fn be_a_client(&self, mut rng: Rng) -> Result<()> {
        let mut client = Client { connection: Connection::new(self.proxy.address), arena: self, id: 0 };
        loop {
            let number = self.next_run.fetch_add(1, Ordering::Relaxed);
            if number >= self.runs || self.over.load(Ordering::Relaxed) {
                return Ok(());
            }
            match client.run(number, &mut rng)? {
                Ok(()) => count(&self.tally.completed),
                Err(failure) => self.tally.note(number, &failure),
            }
            self.bar.inc(1);
        }
    }

    /// Kills while requests are on their way, with no regard to what the clients do.
    fn kill_at_random(&self, mut rng: Rng) -> Result<()> {
        while !self.over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(rng.u64(20..200)));
            self.kill_one(&mut rng)?;
        }
        Ok(())
    }

    fn kill_one(&self, rng: &mut Rng) -> Result<()> {
        let pause = Duration::from_millis(rng.u64(0..30));
        let killed = self.fleet.kill(rng.usize(..REPLICAS), pause);
        if killed.is_err() {
            self.over.store(true, Ordering::Relaxed);
        }
        killed
    }

    /// Half way through: first all replicas learn to open the new key, then all seal with it.
    fn rotate_keys(&self, old: &str, new: &str) -> Result<()> {
        while self.bar.position() < self.runs / 2 {
            if self.over.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.fleet.roll_out(&format!("1={old},2={new}"))?;
        self.fleet.roll_out(&format!("2={new},1={old}"))?;
        count(&self.tally.rotations);
        Ok(())
    }

    /// Lets the server that accepts writes fail, at even intervals of the runs.
    fn fail_leader(&self, host: &mut Host) -> Result<()> {
        for failure in 1..=FAILURES {
            while self.bar.position() < self.runs * failure / (FAILURES + 1) {
                thread::sleep(Duration::from_millis(20));
                if self.over.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            if self.over.load(Ordering::Relaxed) {
                return Ok(());
            }
            host.restart(host.next_fault(), Duration::from_secs(1), false)?;
        }
        Ok(())
    }

    fn report(&self, seed: u64, time: Duration, audit: Option<&Audit>) {
        let tally = &self.tally;
        let mut table = Table::new(["chaos rounds", ""]);
        let rows = [
            ("seed", seed),
            ("replicas", REPLICAS as u64),
            ("runs", self.runs),
            ("rounds", read(&tally.rounds)),
            ("kills", read(&self.fleet.kills)),
            ("attempts on a dead replica", self.proxy.retries()),
            ("duplicates", read(&tally.duplicates)),
            ("stale", read(&tally.stale)),
            ("rotations", read(&tally.rotations)),
            ("completed", read(&tally.completed)),
            ("lost", read(&tally.lost)),
            ("wrong answers", read(&tally.wrong)),
        ];
        let audited = audit.map(|audit| {
            [
                ("effects", audit.effects),
                ("effects nobody knows of", audit.unknown),
                ("of those, happened", audit.unknown_happened),
                ("effects that are wrong", audit.problems.len() as u64),
            ]
        });
        for (name, value) in rows.into_iter().chain(audited.into_iter().flatten()) {
            table.row([name.into(), value.to_string()]);
        }
        table.row(["wall time".into(), format!("{:.1} s", time.as_secs_f64())]);
        println!("{table}");
        for complaint in
            lock(&tally.complaints).iter().chain(audit.iter().flat_map(|audit| &audit.problems)).take(20)
        {
            println!("{complaint}");
        }
    }
}

impl Tally {
    fn note(&self, run: u64, failure: &Failure) {
        const SHOWN: usize = 10;
        let text = match failure {
            Failure::Lost(error) => {
                count(&self.lost);
                format!("run {run} is lost: {error:#}")
            }
            Failure::Wrong(error) => {
                count(&self.wrong);
                format!("run {run} is wrong: {error:#}")
            }
        };
        let mut complaints = lock(&self.complaints);
        if complaints.len() < SHOWN {
            complaints.push(text);
        }
    }

    fn judge(&self, runs: u64, audit: Option<&Audit>) -> Result<()> {
        let (completed, lost, wrong) = (read(&self.completed), read(&self.lost), read(&self.wrong));
        ensure!(lost == 0 && wrong == 0, "{lost} runs were lost and {wrong} went wrong");
        let effects = audit.map_or(0, |audit| audit.problems.len());
        ensure!(effects == 0, "{effects} effects are not what the runs said");
        ensure!(completed == runs, "only {completed} of {runs} runs were made");
        ensure!(read(&self.rotations) == 1, "the keys were not rotated; ask for more runs");
        Ok(())
    }
}

#[derive(Debug)]
struct Client<'a> {
    connection: Connection,
    arena: &'a Arena,
    id: u64,
}

impl Client<'_> {
    /// One run to its end; the outer error is about our own tools, not about the servers.
    fn run(&mut self, number: u64, rng: &mut Rng) -> Result<Result<(), Failure>> {
        let mut story = Story::new(self.arena.plot, number);
        let mut params = story.opening();
        loop {
            if chance(rng, KILL) {
                self.arena.kill_one(rng)?;
            }
            match self.round(&mut story, params, rng) {
                Ok(Next::Send(next)) => params = next,
                Ok(Next::Done) => {
                    lock(&self.arena.tally.effects).push(story.effects());
                    return Ok(Ok(()));
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }

    fn round(
        &mut self,
        story: &mut Story,
        params: Map<String, Value>,
        rng: &mut Rng,
    ) -> Result<Next, Failure> {
        let tally = &self.arena.tally;
        let mut result = if chance(rng, DUPLICATE) {
            count(&tally.duplicates);
            self.send_twice(&params, rng)?
        } else {
            self.send(&params)?
        };
        count(&tally.rounds);
        // The last submission may be repeated too, hence after telling.
        let next = story.tell(params, &result).map_err(Failure::Wrong)?;
        if chance(rng, STALE) {
            count(&tally.stale);
            let (old, before) = &story.rounds()[rng.usize(..story.rounds().len())];
            result = self.send(old)?;
            same(before, &Answer::of(&result).map_err(Failure::Wrong)?, "a stale submission")?;
        }
        Ok(next)
    }

    /// The same request twice, at the same time or one after the other; goes on with either answer.
    fn send_twice(&mut self, params: &Map<String, Value>, rng: &mut Rng) -> Result<Value, Failure> {
        let (first, second) = if rng.bool() {
            let mut twin = Client { connection: Connection::new(self.arena.proxy.address), ..*self };
            thread::scope(|scope| {
                let second = scope.spawn(move || twin.send(params));
                let first = self.send(params);
                let second = second.join();
                let second =
                    second.unwrap_or_else(|_| Err(Failure::Lost(anyhow::anyhow!("a client panicked"))));
                (first, second)
            })
        } else {
            (self.send(params), self.send(params))
        };
        let (first, second) = (first?, second?);
        let answers = [Answer::of(&first), Answer::of(&second)];
        let [one, other] = answers.map(|answer| answer.map_err(Failure::Wrong));
        same(&one?, &other?, "a duplicate")?;
        Ok(if rng.bool() { first } else { second })
    }

    fn send(&mut self, params: &Map<String, Value>) -> Result<Value, Failure> {
        self.id += 1;
        let host = self.arena.proxy.address.to_string();
        let request = mcp::tool_call(mcp::MODERN, &host, self.id, params.clone());
        let response = self.connection.exchange(&request.to_bytes()).context("no answer from the proxy");
        response.and_then(|response| mcp::result(&response)).map_err(Failure::Lost)
    }
}

/// One submission may find out that nobody can know what another still knew.
fn same(before: &Answer, now: &Answer, what: &str) -> Result<(), Failure> {
    if before == now || before.is_unknown() || now.is_unknown() {
        return Ok(());
    }
    Err(Failure::Wrong(anyhow::anyhow!("{what} was answered with {now:?}, the original with {before:?}")))
}

fn chance(rng: &mut Rng, probability: f64) -> bool {
    rng.f64() < probability
}

fn key(rng: &mut Rng) -> String {
    format!("{:032x}{:032x}", rng.u128(..), rng.u128(..))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn join(thread: thread::ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread of the chaos panicked")))
}

fn progress_bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed}, {eta} left");
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
