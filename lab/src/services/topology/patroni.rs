use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::super::engine::{self, USER};
use super::super::host::Stop;
use super::super::postgres;
use super::super::process::{self, Process};
use super::node::Node;
use super::{Servers, get, until};
use crate::server;

/// Two PostgreSQL servers, one of them a synchronous standby. Patroni decides which of them is the primary, etcd stores
/// the decision, and `HAProxy` leads to the primary.
#[derive(Debug)]
pub(super) struct Patroni {
    members: Vec<Member>,
    proxy: Node,
    /// Patroni needs it until the end.
    _etcd: Node,
    home: PathBuf,
    stopped: usize,
}

/// A PostgreSQL server and its Patroni.
#[derive(Debug)]
struct Member {
    patroni: Node,
    /// Where Patroni says whether its server is the primary.
    rest: SocketAddr,
    data: PathBuf,
}

impl Patroni {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let home = folder.join("patroni");
        fs::create_dir_all(&home)?;
        let home = postgres::home(&home)?;
        let etcd = start_etcd(folder)?;
        let mut members = Vec::new();
        for number in 0..2 {
            members.push(Member::start(&home, number, etcd.address)?);
            // The first becomes the primary.
            until("no PostgreSQL server became the primary", || get(members[0].rest, "/primary").map(Some))?;
        }
        let proxy = start_proxy(folder, &members)?;
        let topology = Self { members, proxy, _etcd: etcd, home, stopped: 1 };
        topology.wait_until_complete()?;
        Ok(topology)
    }

    /// Waits until there is a synchronous standby, and the proxy leads to the primary.
    fn wait_until_complete(&self) -> Result<()> {
        until("there is no synchronous standby", || {
            let found = self.members.iter().any(|member| get(member.rest, "/sync").is_ok());
            Ok(found.then_some(()))
        })?;
        until("the proxy does not lead to the primary", || {
            let found = postgres::query(self.proxy.address, "select pg_is_in_recovery()")?;
            Ok((found == "f").then_some(()))
        })
    }

    fn primary(&self) -> Result<usize> {
        let found = self.members.iter().position(|member| get(member.rest, "/primary").is_ok());
        found.context("Patroni names no primary")
    }
}

impl Servers for Patroni {
    fn url(&self) -> String {
        format!("postgres://{USER}:{USER}@{}/postgres", self.proxy.address)
    }

    fn fail(&mut self, stop: Stop) -> Result<()> {
        self.stopped = self.primary()?;
        self.members[self.stopped].stop(stop)?;
        let others = 1 - self.stopped;
        until("no standby took over", || get(self.members[others].rest, "/primary").map(Some))?;
        Ok(())
    }

    fn heal(&mut self) -> Result<()> {
        let member = &mut self.members[self.stopped];
        member.resume()?;
        let log = member.patroni.log();
        self.wait_until_complete()
            .with_context(|| format!("the failed member wrote:\n{}", server::tail(&log)))
    }
}

impl Drop for Patroni {
    fn drop(&mut self) {
        for member in &mut self.members {
            // Neither can fail in a way that matters here: the servers end with this, and so does the data.
            let _ = member.stop(Stop::Killed);
        }
        let _ = fs::remove_dir_all(&self.home);
    }
}

