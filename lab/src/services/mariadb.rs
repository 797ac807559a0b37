//! MariaDB, which wants a folder made for it, and root to say who it is.

use std::fs;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::engine::{USER, find};
use crate::project;

/// Makes an empty database in `folder`, and notes what the server has to do when it starts.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    let init = init_file(folder);
    let text = format!(
        "CREATE DATABASE IF NOT EXISTS {USER};\n\
         CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{USER}';\n\
         GRANT ALL ON *.* TO '{USER}'@'%';\n"
    );
    fs::write(&init, text).with_context(|| format!("could not write {}", init.display()))?;
    let mut command = Command::new(find("mariadb-install-db", "mariadb-server")?);
    command.arg("--no-defaults").args(["--skip-test-db", "--auth-root-authentication-method=normal"]);
    command.arg(data(folder));
    lower(&mut command, folder)?;
    let output = command.output().context("could not start `mariadb-install-db`")?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}):\n{}{}",
        project::show(&command),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Adds what `mariadbd` needs to serve the database in `folder`.
pub(super) fn configure(command: &mut Command, folder: &Path, port: &str) -> Result<()> {
    // Must be the first: the machine may have settings of its own.
    command.arg("--no-defaults").arg(data(folder));
    command.arg(format!("--init-file={}", init_file(folder).display()));
    command.args([&format!("--port={port}"), &format!("--bind-address={}", Ipv4Addr::LOCALHOST)]);
    // Both are found in the folder of the data. The path of a socket must be short.
    command.args(["--socket=mariadb.sock", "--pid-file=mariadb.pid"]);
    // A test runner starts many processes at once, each with a pool of its own; and we hang up when we have
    // seen that it is ready, which it takes for an attack if it happens often.
    command.args(["--max-connections=300", "--max-connect-errors=1000000"]);
    command.args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]);
    lower(command, folder)
}

/// Whether it greets: it does when it has done what it was told to at the start.
pub(super) fn check(mut stream: TcpStream) -> Result<()> {
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).context("MariaDB does not greet yet")?;
    // Four bytes of length and number, then the version of the protocol. An error has 255 there.
    ensure!(greeting[4] == 10, "MariaDB refuses us yet");
    Ok(())
}

fn data(folder: &Path) -> String {
    format!("--datadir={}", folder.join("data").display())
}

fn init_file(folder: &Path) -> PathBuf {
    folder.join("init.sql")
}

/// As root it runs only if root is named: it is a private server, with nothing of value in it.
#[cfg(unix)]
fn lower(command: &mut Command, folder: &Path) -> Result<()> {
    let data = fs::metadata(folder).with_context(|| format!("could not read {}", folder.display()))?;
    if std::os::unix::fs::MetadataExt::uid(&data) == 0 {
        command.arg("--user=root");
    }
    Ok(())
}

#[cfg(not(unix))]
fn lower(_command: &mut Command, _folder: &Path) -> Result<()> {
    Ok(())
}
