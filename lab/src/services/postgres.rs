//! PostgreSQL, which refuses to run as root and wants a folder that is its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::engine::USER;
use crate::project;

/// A test runner starts many processes at once, each with a pool of its own.
const CONNECTIONS: &str = "max_connections=300";

/// Names the folder with the programs of another version than Debian's newest.
const FOLDER: &str = "ANTIPHON_TEST_POSTGRES_BIN";

/// The folder of `postgres` and `initdb`: the one that the variable names, else Debian's newest, else the first on the
/// path.
pub(super) fn binaries() -> Result<PathBuf> {
    let complete = |folder: &PathBuf| ["postgres", "initdb"].iter().all(|it| folder.join(it).is_file());
    let Some(found) = folders().find(complete) else {
        bail!("PostgreSQL was not found; install it with `apt-get install postgresql`, or use compose.yaml");
    };
    Ok(found)
}

/// A program of the server's version, else of the first version that has it.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let mut found = std::iter::once(binaries()?).chain(folders()).map(|folder| folder.join(name));
    found.find(|program| program.is_file()).with_context(|| {
        format!("`{name}` was not found; install it with `apt-get install postgresql-client`")
    })
}

/// The folders that can contain programs of PostgreSQL, the best first.
fn folders() -> impl Iterator<Item = PathBuf> {
    let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = std::env::split_paths(&path).collect();
    let chosen = std::env::var_os(FOLDER).map(PathBuf::from);
    chosen.into_iter().chain(debian.into_iter().rev().map(|(_, folder)| folder)).chain(path)
}

/// Makes a database in `folder`, or in a temporary one if `folder` is closed to the user it must run as.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf> {
    let home = user::home(folder)?;
    // The password is no secret, but a file is the one way that asks nobody.
    let password = home.join("password");
    fs::write(&password, USER).with_context(|| format!("could not write {}", password.display()))?;
    let mut command = Command::new(binaries()?.join("initdb"));
    command.args(["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"]);
    // Nothing of value is in it yet: what is written later is synchronised as always.
    command.arg("--no-sync").arg("--pwfile").arg(&password).arg("--pgdata").arg(home.join("data"));
    user::lower(&mut command, &home)?;
    let output = command.output().context("could not start `initdb`")?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}):\n{}",
        project::show(&command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(home)
}

/// Adds what `postgres` needs to serve the database in `home`.
pub(super) fn configure(command: &mut Command, home: &Path, port: &str) -> Result<()> {
    command.arg("-D").arg(home.join("data")).args(["-p", port, "-c", CONNECTIONS]);
    command.args(["-c", &format!("listen_addresses={}", Ipv4Addr::LOCALHOST)]);
    command.args(["-c", "unix_socket_directories="]);
    user::lower(command, home)
}

/// Whether it accepts connections.
pub(super) fn check(address: SocketAddr) -> Result<()> {
    let mut command = Command::new(program("pg_isready")?);
    command.args(["--host", &address.ip().to_string(), "--port", &address.port().to_string()]);
    let status = command.stdout(Stdio::null()).status().context("could not start `pg_isready`")?;
    ensure!(status.success(), "PostgreSQL accepts no connections yet");
    Ok(())
}

/// Returns the result of a query as text.
pub(super) fn query(address: SocketAddr, sql: &str) -> Result<String> {
    let mut psql = Command::new(program("psql")?);
    psql.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-U", USER]);
    psql.args(["-XAtq", "-d", "postgres", "-c", sql]).env("PGPASSWORD", USER);
    Ok(output(&mut psql)?.trim().to_owned())
}

