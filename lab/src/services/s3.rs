//! S3, as moto plays it: a server in Python that forgets all when it ends.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::project::Project;
use crate::python::Python;

/// The server, installed beside its folder when it is not there.
pub(super) fn program(folder: &Path) -> Result<PathBuf> {
    let beside = folder.parent().context("a service lies in a folder")?;
    let environment = beside.join("s3-python");
    let requirements = Project::open()?.root.join("lab/conformance/s3/requirements.txt");
    Python::with_packages(&environment, &requirements, || eprintln!("installing moto, which plays S3"))?;
    Ok(environment.join("bin").join("moto_server"))
}

pub(super) fn configure(command: &mut Command, port: &str) {
    command.args(["--host", &Ipv4Addr::LOCALHOST.to_string(), "--port", port]);
}

/// Asks its own page, which makes nothing.
pub(super) fn check(mut stream: TcpStream) -> Result<()> {
    write!(stream, "GET /moto-api/ HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status).context("moto hung up")?;
    ensure!(status.ends_with(b" 200"), "moto answered {}", String::from_utf8_lossy(&status));
    Ok(())
}
