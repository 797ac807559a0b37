//! The way from the command to the browser.
//!
//! A program's arguments can be read by everybody on the machine, and the page's address has a secret. So the browser
//! is given a file that only its owner can read, and the file sends it on.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Result;

/// A folder with a file that leads to the page. Both are gone when it is dropped.
pub(crate) struct Doorway {
    folder: PathBuf,
}

impl Doorway {
    /// Opens an address in the person's browser. It must be written as a [`url::Url`] writes it: without quotes and
    /// angles, which HTML would read as its own.
    pub(crate) fn open(url: &str, title: &str) -> Result<Self> {
        let mut name = [0; 8];
        getrandom::fill(&mut name)?;
        let folder = std::env::temp_dir().join(format!("antiphon-studio-{:016x}", u64::from_be_bytes(name)));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // Fails if it is there already, so it is ours.
        builder.create(&folder)?;
        let doorway = Self { folder };
        let file = doorway.folder.join("open.html");
        write(&file, url, title)?;
        browse(&file)?;
        Ok(doorway)
    }

    /// Leaves it, for a browser that is slower than we are.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        // What is left behind is a token that nobody takes any more.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn write(file: &Path, url: &str, title: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let url = url.replace('&', "&amp;");
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<title>{title}</title>\n\
         <p><a href=\"{url}\">{title}</a></p>\n"
    );
    Ok(options.open(file)?.write_all(page.as_bytes())?)
}

fn browse(file: &Path) -> Result<()> {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let mut command = tokio::process::Command::new(program);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(())
}