/// Copies a running server to `home` as its standby.
pub(super) fn copy(from: SocketAddr, data: &Path, home: &Path) -> Result<()> {
    let (to, basebackup) = (home.join("data"), binaries()?.join("pg_basebackup"));
    let (address, port) = (from.ip().to_string(), from.port().to_string());
    let mut copy = Command::new(if basebackup.is_file() { basebackup.clone() } else { program("psql")? });
    copy.args(["-h", &address, "-p", &port, "-U", USER]).env("PGPASSWORD", USER);
    if basebackup.is_file() {
        copy.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(&to);
    } else {
        // Packages for programs that bring their own server have no `pg_basebackup`, and that of another version refuses.
        let (data, to) = (data.display(), to.display());
        copy.args(["-XAtq", "-d", "postgres", "-v", "ON_ERROR_STOP=1"]);
        copy.args(["-c", "select pg_backup_start('copy', true)"]);
        // Files of the server can vanish during the copy.
        copy.args(["-c", &format!("\\! mkdir -m 700 {to} && cp -a {data}/. {to} 2> {to}.log")]);
        copy.args(["-c", &format!("\\! rm -f {to}/postmaster.pid && touch {to}/standby.signal")]);
        copy.args(["-c", &format!("\\o {to}/backup_label")]);
        copy.args(["-c", "select labelfile from pg_backup_stop()"]);
        let connection =
            format!("primary_conninfo = 'host={address} port={port} user={USER} password={USER}'");
        copy.args(["-c", &format!("\\! echo \"{connection}\" >> {to}/postgresql.auto.conf")]);
    }
    lower(&mut copy, home)?;
    output(&mut copy).map(drop)
}

/// Runs a command that must succeed, and returns its output.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("could not start `{}`", project::show(command)))?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}):\n{}",
        project::show(command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) use self::user::{home, lower};

#[cfg(unix)]
mod user {
    //! Whom PostgreSQL runs as when we are root.

    use std::fs::{self, DirBuilder};
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
    use std::os::unix::process::CommandExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use anyhow::{Context as _, Result};

    /// User and group.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct User(u32, u32);

    /// `folder`, or a temporary one that the user can reach, given to that user.
    pub(in super::super) fn home(folder: &Path) -> Result<PathBuf> {
        let us = owner(folder)?;
        if us.0 != 0 {
            return Ok(folder.to_path_buf());
        }
        let found = others()?.into_iter().next();
        let User(user, group) = found
            .context("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`")?;
        let mut probe = Command::new("true");
        probe.uid(user).gid(group).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        let home = if probe.status().is_ok_and(|it| it.success()) {
            folder.to_path_buf()
        } else {
            let home = std::env::temp_dir().join(format!("antiphon-postgres-{:016x}", fastrand::u64(..)));
            // Fails if somebody was there before us.
            let made = DirBuilder::new().mode(0o700).create(&home);
            made.with_context(|| format!("could not create {}", home.display()))?;
            home
        };
        chown(&home, Some(user), Some(group))
            .with_context(|| format!("could not give {} away", home.display()))?;
        Ok(home)
    }

    /// Lets `command` run in `home`, as the user it was given to.
    pub(in super::super) fn lower(command: &mut Command, home: &Path) -> Result<()> {
        command.current_dir(home);
        let owner = owner(home)?;
        if others()?.contains(&owner) {
            command.uid(owner.0).gid(owner.1);
        }
        Ok(())
    }

    fn owner(folder: &Path) -> Result<User> {
        let data = fs::metadata(folder).with_context(|| format!("could not read {}", folder.display()))?;
        Ok(User(data.uid(), data.gid()))
    }

    /// Whom root may let it run as, the best first.
    fn others() -> Result<Vec<User>> {
        let passwd = fs::read_to_string("/etc/passwd").context("could not read /etc/passwd")?;
        Ok(["postgres", "nobody"].into_iter().filter_map(|name| find(&passwd, name)).collect())
    }

    fn find(passwd: &str, name: &str) -> Option<User> {
        let fields = |line: &str| line.split(':').map(String::from).collect::<Vec<_>>();
        let line = passwd.lines().map(fields).find(|it| it.first().is_some_and(|it| it == name))?;
        Some(User(line.get(2)?.parse().ok()?, line.get(3)?.parse().ok()?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_user_is_found_by_its_whole_name() {
            let passwd = "root:x:0:0:root:/root:/bin/bash\npostgres2:x:5:6::/:/bin/sh\npostgres:x:101:104::/:/bin/sh\n";
            let User(user, group) = find(passwd, "postgres").unwrap();
            assert_eq!((user, group), (101, 104));
            assert!(find(passwd, "nobody").is_none());
        }
    }
}

#[cfg(not(unix))]
mod user {
    //! Where there is no root, there is nobody to become.

    use std::path::{Path, PathBuf};
    use std::process::Command;

    use anyhow::Result;

    pub(in super::super) fn home(folder: &Path) -> Result<PathBuf> {
        Ok(folder.to_path_buf())
    }

    pub(in super::super) fn lower(command: &mut Command, home: &Path) -> Result<()> {
        command.current_dir(home);
        Ok(())
    }
}