impl Member {
    fn start(home: &Path, number: usize, etcd: SocketAddr) -> Result<Self> {
        let (rest, address) = (server::free_address()?, server::free_address()?);
        let data = home.join(format!("data-{number}"));
        let login = json!({ "username": USER, "password": USER });
        let settings = json!({
            "scope": "antiphon",
            "name": format!("n{number}"),
            "restapi": { "listen": rest.to_string(), "connect_address": rest.to_string() },
            "etcd3": { "host": etcd.to_string() },
            "bootstrap": {
                "dcs": {
                    // Patroni accepts no shorter time until it replaces a primary that does not respond.
                    "ttl": 20, "loop_wait": 2, "retry_timeout": 3,
                    "synchronous_mode": true,
                    "postgresql": {
                        "use_pg_rewind": true,
                        "parameters": { "wal_log_hints": "on", "max_connections": 300 },
                    },
                },
                "initdb": [{ "encoding": "UTF8" }, { "locale": "C" }, { "auth-host": "scram-sha-256" }],
            },
            "postgresql": {
                "listen": address.to_string(),
                "connect_address": address.to_string(),
                "data_dir": data,
                "bin_dir": postgres::binaries()?,
                "pgpass": home.join(format!("pgpass-{number}")),
                "authentication": { "superuser": login, "replication": login, "rewind": login },
                "parameters": {
                    "unix_socket_directories": home, "wal_receiver_timeout": "5s", "wal_sender_timeout": "5s",
                },
                "pg_hba": [
                    "local all all trust",
                    "host replication all 127.0.0.1/32 scram-sha-256",
                    "host all all 127.0.0.1/32 scram-sha-256",
                ],
            },
        });
        // JSON is also YAML.
        let file = home.join(format!("patroni-{number}.yml"));
        fs::write(&file, settings.to_string())?;
        let (program, here) = (engine::find("patroni", "patroni")?, home.to_path_buf());
        let log = home.join(format!("patroni-{number}"));
        let patroni = Node::start(address, &log, move || {
            let mut command = Command::new(&program);
            command.arg(&file);
            postgres::lower(&mut command, &here)?;
            Ok(command)
        })?;
        Ok(Self { patroni, rest, data })
    }

    /// Stops PostgreSQL and Patroni, as if their machine fails.
    fn stop(&mut self, stop: Stop) -> Result<()> {
        match stop {
            Stop::Asked => self.patroni.stop(stop, "TERM"),
            Stop::Killed | Stop::Stalled => {
                // PostgreSQL is no child of Patroni.
                let postmaster = self.postmaster();
                self.patroni.stop(stop, "")?;
                match postmaster {
                    Some(postmaster) if stop == Stop::Killed => process::kill_all(postmaster.pid),
                    Some(postmaster) => process::signal_all(postmaster.pid, "STOP"),
                    None => Ok(()),
                }
            }
            Stop::Cut => bail!("Patroni and PostgreSQL are on one machine here, so no network can be cut"),
        }
    }

    fn resume(&mut self) -> Result<()> {
        if let Some(postmaster) = self.postmaster() {
            process::signal_all(postmaster.pid, "CONT")?;
        }
        self.patroni.resume()
    }

    /// The process that PostgreSQL noted when it started, if that process runs.
    fn postmaster(&self) -> Option<Process> {
        let noted = fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        let pid = noted.lines().next()?.parse().ok()?;
        // Another process can have this number since.
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        String::from_utf8_lossy(&command).contains(self.data.to_str()?).then(|| Process::of(pid))?
    }
}

fn start_etcd(folder: &Path) -> Result<Node> {
    let program = engine::find("etcd", "etcd-server")?;
    let (address, peers) = (server::free_address()?, server::free_address()?);
    let data = folder.join("etcd");
    let here = data.clone();
    let etcd = Node::start(address, &data, move || {
        let (clients, peers) = (format!("http://{address}"), format!("http://{peers}"));
        let mut command = Command::new(&program);
        command.arg("--data-dir").arg(&here);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}")]);
        Ok(command)
    })?;
    until("etcd does not start", || get(address, "/health").map(Some))?;
    Ok(etcd)
}

fn start_proxy(folder: &Path, members: &[Member]) -> Result<Node> {
    let program = engine::find("haproxy", "haproxy")?;
    let address = server::free_address()?;
    let mut text = format!(
        "global\n  maxconn 1000\ndefaults\n  mode tcp\n  timeout connect 1s\n  retries 0\n  timeout client 1h\n  \
         timeout server 1h\n  timeout check 1s\nlisten postgres\n  bind {address}\n  \
         option httpchk GET /primary\n  http-check expect status 200\n  \
         default-server inter 500ms fastinter 250ms fall 2 rise 1 check on-marked-down shutdown-sessions\n"
    );
    for (number, member) in members.iter().enumerate() {
        let (to, check) = (member.patroni.address, member.rest.port());
        let _ = writeln!(text, "  server n{number} {to} port {check}");
    }
    let file = folder.join("haproxy.cfg");
    fs::write(&file, text)?;
    Node::start(address, &folder.join("haproxy"), move || {
        let mut command = Command::new(&program);
        command.arg("-db").arg("-f").arg(&file);
        Ok(command)
    })
}
