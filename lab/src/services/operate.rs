//! A topology that runs until it is stopped, and the faults that other commands ask it for.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum as _;

use super::folder::Folder;
use super::host::Stop;
use super::topology::{Servers, Topology};
use crate::project::Project;

/// What another command asks the topology for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Fail(Stop),
    Heal,
    End,
}

impl Order {
    fn read(line: &str) -> Result<Self> {
        Ok(match line {
            "heal" => Self::Heal,
            "end" => Self::End,
            fault => Self::Fail(Stop::from_str(fault, false).map_err(|_| unknown(fault))?),
        })
    }

    fn text(self) -> String {
        match self {
            Self::Heal => "heal".into(),
            Self::End => "end".into(),
            Self::Fail(stop) => stop.to_possible_value().map_or_else(String::new, |it| it.get_name().into()),
        }
    }
}

fn unknown(fault: &str) -> anyhow::Error {
    anyhow::anyhow!("`{fault}` is not an order")
}

fn folder(project: &Project, topology: Topology) -> PathBuf {
    Folder::path(project).join(topology.name())
}

/// Runs a topology in the foreground, until `cargo xtask services down`.
pub(super) fn run(project: &Project, topology: Topology) -> Result<()> {
    let folder = folder(project, topology);
    ensure!(send(project, topology, None).is_err(), "{} runs already", topology.name());
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let mut servers = topology.start(&folder.join("servers"))?;
    let orders = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("could not listen for orders")?;
    fs::write(folder.join("address"), orders.local_addr()?.to_string())?;
    println!("export {}={}", topology.contract().1, servers.url());
    eprintln!(
        "The servers run until `cargo xtask services down`. In another terminal:\n  cargo xtask services fail {0} kill\n  \
         cargo xtask services heal {0}",
        topology.name()
    );
    for asked in orders.incoming() {
        match answer(servers.as_mut(), &asked?) {
            Ok(Some(Order::End)) => break,
            Ok(_) => {}
            // The other command has ended.
            Err(error) => eprintln!("{error:#}"),
        }
    }
    fs::remove_file(folder.join("address")).context("could not remove the address")
}

/// Carries out one order, and returns it.
fn answer(servers: &mut dyn Servers, asked: &TcpStream) -> Result<Option<Order>> {
    let mut line = String::new();
    BufReader::new(asked).read_line(&mut line)?;
    if line.trim().is_empty() {
        return Ok(None);
    }
    let order = Order::read(line.trim())?;
    let start = Instant::now();
    let outcome = match order {
        Order::Fail(stop) => servers.fail(stop),
        Order::Heal => servers.heal(),
        Order::End => Ok(()),
    };
    let seconds = start.elapsed().as_secs_f64();
    let (word, text) = match outcome {
        Ok(()) => ("done", format!("{seconds:.1}")),
        Err(error) => ("failed", format!("{error:#}").replace('\n', " ")),
    };
    eprintln!("{}: {word}, {text}", order.text());
    writeln!(&mut &*asked, "{word} {text}")?;
    Ok(Some(order))
}

/// Sends an order to a running topology, and returns its duration in seconds. Without an order, only connects.
pub(super) fn send(project: &Project, topology: Topology, order: Option<Order>) -> Result<String> {
    let name = topology.name();
    let missing =
        || format!("{name} does not run; start it with `cargo xtask services up --topology {name}`");
    let address = fs::read_to_string(folder(project, topology).join("address")).with_context(missing)?;
    let address: SocketAddr = address.parse().with_context(missing)?;
    let connection = TcpStream::connect(address).with_context(missing)?;
    let Some(order) = order else { return Ok(String::new()) };
    writeln!(&connection, "{}", order.text())?;
    let mut line = String::new();
    BufReader::new(&connection).read_line(&mut line)?;
    match line.trim().split_once(' ') {
        Some(("done", seconds)) => Ok(seconds.to_owned()),
        Some((_, problem)) => bail!("{name}: {problem}"),
        None => bail!("{name} ended without an answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_written() {
        let faults = Stop::value_variants().iter().copied().map(Order::Fail);
        for order in faults.chain([Order::Heal, Order::End]) {
            assert_eq!(Order::read(&order.text()).unwrap(), order);
        }
        assert!(Order::read("explode").is_err());
    }
}
