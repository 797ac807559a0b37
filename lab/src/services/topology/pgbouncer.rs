use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::super::engine::{self, USER};
use super::super::host::Stop;
use super::super::postgres;
use super::node::Node;
use super::{Servers, until};
use crate::project;
use crate::server;

/// The first version that supports prepared statements in transaction mode.
const OLDEST: (u32, u32) = (1, 21);

/// A PostgreSQL server behind `PgBouncer`, which gives each transaction any of its connections.
#[derive(Debug)]
pub(super) struct Pooled {
    server: Node,
    pooler: Node,
    homes: [PathBuf; 2],
}

impl Pooled {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let program = engine::find("pgbouncer", "pgbouncer")?;
        let version = project::read(Command::new(&program).arg("--version"))?;
        let found = read_version(&version).with_context(|| format!("not a version: {version}"))?;
        ensure!(found >= OLDEST, "PgBouncer {found:?} is too old; PgBouncer {OLDEST:?} or newer is needed");
        let make = |name: &str| {
            let home = folder.join(name);
            fs::create_dir_all(&home).with_context(|| format!("could not create {}", home.display()))?;
            Ok::<_, anyhow::Error>(home)
        };
        let data = postgres::prepare(&make("node-0")?)?;
        let server = super::postgres::start(data.clone())?;
        until("PostgreSQL does not start", || postgres::check(server.address).map(Some))?;

        let home = postgres::home(&make("pgbouncer")?)?;
        let address = server::free_address()?;
        let (users, settings) = (home.join("users"), home.join("pgbouncer.ini"));
        fs::write(&users, format!("\"{USER}\" \"{USER}\"\n"))?;
        let text = format!(
            "[databases]\npostgres = host={} port={} dbname=postgres\n[pgbouncer]\nlisten_addr = {}\n\
             listen_port = {}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\n\
             pool_mode = transaction\nmax_prepared_statements = 200\ndefault_pool_size = 50\n\
             max_client_conn = 2000\nignore_startup_parameters = extra_float_digits\n",
            server.address.ip(),
            server.address.port(),
            address.ip(),
            address.port(),
            users.display()
        );
        fs::write(&settings, text)?;
        let here = home.clone();
        let pooler = Node::start(address, &home, move || {
            let mut command = Command::new(&program);
            command.arg(&settings);
            postgres::lower(&mut command, &here)?;
            Ok(command)
        })?;
        let pooled = Self { server, pooler, homes: [data, home] };
        pooled.wait_until_ready()?;
        Ok(pooled)
    }

    fn wait_until_ready(&self) -> Result<()> {
        until("PgBouncer does not start", || postgres::query(self.pooler.address, "select 1").map(Some))?;
        Ok(())
    }
}

impl Servers for Pooled {
    fn url(&self) -> String {
        // Notifications need a connection of their own, without the pooler.
        let direct = format!("postgres%3A%2F%2F{USER}%3A{USER}%40{}%2Fpostgres", self.server.address);
        format!("postgres://{USER}:{USER}@{}/postgres?listen_url={direct}", self.pooler.address)
    }

    /// Stops the pooler. The server goes on.
    fn fail(&mut self, stop: Stop) -> Result<()> {
        self.pooler.stop(stop, "INT")
    }

    fn heal(&mut self) -> Result<()> {
        self.pooler.resume()?;
        self.wait_until_ready()
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        // Neither can fail in a way that matters here: the servers end with this, and so does the data.
        let _ = self.pooler.stop(Stop::Killed, "");
        let _ = self.server.stop(Stop::Killed, "");
        for home in &self.homes {
            let _ = fs::remove_dir_all(home);
        }
    }
}

/// Reads `1.24` from `PgBouncer 1.24.1`.
fn read_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split_whitespace().nth(1)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read() {
        assert_eq!(read_version("PgBouncer 1.18.0\nlibevent 2.1.12-stable\n"), Some((1, 18)));
        assert!(read_version("PgBouncer 1.24.1\n") > Some(OLDEST));
        assert_eq!(read_version("PgBouncer"), None);
    }
}
