//! `cargo xtask studio`: a game and an approval on the studio page, in a real browser, against a real model.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};

use crate::http::Message;
use crate::models::Models;
use crate::project::{self, Profile, Project};
use crate::server::{self, Server};
use crate::services::Session;

/// Where the browser is, if `CHROMIUM` does not say so.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Options of `cargo xtask studio`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Play against the `play_ttt` at this address instead of starting one.
    #[arg(long)]
    server: Option<String>,
    /// Keep the pictures in `docs/images`, for the guide.
    #[arg(long)]
    keep: bool,
}

/// Plays a game and approves a refund by clicks, and looks at the page on the way.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let Some(browser) = browser() else {
        let wanted =
            "a browser is needed: install Chromium (Debian: `apt install chromium`), or set CHROMIUM";
        ensure!(env::var_os("CI").is_none(), "{wanted}");
        eprintln!("skipped: {wanted}");
        return Ok(());
    };
    let scripts = project.root.join("lab").join("conformance").join("studio");
    project::npm_install(&scripts)?;
    let antiphon = project.build("antiphon-cli", "antiphon", Profile::Dev)?;
    let reports = project.target.join("studio");
    fs::create_dir_all(&reports).with_context(|| format!("could not create {}", reports.display()))?;
    let game = match options.server {
        Some(_) => None,
        None => Some(Game::start(&project, &reports)?),
    };
    let address = options.server.clone().or_else(|| game.as_ref().map(Game::url));
    let refunds = refunds(&project, &reports)?;
    let refund = format!("http://{}/mcp", in_turn(refunds.iter().map(Server::address).collect())?);
    let (models, missing) = Models::start(&project);
    let model = models.smollm2().with_context(|| match missing.first() {
        Some(missing) => missing.to_string(),
        None => "SmolLM2 is not served".to_owned(),
    })?;
    let studio = Studio::start(&antiphon, &model, &reports)?;
    let images = if options.keep { project.root.join("docs").join("images") } else { reports.clone() };
    fs::create_dir_all(&images).with_context(|| format!("could not create {}", images.display()))?;
    let mut drive = Command::new("node");
    drive.arg(scripts.join("drive.mjs")).arg(&studio.url).args(address).arg(refund).arg(&images);
    let driven = project::run(drive.env("CHROMIUM", browser).env("ANTIPHON", &antiphon));
    // The address has the token, and is of no use to anybody once the studio has ended.
    drop(studio);
    driven.with_context(|| format!("the page is not as it should be; pictures are in {}", images.display()))
}

/// Two replicas of the game behind a proxy that asks them in turn, with a store between them.
struct Game {
    address: SocketAddr,
    _replicas: Vec<Server>,
    _services: Session,
}

impl Game {
    fn start(project: &Project, reports: &Path) -> Result<Self> {
        let binary = project.build("play_ttt", "play_ttt", Profile::Dev)?;
        let services = Session::start(project)?;
        let store = services.variables().find(|(name, _)| *name == STORE);
        let store = store.map(|(_, url)| url).or_else(|| env::var(STORE).ok());
        let store = store.with_context(|| format!("there is no store: {STORE} is not set"))?;
        let replicas = replicas(&binary, &["--store", &store], reports)?;
        let address = in_turn(replicas.iter().map(Server::address).collect())?;
        Ok(Self { address, _replicas: replicas, _services: services })
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

/// Two replicas of the example with an approval. They share keys, and need no store.
fn refunds(project: &Project, reports: &Path) -> Result<Vec<Server>> {
    replicas(&project.build("refund", "refund", Profile::Dev)?, &[], reports)
}

/// Two processes of one program with the same keys.
fn replicas(binary: &Path, extra: &[&str], reports: &Path) -> Result<Vec<Server>> {
    let keys = format!("1={}", "5a".repeat(32));
    let program = binary.file_stem().unwrap_or_default().to_string_lossy();
    let start = |name: &str| {
        let extra = [extra, &["--keys", keys.as_str(), "--replica", name]].concat();
        let extra: Vec<String> = extra.into_iter().map(ToOwned::to_owned).collect();
        let log = reports.join(format!("{program}-{name}.log"));
        Server::start(binary, server::free_address()?, &extra, &log)
    };
    ["replica-a", "replica-b"].into_iter().map(start).collect()
}

/// Listens, and hands each request to the next replica. What is answered goes through as it comes, because a stream of
/// events may never end. Its threads end with the process.
fn in_turn(replicas: Vec<SocketAddr>) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the proxy")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for (client, replica) in listener.incoming().flatten().zip(replicas.iter().copied().cycle()) {
            // A client that hangs up ends its thread; nobody waits for the outcome.
            thread::spawn(move || forward(client, replica));
        }
    });
    Ok(address)
}

/// One request a connection, so that the next one goes elsewhere.
fn forward(client: TcpStream, replica: SocketAddr) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let Some(mut request) = Message::read(&mut client)? else { return Ok(()) };
    request.headers.retain(|(name, _)| name != "host" && name != "connection");
    request.headers.push(("host".to_owned(), replica.to_string()));
    request.headers.push(("connection".to_owned(), "close".to_owned()));
    let mut upstream = TcpStream::connect(replica)?;
    request.write(&mut upstream)?;
    io::copy(&mut upstream, client.get_mut())?;
    client.get_ref().shutdown(Shutdown::Both)
}

/// Where the replicas' store is.
const STORE: &str = "ANTIPHON_TEST_REDIS_URL";

/// The browser's program.
pub(crate) fn browser() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let paths = env::var_os("PATH")?;
    let mut folders = env::split_paths(&paths).flat_map(|folder| BROWSERS.map(|name| folder.join(name)));
    folders.find(|program| program.is_file())
}

/// An `antiphon studio` that ends with us.
#[derive(Debug)]
struct Studio {
    child: Child,
    url: String,
}

impl Studio {
    fn start(antiphon: &Path, model: &str, reports: &Path) -> Result<Self> {
        let log = reports.join("studio.log");
        // A folder of our own: what the person has configured is no part of this.
        let config = reports.join("config");
        let mut child = Command::new(antiphon)
            .args(["studio", "--no-open", "--model", "smollm2", "--model-url", &format!("{model}/v1")])
            .env("ANTIPHON_CONFIG_DIR", &config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(server::log_file(&log)?)
            .spawn()
            .with_context(|| format!("could not start {}", antiphon.display()))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut studio = Self { child, url: String::new() };
        BufReader::new(stdout).read_line(&mut studio.url)?;
        studio.url.truncate(studio.url.trim_end().len());
        if !studio.url.starts_with("http://127.0.0.1:") {
            bail!("the studio ended before it listened; it wrote:\n{}", server::tail(&log));
        }
        Ok(studio)
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        // Both fail only when the process has ended by itself, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
