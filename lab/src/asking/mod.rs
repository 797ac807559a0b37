//! `cargo xtask asking`: questions in hosts that do not show them. A browser answers the form of a server in scripted
//! hosts, and on the answer page.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::project::{self, Profile, Project};
use crate::server::{self, Server};
use crate::studio;

/// Options of `cargo xtask asking`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Test only this host profile, such as `content-only`.
    #[arg(long)]
    profile: Option<String>,
    /// Test only this tool: `onboard`, `pick`, `report` or `quiet`.
    #[arg(long)]
    tool: Option<String>,
    /// Write the screenshots to this folder instead of `target/asking`.
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
}

/// Calls every tool of `asking-server` in every host profile, and answers its questions in the form.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let Some(browser) = studio::browser() else {
        let wanted =
            "a browser is needed: install Chromium (Debian: `apt install chromium`), or set CHROMIUM";
        ensure!(env::var_os("CI").is_none(), "{wanted}");
        eprintln!("skipped: {wanted}");
        return Ok(());
    };
    let scripts = project.root.join("lab").join("conformance").join("asking");
    project::npm_install(&scripts)?;
    let binary = project.build("lab", "asking-server", Profile::Dev)?;
    let reports = project.target.join("asking");
    let pictures = options.pictures.as_ref().unwrap_or(&reports);
    for folder in [&reports, pictures] {
        fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    }
    let log = reports.join("server.log");
    // With short times, with the default times of `AskPolicy`, and with an answer page.
    let start = |flags: &[&str]| {
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        Server::start(&binary, server::free_address()?, &flags, &log)
    };
    let (server, defaults, page) = (start(&[])?, start(&["--defaults"])?, start(&["--page"])?);
    let mut drive = Command::new("node");
    drive.arg(scripts.join("drive.mjs")).arg(server.url()).arg(pictures);
    drive.arg("--defaults").arg(defaults.url()).arg("--page").arg(page.url());
    for (flag, value) in [("--profile", &options.profile), ("--tool", &options.tool)] {
        if let Some(value) = value {
            drive.arg(flag).arg(value);
        }
    }
    let driven = project::run(drive.env("CHROMIUM", browser));
    drop((server, defaults, page));
    driven.with_context(|| {
        format!(
            "a question did not reach its user; the log is {}, screenshots are in {}",
            log.display(),
            pictures.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Hosts load the form again for every question.
    const MAX_BYTES: usize = 20_000;

    fn form() -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        fs::read_to_string(root.join("crates/antiphon/src/asking/form.html")).unwrap()
    }

    #[test]
    fn form_is_small_and_has_one_place_for_its_view_key() {
        let form = form();
        assert!(form.len() < MAX_BYTES, "{} bytes", form.len());
        assert_eq!(form.matches("__VIEW_KEY__").count(), 1);
    }

    #[test]
    fn form_inserts_text_only_and_loads_nothing() {
        let form = form();
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "new Function",
            "document.write",
            "fetch(",
            "XMLHttpRequest",
            "import(",
            "window.open",
            "http://",
            "https://",
            "url(",
            "@import",
            "<form",
            "<a ",
            "<img",
            "<link",
            " src=",
            " href=",
            " style=",
            " onclick=",
        ] {
            assert!(!form.contains(forbidden), "{forbidden}");
        }
        assert_eq!((form.matches("<script").count(), form.matches("<style").count()), (1, 1));
    }
}
