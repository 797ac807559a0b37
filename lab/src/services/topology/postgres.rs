use std::mem;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::super::engine::USER;
use super::super::host::Stop;
use super::super::postgres;
use super::node::Node;
use super::switch::Switch;
use super::{Servers, until};
use crate::server;

/// What a server needs to have a standby.
const REPLICATION: [&str; 6] =
    ["-c", "wal_level=replica", "-c", "max_wal_senders=8", "-c", "wal_receiver_timeout=5s"];

/// A primary with a synchronous standby, and a proxy that leads to the primary.
///
/// After a failover, a new standby is copied from the new primary, as an operator would do it.
#[derive(Debug)]
pub(super) struct Pair {
    folder: PathBuf,
    primary: Node,
    standby: Option<Node>,
    /// A primary that was replaced, but still runs.
    former: Option<Node>,
    proxy: Switch,
    /// The folders of all servers so far. They can be outside of `folder`.
    homes: Vec<PathBuf>,
}

impl Pair {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let home = folder.join("node-0");
        std::fs::create_dir_all(&home)?;
        let home = postgres::prepare(&home)?;
        let primary = start(home.clone())?;
        wait_until_ready(primary.address)?;
        let proxy = Switch::start(primary.address)?;
        let mut topology = Self {
            folder: folder.to_path_buf(),
            primary,
            standby: None,
            former: None,
            proxy,
            homes: vec![home],
        };
        topology.heal()?;
        Ok(topology)
    }
}

impl Servers for Pair {
    fn url(&self) -> String {
        format!("postgres://{USER}:{USER}@{}/postgres", self.proxy.address)
    }

    fn fail(&mut self, stop: Stop) -> Result<()> {
        if stop == Stop::Cut {
            self.proxy.cut();
        } else {
            self.primary.stop(stop, "INT")?;
        }
        let standby = self.standby.take().context("there is no standby")?;
        let mut promote = Command::new(postgres::binaries()?.join("pg_ctl"));
        promote.args(["promote", "-w", "-D"]).arg(standby.folder.join("data"));
        postgres::lower(&mut promote, &standby.folder)?;
        postgres::output(&mut promote)?;
        // A former primary that runs acknowledges nothing, because it waits for its standby.
        self.former = Some(mem::replace(&mut self.primary, standby));
        if stop == Stop::Cut {
            self.proxy.aim(self.primary.address);
        } else {
            self.proxy.lead_to(self.primary.address);
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<()> {
        self.former = None;
        let home = self.folder.join(format!("node-{}", self.homes.len()));
        std::fs::create_dir_all(&home)?;
        let home = postgres::home(&home)?;
        self.homes.push(home.clone());
        let from = self.primary.address;
        postgres::copy(from, &self.primary.folder.join("data"), &home)?;
        self.standby = Some(start(home)?);
        until("the standby does not follow the primary", || {
            let found =
                postgres::query(from, "select count(*) from pg_stat_replication where state = 'streaming'")?;
            Ok((found == "1").then_some(()))
        })?;
        // From now on, a commit waits until the standby has written it.
        postgres::query(from, "alter system set synchronous_standby_names = '*'")?;
        postgres::query(from, "select pg_reload_conf()")?;
        until("the standby is not synchronous", || {
            let found =
                postgres::query(from, "select count(*) from pg_stat_replication where sync_state = 'sync'")?;
            Ok((found == "1").then_some(()))
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        (self.standby, self.former) = (None, None);
        // Neither can fail in a way that matters here: the servers end with this, and so does the data.
        let _ = self.primary.stop(Stop::Killed, "");
        for home in &self.homes {
            let _ = std::fs::remove_dir_all(home);
        }
    }
}

/// Starts a server on the data in `home`.
pub(super) fn start(home: PathBuf) -> Result<Node> {
    let address = server::free_address()?;
    let program = postgres::binaries()?.join("postgres");
    let folder = home.clone();
    Node::start(address, &folder, move || {
        let mut command = Command::new(&program);
        postgres::configure(&mut command, &home, &address.port().to_string())?;
        command.args(REPLICATION);
        Ok(command)
    })
}

fn wait_until_ready(address: SocketAddr) -> Result<()> {
    until("PostgreSQL does not start", || postgres::check(address).map(Some))
}
