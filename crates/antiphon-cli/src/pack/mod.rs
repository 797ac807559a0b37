//! `antiphon pack`: creates an MCP bundle (`.mcpb`), which desktop hosts install.

mod manifest;

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use self::manifest::{Binary, Project};
use crate::{
    exit::{Misused, Outcome},
    global::App,
    print,
};

/// The file name of the icon, in the project and in the bundle.
const ICON: &str = "icon.png";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Create an MCP bundle (`.mcpb`) from the project in the working folder.
///
/// The bundle contains the program and a manifest from `Cargo.toml` and `server.json`. Desktop hosts such as Claude
/// Desktop install it. If the project has an `icon.png`, the bundle contains it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo build --release && antiphon pack
  antiphon pack --binary target/x86_64-pc-windows-msvc/release/desk.exe --out desk-windows.mcpb

A bundle contains the program for one platform. Create a bundle for each platform.")]
pub(crate) struct Pack {
    /// Set the program of the server [default: `target/release/NAME`].
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Set the bundle to write [default: `NAME-VERSION.mcpb`].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Pack {
    pub(crate) fn run(self, app: &App) -> Result<Outcome> {
        let project = Project::read(Path::new(""))?;
        let binary = self.binary(&project)?;
        let icon = icon()?;
        for warning in project.warnings() {
            eprintln!("warning: {warning}");
        }
        let manifest = project.manifest(&binary, icon.is_some().then_some(ICON));
        let out = self.out.unwrap_or_else(|| format!("{}-{}.mcpb", project.name, project.version).into());
        let unwritable = || format!("{} cannot be written", out.display());
        write(&out, &format!("{manifest:#}\n"), &binary, icon.as_deref()).with_context(unwritable)?;

        let bundle = fs::read(&out).with_context(unwritable)?;
        let digest: [u8; 32] = Sha256::digest(&bundle).into();
        let digest = hexadecimal(&digest);
        let (file, platform, bytes) = (out.display().to_string(), binary.platform, bundle.len());
        if app.json {
            let value = json!({
                "file": file,
                "platform": platform,
                "bytes": bytes,
                "sha256": digest,
                "manifest": manifest,
            });
            print::json(&format!("{value:#}"));
            return Ok(Outcome::Done);
        }
        eprintln!("created {file} for {platform}: {bytes} bytes");
        eprintln!("sha256: {digest}");
        eprintln!("next: open the file in Claude Desktop, or attach it to a release");
        Ok(Outcome::Done)
    }

    fn binary(&self, project: &Project) -> Result<Binary> {
        let built = || {
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
            target.join("release").join(format!("{}{}", project.name, std::env::consts::EXE_SUFFIX))
        };
        let path = self.binary.clone().unwrap_or_else(built);
        let shown = path.display();
        match head(&path) {
            Ok(head) => Ok(Binary::new(path, &project.name, &head)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message =
                    format!("{shown} does not exist; run `cargo build --release`, or pass `--binary`");
                Err(Misused(message).into())
            }
            Err(error) => Err(error).with_context(|| format!("{shown} cannot be read")),
        }
    }
}

/// Returns the first bytes of a file.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut head)?;
    Ok(head)
}

fn icon() -> Result<Option<Vec<u8>>> {
    match fs::read(ICON) {
        Ok(icon) if icon.starts_with(PNG) => Ok(Some(icon)),
        Ok(_) => Err(Misused(format!("{ICON} is not valid: hosts show PNG only; convert the file")).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{ICON} cannot be read")),
    }
}

/// Writes the bundle atomically. The modification time of the files in the bundle is constant, so the same files
/// produce the same bundle.
fn write(out: &Path, manifest: &str, binary: &Binary, icon: Option<&[u8]>) -> Result<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".antiphon-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The operating system removes the permissions in the umask.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let new = builder.tempfile_in(folder)?;
    let mut zip = ZipWriter::new(new.as_file());
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    zip.start_file("manifest.json", options.unix_permissions(0o644))?;
    zip.write_all(manifest.as_bytes())?;
    if let Some(icon) = icon {
        zip.start_file(ICON, options.unix_permissions(0o644))?;
        zip.write_all(icon)?;
    }
    zip.start_file(&binary.entry, options.unix_permissions(0o755))?;
    io::copy(&mut File::open(&binary.path)?, &mut zip)?;
    zip.finish()?;
    new.persist(out).map_err(io::Error::from)?;
    Ok(())
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
