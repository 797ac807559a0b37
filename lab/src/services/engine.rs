//! The servers: how each is found, laid out, started, and asked whether it is ready.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{mariadb, postgres, s3};
use crate::server;

/// User and password of all of them, so that tests connect as a careful operator would.
pub(super) const USER: &str = "antiphon";

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    Postgres,
    Redis,
    /// One node that holds all slots: its clients speak the cluster's protocol.
    RedisCluster,
    Nats,
    Mariadb,
    S3,
}

impl Engine {
    /// What tests need.
    pub(crate) const ALL: [Self; 6] =
        [Self::Postgres, Self::Redis, Self::RedisCluster, Self::Nats, Self::Mariadb, Self::S3];

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::RedisCluster => "redis-cluster",
            Self::Nats => "nats",
            Self::Mariadb => "mariadb",
            Self::S3 => "s3",
        }
    }

    /// The variable that tells tests where it is.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "ANTIPHON_TEST_POSTGRES_URL",
            Self::Redis => "ANTIPHON_TEST_REDIS_URL",
            Self::RedisCluster => "ANTIPHON_TEST_REDIS_CLUSTER_URL",
            Self::Nats => "ANTIPHON_TEST_NATS_URL",
            Self::Mariadb => "ANTIPHON_TEST_MARIADB_URL",
            Self::S3 => "ANTIPHON_TEST_S3_URL",
        }
    }

    /// The signal that ends it without waiting for its clients. Most take SIGINT for the same as SIGTERM;
    /// PostgreSQL would wait on SIGTERM, and MariaDB does not hear SIGINT.
    pub(super) fn stop_signal(self) -> &'static str {
        match self {
            Self::Mariadb => "TERM",
            Self::Postgres | Self::Redis | Self::RedisCluster | Self::Nats | Self::S3 => "INT",
        }
    }
}

/// Where one server lives: it can be stopped and started there again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Site {
    pub(crate) engine: Engine,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its data. PostgreSQL's may be elsewhere: it does not run as root.
    folder: PathBuf,
}

impl Site {
    /// Makes an empty place for a server in `folder`; what was there is removed.
    pub(crate) fn prepare(engine: Engine, folder: &Path) -> Result<Self> {
        engine.program(folder)?;
        let mut site = Self { engine, address: server::free_address()?, folder: folder.to_path_buf() };
        site.reset()?;
        Ok(site)
    }

    /// Empties the place.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.remove()?;
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("could not create {}", self.folder.display()))?;
        match self.engine {
            Engine::Postgres => self.folder = postgres::prepare(&self.folder)?,
            Engine::Mariadb => mariadb::prepare(&self.folder)?,
            Engine::Redis | Engine::RedisCluster | Engine::Nats | Engine::S3 => {}
        }
        Ok(())
    }

    /// Removes the data.
    pub(crate) fn remove(&self) -> Result<()> {
        remove(&self.folder)
    }

    /// The URL that clients connect with.
    pub(crate) fn url(&self) -> String {
        let address = self.address;
        match self.engine {
            Engine::Postgres => format!("postgres://{USER}:{USER}@{address}/postgres"),
            Engine::Redis | Engine::RedisCluster => format!("redis://default:{USER}@{address}"),
            Engine::Nats => format!("nats://{USER}:{USER}@{address}"),
            Engine::Mariadb => format!("mysql://{USER}:{USER}@{address}/{USER}"),
            Engine::S3 => format!("http://{address}"),
        }
    }

    /// What starts the server, in the foreground.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new(self.engine.program(&self.folder)?);
        let port = self.address.port().to_string();
        match self.engine {
            Engine::Postgres => postgres::configure(&mut command, &self.folder, &port)?,
            Engine::Redis | Engine::RedisCluster => {
                command.args(["--port", &port, "--bind", &Ipv4Addr::LOCALHOST.to_string()]);
                command.args(["--requirepass", USER, "--save", "", "--appendonly", "yes"]);
                command.args(["--maxmemory-policy", "noeviction"]).arg("--dir").arg(&self.folder);
                if self.engine == Engine::RedisCluster {
                    let bus = server::free_address()?.port().to_string();
                    command.args(["--cluster-enabled", "yes", "--cluster-port", &bus]);
                    // A node alone never learns its own address from another.
                    command.args(["--cluster-announce-ip", &Ipv4Addr::LOCALHOST.to_string()]);
                }
            }
            Engine::Nats => {
                command.args(["-a", &Ipv4Addr::LOCALHOST.to_string(), "-p", &port]);
                command.args(["--user", USER, "--pass", USER, "-js", "-sd"]).arg(&self.folder);
            }
            Engine::Mariadb => mariadb::configure(&mut command, &self.folder, &port)?,
            Engine::S3 => s3::configure(&mut command, &port),
        }
        Ok(command)
    }

    /// Whether it serves; an error says why not yet.
    pub(crate) fn check(&self) -> Result<()> {
        match self.engine {
            Engine::Postgres => postgres::check(self.address),
            Engine::Redis => {
                ensure!(self.redis("PING")? == "+PONG", "Redis is still loading");
                Ok(())
            }
            Engine::RedisCluster => {
                // Also refused when it has them already.
                self.redis("CLUSTER ADDSLOTSRANGE 0 16383")?;
                // Answered only while all slots are served.
                let answer = self.redis("GET ready")?;
                ensure!(answer == "$-1", "the cluster is not up: {answer}");
                Ok(())
            }
            Engine::Nats => {
                let hello = self.read_lines(1)?.concat();
                ensure!(hello.contains("\"jetstream\":true"), "NATS has no JetStream yet: {hello}");
                Ok(())
            }
            Engine::Mariadb => mariadb::check(self.connect()?),
            Engine::S3 => s3::check(self.connect()?),
        }
    }

    /// The first line of the answer to a command.
    fn redis(&self, command: &str) -> Result<String> {
        let mut stream = self.connect()?;
        write!(stream, "AUTH {USER}\r\n{command}\r\n")?;
        let lines = BufReader::new(stream).lines().take(2).collect::<Result<Vec<_>, _>>()?;
        Ok(lines.get(1).context("Redis hung up")?.clone())
    }

    fn read_lines(&self, count: usize) -> Result<Vec<String>> {
        Ok(BufReader::new(self.connect()?).lines().take(count).collect::<Result<_, _>>()?)
    }

    fn connect(&self) -> Result<TcpStream> {
        let patience = Duration::from_secs(1);
        let stream = TcpStream::connect_timeout(&self.address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(stream)
    }
}

impl Engine {
    /// `folder` is where its data are to be; some servers are installed beside it.
    fn program(self, folder: &Path) -> Result<PathBuf> {
        match self {
            Self::Postgres => Ok(postgres::binaries()?.join("postgres")),
            Self::Redis | Self::RedisCluster => find("redis-server", "redis-server"),
            Self::Nats => find("nats-server", "nats-server"),
            Self::Mariadb => find("mariadbd", "mariadb-server"),
            Self::S3 => s3::program(folder),
        }
    }
}

/// Debian puts some servers where only root's path leads.
pub(super) fn find(program: &str, package: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let Some(found) = folders.map(|folder| folder.join(program)).find(|it| it.is_file()) else {
        bail!("`{program}` was not found; install it with `apt-get install {package}`, or use compose.yaml");
    };
    Ok(found)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    Ok(())
}
