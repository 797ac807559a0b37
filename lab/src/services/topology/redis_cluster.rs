use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::super::engine::{self, USER};
use super::super::host::Stop;
use super::node::Node;
use super::redis::ask;
use super::{Servers, until};
use crate::project;
use crate::server;

/// Three primaries, each with a replica.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Vec<Node>,
    stopped: usize,
}

/// A primary that has slots, as another node sees it.
#[derive(Debug, PartialEq)]
struct Primary {
    address: SocketAddr,
    has_failed: bool,
}

impl Cluster {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let program = engine::find("redis-server", "redis-server")?;
        let mut nodes = Vec::new();
        for number in 0..6 {
            let (address, bus) = (server::free_address()?, server::free_address()?);
            let data = folder.join(format!("node-{number}"));
            fs::create_dir_all(&data)?;
            let (program, here) = (program.clone(), data.clone());
            nodes.push(Node::start(address, &data, move || {
                let (port, bus) = (address.port().to_string(), bus.port().to_string());
                let host = Ipv4Addr::LOCALHOST.to_string();
                let mut command = Command::new(&program);
                command.args(["--port", &port, "--cluster-port", &bus, "--bind", &host]);
                command.args(["--requirepass", USER, "--masterauth", USER, "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", "always"]);
                command.args(["--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0"]);
                command.args(["--cluster-enabled", "yes", "--cluster-announce-ip", &host]);
                command.args(["--cluster-node-timeout", "1000"]).arg("--dir").arg(&here);
                Ok(command)
            })?);
        }
        for node in &nodes {
            until("a Redis server does not start", || ask(node.address, &["PING"]).map(Some))?;
        }
        let mut create = Command::new(engine::find("redis-cli", "redis-tools")?);
        create.args(["-a", USER, "--no-auth-warning", "--cluster", "create"]);
        create.args(nodes.iter().map(|node| node.address.to_string()));
        create.args(["--cluster-replicas", "1", "--cluster-yes"]);
        let output = create.output().context("could not start `redis-cli`")?;
        ensure!(
            output.status.success(),
            "`{}` failed:\n{}",
            project::show(&create),
            String::from_utf8_lossy(&output.stdout)
        );
        let cluster = Self { nodes, stopped: 0 };
        cluster.wait_until_complete()?;
        Ok(cluster)
    }

    /// Waits until each primary has a replica with a copy of everything, and all nodes know that.
    fn wait_until_complete(&self) -> Result<()> {
        for node in &self.nodes {
            until("the nodes of the Redis cluster do not agree", || {
                let is_up = ask(node.address, &["CLUSTER", "INFO"])?.contains("cluster_state:ok");
                let nodes = ask(node.address, &["CLUSTER", "NODES"])?;
                let primaries = primaries(&nodes)?;
                let is_complete = primaries.len() == 3 && !nodes.contains("fail");
                Ok((is_up && is_complete).then_some(()))
            })?;
        }
        for primary in self.primaries()? {
            until("a replica has not copied its primary", || {
                let state = ask(primary.address, &["INFO", "replication"])?;
                Ok(state.contains("state=online").then_some(()))
            })?;
        }
        Ok(())
    }

    /// Returns the primaries as a server sees them that is not stopped.
    fn primaries(&self) -> Result<Vec<Primary>> {
        let answer = self.nodes.iter().find_map(|node| ask(node.address, &["CLUSTER", "NODES"]).ok());
        primaries(&answer.context("no node of the Redis cluster answers")?)
    }
}

impl Servers for Cluster {
    fn url(&self) -> String {
        let others: Vec<_> = self.nodes[1..].iter().map(|node| format!("node={}", node.address)).collect();
        format!("redis://default:{USER}@{}?{}", self.nodes[0].address, others.join("&"))
    }

    /// Stops the primary with most keys.
    fn fail(&mut self, stop: Stop) -> Result<()> {
        let mut largest = (0, None);
        for primary in self.primaries()? {
            let keys: u64 = ask(primary.address, &["DBSIZE"])?.trim().parse()?;
            if largest.1.is_none() || keys > largest.0 {
                largest = (keys, Some(primary.address));
            }
        }
        let address = largest.1.context("the Redis cluster has no primary")?;
        let found = self.nodes.iter().position(|node| node.address == address);
        self.stopped = found.with_context(|| format!("the Redis cluster has a stranger, {address}"))?;
        self.nodes[self.stopped].stop(stop, "INT")?;
        until("no replica took over", || {
            let primaries = self.primaries()?;
            let serves = |primary: &&Primary| !primary.has_failed && primary.address != address;
            Ok((primaries.iter().filter(serves).count() == 3).then_some(()))
        })
    }

    fn heal(&mut self) -> Result<()> {
        self.nodes[self.stopped].resume()?;
        self.wait_until_complete()
    }
}

/// Reads the primaries that have slots from the answer to `CLUSTER NODES`.
fn primaries(nodes: &str) -> Result<Vec<Primary>> {
    let mut found = Vec::new();
    for line in nodes.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        let (Some(address), Some(flags), Some(_slots)) = (fields.get(1), fields.get(2), fields.get(8)) else {
            continue;
        };
        if !flags.contains("master") {
            continue;
        }
        let address = address.split('@').next().unwrap_or_default();
        let address = address.parse().with_context(|| format!("not an address of a node: {line}"))?;
        found.push(Primary { address, has_failed: flags.contains("fail") });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_with_slots_is_found_and_a_replaced_one_is_not() {
        let nodes = "a 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-5460\n\
                     b 127.0.0.1:2@12 master,fail - 0 0 2 connected\n\
                     c 127.0.0.1:3@13 master,fail? - 0 0 3 connected 5461-10922\n\
                     d 127.0.0.1:4@14 slave a 0 0 1 connected\n";
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let expected = [
            Primary { address: address(1), has_failed: false },
            Primary { address: address(3), has_failed: true },
        ];
        assert_eq!(primaries(nodes).unwrap(), expected);
    }
}
