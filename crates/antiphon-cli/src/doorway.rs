//! Opens a web page in the browser, if the URL of the page contains a secret.
//!
//! All users of the machine can read a program's arguments, so the URL must not be an argument. The browser opens a
//! file that only the user can read, and the file redirects the browser to the URL.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Result;

/// A folder with a file that redirects to the web page. Dropping a `Doorway` deletes the folder and the file.
pub(crate) struct Doorway {
    folder: PathBuf,
}

impl Doorway {
    /// Opens a URL in the user's browser. The URL must have the form that [`url::Url`] prints, without quotes and angle
    /// brackets, which are special in HTML.
    pub(crate) fn open(url: &str, title: &str) -> Result<Self> {
        let mut name = [0; 8];
        getrandom::fill(&mut name)?;
        let folder = std::env::temp_dir().join(format!("antiphon-studio-{:016x}", u64::from_be_bytes(name)));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // This call fails if the folder exists. So if the call succeeds, no other user created the folder.
        builder.create(&folder)?;
        let doorway = Self { folder };
        let file = doorway.folder.join("open.html");
        write(&file, url, title)?;
        browse(&file)?;
        Ok(doorway)
    }

    /// Keeps the file, for a browser that opens the file after the CLI has ended.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        // If the deletion fails, the file stays. The file is harmless, because the token in the file is no longer
        // valid.
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
