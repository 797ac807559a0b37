use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::super::engine::{self, USER};
use super::super::host::Stop;
use super::node::Node;
use super::{Servers, get, until};
use crate::server;

/// How long a server stalls. Its clients need time to notice.
const STALL: Duration = Duration::from_secs(15);

/// Names the program, if the one of the path is too old to replicate streams.
const PROGRAM: &str = "ANTIPHON_TEST_NATS_REPLICATED_SERVER";

/// Three servers, each with a copy of every stream.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Vec<Node>,
    monitors: Vec<SocketAddr>,
    stopped: usize,
}

impl Cluster {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let program = match std::env::var_os(PROGRAM) {
            Some(program) => PathBuf::from(program),
            None => engine::find("nats-server", "nats-server")?,
        };
        let addresses = || (0..3).map(|_| server::free_address()).collect::<Result<Vec<_>>>();
        let (routes, monitors) = (addresses()?, addresses()?);
        let urls: Vec<_> = routes.iter().map(|route| format!("nats://{route}")).collect();
        let mut nodes = Vec::new();
        for number in 0..3 {
            let address = server::free_address()?;
            let data = folder.join(format!("n{number}"));
            let mut arguments = vec!["-a".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
            for (name, value) in [
                ("-p", address.port().to_string()),
                ("-m", monitors[number].port().to_string()),
                ("--user", USER.to_owned()),
                ("--pass", USER.to_owned()),
                ("-sd", data.display().to_string()),
                ("--server_name", format!("n{number}")),
                ("--cluster_name", "antiphon".to_owned()),
                ("--cluster", urls[number].clone()),
                ("--routes", urls.join(",")),
            ] {
                arguments.extend([name.to_owned(), value]);
            }
            arguments.push("-js".to_owned());
            let program = program.clone();
            nodes.push(Node::start(address, &data, move || {
                let mut command = Command::new(&program);
                command.args(&arguments);
                Ok(command)
            })?);
        }
        let cluster = Self { nodes, monitors, stopped: 0 };
        cluster.wait_until_healthy()?;
        Ok(cluster)
    }

    fn wait_until_healthy(&self) -> Result<()> {
        for monitor in &self.monitors {
            until("a NATS server is not healthy", || {
                let health = json(*monitor, "/healthz")?;
                let streams = json(*monitor, "/jsz")?;
                let has_leader = streams["meta_cluster"]["leader"].is_string();
                Ok((health["status"] == "ok" && has_leader).then_some(()))
            })?;
        }
        Ok(())
    }

    /// Returns the number of the server that leads the stream of jobs, or of any server before there are streams.
    fn leader(&self) -> Result<usize> {
        let info = json(self.monitors[0], "/jsz?accounts=true&streams=true")?;
        let accounts = info["account_details"].as_array().into_iter().flatten();
        let mut streams =
            accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
        let leader = streams
            .find(|stream| stream["name"].as_str().is_some_and(|name| name.ends_with("_jobs")))
            .and_then(|stream| stream["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok());
        Ok(leader.unwrap_or(0))
    }
}

impl Servers for Cluster {
    fn url(&self) -> String {
        let servers: Vec<_> =
            self.nodes.iter().map(|node| format!("nats://{USER}:{USER}@{}", node.address)).collect();
        format!("{}?replicas=3", servers.join(","))
    }

    fn fail(&mut self, stop: Stop) -> Result<()> {
        self.stopped = self.leader()?;
        self.nodes[self.stopped].stop(stop, "INT")?;
        if stop == Stop::Stalled {
            thread::sleep(STALL);
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<()> {
        self.nodes[self.stopped].resume()?;
        self.wait_until_healthy()
    }
}

fn json(address: SocketAddr, path: &str) -> Result<Value> {
    serde_json::from_slice(&get(address, path)?).context("the monitor of NATS returned no JSON")
}
