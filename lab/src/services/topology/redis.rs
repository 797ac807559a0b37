use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::super::engine::{self, USER};
use super::super::host::Stop;
use super::node::Node;
use super::{Servers, until};
use crate::server;

/// The name of the primary in the configuration of the Sentinels.
const NAME: &str = "antiphon";

/// A primary with a replica, and three Sentinels.
#[derive(Debug)]
pub(super) struct Sentinel {
    nodes: Vec<Node>,
    sentinels: Vec<Node>,
    stopped: usize,
}

impl Sentinel {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let program = engine::find("redis-server", "redis-server")?;
        let mut nodes: Vec<Node> = Vec::new();
        for number in 0..2 {
            let address = server::free_address()?;
            let data = folder.join(format!("node-{number}"));
            fs::create_dir_all(&data)?;
            let primary = nodes.first().map(|node| node.address.port().to_string());
            let (program, here) = (program.clone(), data.clone());
            nodes.push(Node::start(address, &data, move || {
                let mut command = Command::new(&program);
                command.args([
                    "--port",
                    &address.port().to_string(),
                    "--bind",
                    &Ipv4Addr::LOCALHOST.to_string(),
                ]);
                command.args(["--requirepass", USER, "--masterauth", USER, "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", "always"]);
                command.args(["--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0"]);
                command.arg("--dir").arg(&here);
                if let Some(primary) = &primary {
                    command.args(["--replicaof", &Ipv4Addr::LOCALHOST.to_string(), primary]);
                }
                Ok(command)
            })?);
        }
        let mut sentinels = Vec::new();
        for number in 0..3 {
            let address = server::free_address()?;
            let data = folder.join(format!("sentinel-{number}"));
            fs::create_dir_all(&data)?;
            let settings = data.join("sentinel.conf");
            // Sentinel writes what it learns into this file.
            let text = format!(
                "port {}\nbind {}\ndir {}\nrequirepass {USER}\nsentinel sentinel-pass {USER}\n\
                 sentinel monitor {NAME} {} {} 2\nsentinel auth-pass {NAME} {USER}\n\
                 sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 5000\n",
                address.port(),
                address.ip(),
                data.display(),
                nodes[0].address.ip(),
                nodes[0].address.port()
            );
            fs::write(&settings, text)?;
            let program = program.clone();
            sentinels.push(Node::start(address, &data, move || {
                let mut command = Command::new(&program);
                command.arg(&settings).arg("--sentinel");
                Ok(command)
            })?);
        }
        let topology = Self { nodes, sentinels, stopped: 1 };
        topology.wait_until_complete()?;
        Ok(topology)
    }

    /// Waits until the primary has a replica, and all Sentinels know that.
    fn wait_until_complete(&self) -> Result<()> {
        until("the replica has not copied the primary", || {
            let state = ask(self.primary()?, &["INFO", "replication"])?;
            Ok(state.contains("state=online").then_some(()))
        })?;
        for sentinel in &self.sentinels {
            until("the Sentinels do not agree", || {
                let fields = ask(sentinel.address, &["SENTINEL", "MASTER", NAME])?;
                let fields: Vec<_> = fields.lines().collect();
                let has = |name: &str, value: &str| {
                    fields.windows(2).any(|pair| pair[0] == name && pair[1] == value)
                };
                let is_complete =
                    has("num-other-sentinels", "2") && has("num-slaves", "1") && has("flags", "master");
                Ok(is_complete.then_some(()))
            })?;
        }
        Ok(())
    }

    fn primary(&self) -> Result<SocketAddr> {
        let answer = ask(self.sentinels[0].address, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        let mut lines = answer.lines();
        let (host, port) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        format!("{host}:{port}").parse().with_context(|| format!("Sentinel named no primary: {answer}"))
    }
}

impl Servers for Sentinel {
    fn url(&self) -> String {
        let others: Vec<_> =
            self.sentinels[1..].iter().map(|sentinel| format!("&node={}", sentinel.address)).collect();
        let first = self.sentinels[0].address;
        format!("redis://default:{USER}@{first}?sentinel={NAME}&sentinel_password={USER}{}", others.concat())
    }

    fn fail(&mut self, stop: Stop) -> Result<()> {
        let primary = self.primary()?;
        let found = self.nodes.iter().position(|node| node.address == primary);
        self.stopped = found.with_context(|| format!("Sentinel named a stranger, {primary}"))?;
        self.nodes[self.stopped].stop(stop, "INT")?;
        until("no replica took over", || {
            let now = self.primary()?;
            let role = ask(now, &["ROLE"])?;
            Ok((now != primary && role.starts_with("master")).then_some(()))
        })
    }

    fn heal(&mut self) -> Result<()> {
        self.nodes[self.stopped].resume()?;
        self.wait_until_complete()
    }
}

/// Sends a command, and returns the strings and numbers of the answer, one on each line.
pub(super) fn ask(address: SocketAddr, command: &[&str]) -> Result<String> {
    let patience = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let words: Vec<_> = command.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    write!(stream, "AUTH {USER}\r\n*{}\r\n{}", command.len(), words.concat())?;
    let mut reader = BufReader::new(stream);
    let mut said = String::new();
    read(&mut reader, &mut said)?;
    said.clear();
    read(&mut reader, &mut said)?;
    Ok(said)
}

fn read(reader: &mut BufReader<TcpStream>, said: &mut String) -> Result<()> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    let Some((kind, rest)) = line.split_at_checked(1) else { bail!("Redis closed the connection") };
    match kind {
        "*" => {
            for _ in 0..rest.parse::<i64>()?.max(0) {
                read(reader, said)?;
            }
        }
        "$" => {
            if let Ok(length) = usize::try_from(rest.parse::<i64>()?) {
                let mut bytes = vec![0; length + 2];
                reader.read_exact(&mut bytes)?;
                said.push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
            said.push('\n');
        }
        "-" => bail!("Redis: {rest}"),
        _ => {
            said.push_str(rest);
            said.push('\n');
        }
    }
    Ok(())
}
