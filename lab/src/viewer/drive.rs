//! `cargo xtask viewer test`: the page in a browser, against a server with millions of rows.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::project::{self, Profile, Project};
use crate::{server, studio};

/// Options of `cargo xtask viewer test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many rows there are to look at.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Keep the pictures in `docs/images`, for the guide.
    #[arg(long)]
    keep: bool,
    /// Build the server with optimisations, as it is deployed.
    #[arg(long)]
    release: bool,
}

/// Opens the page as a person would, and does everything on it that can be done.
pub(super) fn main(project: &Project, options: &Options) -> Result<()> {
    let Some(browser) = studio::browser() else {
        let wanted =
            "a browser is needed: install Chromium (Debian: `apt install chromium`), or set CHROMIUM";
        ensure!(env::var_os("CI").is_none(), "{wanted}");
        eprintln!("skipped: {wanted}");
        return Ok(());
    };
    let scripts = project.root.join("lab").join("conformance").join("viewer");
    project::npm_install(&scripts)?;
    let profile = if options.release { Profile::Named("bench-snapshot") } else { Profile::Dev };
    let binary = project.build("explore", "explore", profile)?;
    let reports = project.target.join("viewer");
    let images = if options.keep { project.root.join("docs").join("images") } else { reports.clone() };
    for folder in [&reports, &images] {
        fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    }
    eprintln!("writing {} rows", options.rows);
    let explore = Explore::start(&binary, options.rows, &reports)?;
    let mut drive = Command::new("node");
    drive.arg(scripts.join("drive.mjs")).arg(&explore.ready).arg(&images).arg(options.rows.to_string());
    // Over stdio, the driver starts another `explore` itself.
    let driven = project::run(drive.env("CHROMIUM", browser).env("EXPLORE", &binary));
    drop(explore);
    driven.with_context(|| format!("the page is not as it should be; pictures are in {}", images.display()))
}

/// The example `explore` on a port of its own, with its rows written. It ends with us.
#[derive(Debug)]
struct Explore {
    child: Child,
    /// Where everything is, as it said itself, in JSON.
    ready: String,
}

impl Explore {
    fn start(binary: &Path, rows: u64, reports: &Path) -> Result<Self> {
        let log = reports.join("explore.log");
        let data = reports.join("data");
        // What another run has left is of other rows.
        if data.exists() {
            fs::remove_dir_all(&data).with_context(|| format!("could not remove {}", data.display()))?;
        }
        let mut child = Command::new(binary)
            .args(["--listen", &server::free_address()?.to_string(), "--rows", &rows.to_string()])
            .arg("--data")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(server::log_file(&log)?)
            .spawn()
            .with_context(|| format!("could not start {}", binary.display()))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut explore = Self { child, ready: String::new() };
        BufReader::new(stdout).read_line(&mut explore.ready)?;
        explore.ready.truncate(explore.ready.trim_end().len());
        if !explore.ready.starts_with('{') {
            bail!("`explore` ended before it was ready; it wrote:\n{}", server::tail(&log));
        }
        Ok(explore)
    }
}

impl Drop for Explore {
    fn drop(&mut self) {
        // Both fail only when the process has ended by itself, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
