//! The peers: how each is started, what is called, what it cannot do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::matrix::Era;
use super::report::{Call, Cell};
use crate::project::{self, Project};
use crate::python::Python;

const NO_SESSIONS: &str = "HTTP+SSE is nothing but a session, and 2026-07-28 has none";
const OLD: &str = "knows no revision after 2025-11-25";
const NOBODY: &str = "declares no elicitation";
const NO_MODEL: &str = "declares no sampling";
const NO_TOOLS: &str = "declares no tools in sampling";
const SILENT: &str = "prints results, and nothing of what is said beside them";

/// What runs a script.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Runtime {
    Node,
    /// With the old Python SDK, which cannot live beside the new one.
    Python1,
    Python2,
}

/// A client of another maker.
#[derive(Debug)]
pub(crate) struct Client {
    name: &'static str,
    package: &'static str,
    pub runtime: Runtime,
    pub script: &'static str,
}

pub(crate) const CLIENTS: [Client; 7] = [
    Client::new("TypeScript v1", "@modelcontextprotocol/sdk", Runtime::Node, "ts1.mjs"),
    Client::new("TypeScript v2", "@modelcontextprotocol/client", Runtime::Node, "ts2.mjs"),
    Client::new("Python v1", "mcp", Runtime::Python1, "py1.py"),
    Client::new("Python v2", "mcp", Runtime::Python2, "py2.py"),
    Client::new("FastMCP", "fastmcp", Runtime::Python2, "fastmcp_client.py"),
    Client::new("mcp-inspector --cli", "@modelcontextprotocol/inspector", Runtime::Node, "inspector.mjs"),
    Client::new("mcpdo", "@modelcontextprotocol/inspector", Runtime::Node, "mcpdo.mjs"),
];

impl Client {
    const fn new(name: &'static str, package: &'static str, runtime: Runtime, script: &'static str) -> Self {
        Self { name, package, runtime, script }
    }

    /// Its name and its version.
    pub(crate) fn name(&self, tools: &Tools) -> Result<String> {
        Ok(format!("{} {}", self.name, tools.version(self.runtime, self.package)?))
    }

    /// Why it cannot fill this cell, if it cannot.
    pub(crate) fn unable(&self, era: Era, cell: Cell) -> Option<&'static str> {
        match (self.script, era, cell) {
            ("ts1.mjs" | "py1.py", Era::Modern, _) => Some(OLD),
            ("inspector.mjs", _, Cell::Ask | Cell::Tour) => Some(NOBODY),
            ("inspector.mjs" | "mcpdo.mjs", _, Cell::Sample | Cell::Data) => Some(NO_MODEL),
            ("ts1.mjs" | "py1.py", _, Cell::Data) => Some(NO_TOOLS),
            ("inspector.mjs" | "mcpdo.mjs", _, Cell::Progress | Cell::Log) => Some(SILENT),
            _ => None,
        }
    }
}

/// A server of another maker, over one transport.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    package: &'static str,
    pub runtime: Runtime,
    /// A file in `servers`, or an executable of a package.
    pub script: &'static str,
    pub transport: &'static str,
}

pub(crate) const SERVERS: [Server; 9] = [
    Server::everything("http"),
    Server::everything("stdio"),
    Server::everything("sse"),
    Server::new("TypeScript v2", "@modelcontextprotocol/server", Runtime::Node, "ts2.mjs", "http"),
    Server::new("TypeScript v2", "@modelcontextprotocol/server", Runtime::Node, "ts2.mjs", "stdio"),
    Server::new("Python v2", "mcp", Runtime::Python2, "py2.py", "http"),
    Server::new("Python v2", "mcp", Runtime::Python2, "py2.py", "stdio"),
    Server::new("FastMCP", "fastmcp", Runtime::Python2, "fastmcp_server.py", "http"),
    Server::new("FastMCP", "fastmcp", Runtime::Python2, "fastmcp_server.py", "stdio"),
];

const EVERYTHING: &str = "mcp-server-everything";

impl Server {
    const fn new(
        name: &'static str,
        package: &'static str,
        runtime: Runtime,
        script: &'static str,
        transport: &'static str,
    ) -> Self {
        Self { name, package, runtime, script, transport }
    }

    const fn everything(transport: &'static str) -> Self {
        let package = "@modelcontextprotocol/server-everything";
        Self::new("server-everything", package, Runtime::Node, EVERYTHING, transport)
    }

    fn is_everything(&self) -> bool {
        self.script == EVERYTHING
    }

    /// Its name and its version.
    pub(crate) fn name(&self, tools: &Tools) -> Result<String> {
        Ok(format!("{} {}", self.name, tools.version(self.runtime, self.package)?))
    }

    /// How it is started: on `port`, or on its standard input and output.
    pub(crate) fn command(&self, tools: &Tools, port: u16) -> Command {
        let script = if self.is_everything() {
            tools.bin.join(self.script)
        } else {
            tools.folder.join("servers").join(self.script)
        };
        let mut command = tools.script(self.runtime, &script);
        match (self.is_everything(), self.transport) {
            (_, "stdio") => command.arg("stdio"),
            (true, "sse") => command.arg("sse").env("PORT", port.to_string()),
            (true, _) => command.arg("streamableHttp").env("PORT", port.to_string()),
            (false, _) => command.arg("http").arg(port.to_string()),
        };
        command
    }

    /// Where it listens.
    pub(crate) fn url(&self, port: u16) -> String {
        let path = if self.transport == "sse" { "sse" } else { "mcp" };
        format!("http://127.0.0.1:{port}/{path}")
    }

    pub(crate) fn unable(&self, era: Era) -> Option<&'static str> {
        match (era, self.transport) {
            (Era::Modern, "sse") => Some(NO_SESSIONS),
            (Era::Modern, _) if self.is_everything() => Some(OLD),
            _ => None,
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        let echo = ("echo", json!({"message": "Antiphon"}), "Echo: Antiphon");
        if self.is_everything() {
            return calls([
                echo,
                ("trigger-elicitation-request", json!({}), "- Name: Ada"),
                ("trigger-sampling-request", json!({"prompt": "a haiku", "maxTokens": 50}), "I was asked: "),
                ("trigger-long-running-operation", json!({"duration": 0.3, "steps": 3}), "completed"),
                ("toggle-simulated-logging", json!({}), "Started"),
            ]);
        }
        calls([
            echo,
            ("greet", json!({}), "Hello, Ada!"),
            ("consult", json!({"prompt": "a haiku"}), "The model said: I was asked: a haiku"),
            ("count", json!({}), "Counted to three"),
            ("chat", json!({}), "Logged"),
        ])
    }
}

/// What is called on our everything server.
pub(crate) fn our_calls() -> Vec<Call> {
    let mut calls = calls([
        ("test_simple_text", json!({}), "This is a simple text response for testing."),
        ("test_input_required_result_elicitation", json!({}), "Hello, Ada!"),
        ("test_sampling", json!({"prompt": "a haiku"}), "LLM response: I was asked: a haiku"),
        ("test_tool_with_progress", json!({}), "All done"),
        ("test_tool_with_logging", json!({}), "Logged three messages"),
    ]);
    let (tool, arguments) = ("test_sampling_data", json!({}));
    calls.push(Call { cell: Cell::Data, tool, arguments, text: "The model chose Lisbon" });
    calls
}

/// What is called on the `tour` example.
pub(crate) fn tour_calls() -> Vec<Call> {
    let arguments = json!({"traveller": "Ada"});
    vec![Call { cell: Cell::Tour, tool: "plan_trip", arguments, text: "Lisbon in May" }]
}

fn calls(calls: [(&'static str, Value, &'static str); 5]) -> Vec<Call> {
    let cells = [Cell::Call, Cell::Ask, Cell::Sample, Cell::Progress, Cell::Log];
    let pairs = cells.into_iter().zip(calls);
    pairs.map(|(cell, (tool, arguments, text))| Call { cell, tool, arguments, text }).collect()
}

/// Everything that is installed, pinned.
#[derive(Debug)]
pub(crate) struct Tools {
    /// `lab/conformance/interop`.
    pub folder: PathBuf,
    /// The executables of the npm packages.
    pub bin: PathBuf,
    python1: Python,
    python2: Python,
    /// Where Python keeps what it has compiled: it is started too often to do without.
    compiled: PathBuf,
    package: Value,
}

impl Tools {
    /// Installs what is missing.
    pub(crate) fn install(project: &Project) -> Result<Self> {
        let folder = project.root.join("lab").join("conformance").join("interop");
        let cache = project.target.join("interop");
        let bin = project::npm_install(&folder)?;
        let python = |venv: &str, requirements: &str| {
            let requirements = folder.join(requirements);
            Python::with_packages(&cache.join(venv), &requirements, || {
                eprintln!("installing the Python packages of {}", requirements.display());
            })
        };
        let python1 = python("venv-1", REQUIREMENTS_1)?;
        let python2 = python("venv-2", REQUIREMENTS_2)?;
        let package = fs::read_to_string(folder.join("package.json"))?;
        let package = serde_json::from_str(&package).context("package.json is not JSON")?;
        Ok(Self { folder, bin, python1, python2, compiled: cache.join("compiled"), package })
    }

    /// A command that runs `script`.
    pub(crate) fn script(&self, runtime: Runtime, script: &Path) -> Command {
        let mut command = match runtime {
            Runtime::Node => {
                let mut node = Command::new(self.bin.join("node"));
                node.arg(script);
                node
            }
            Runtime::Python1 => self.python1.script(script),
            Runtime::Python2 => self.python2.script(script),
        };
        self.compile_once(&mut command);
        command
    }

    /// A command that runs the module `name` of a Python package.
    pub(crate) fn module(&self, name: &str) -> Command {
        let mut command = self.python2.command();
        command.args(["-m", name]);
        self.compile_once(&mut command);
        command
    }

    /// Lets the Pythons that `command` starts keep what they compile, out of the tree.
    pub(crate) fn compile_once(&self, command: &mut Command) {
        command.env_remove("PYTHONDONTWRITEBYTECODE").env("PYTHONPYCACHEPREFIX", &self.compiled);
    }

    fn version(&self, runtime: Runtime, package: &str) -> Result<String> {
        let file = match runtime {
            Runtime::Node => {
                let pinned = self.package["devDependencies"][package].as_str();
                return pinned.map(str::to_owned).with_context(|| format!("`{package}` is not pinned"));
            }
            Runtime::Python1 => REQUIREMENTS_1,
            Runtime::Python2 => REQUIREMENTS_2,
        };
        let text = fs::read_to_string(self.folder.join(file))?;
        let mut pins = text.lines().filter_map(|line| line.split_once("=="));
        let pin = pins.find(|(name, _)| *name == package);
        pin.map(|(_, version)| version.to_owned()).with_context(|| format!("`{package}` is not in {file}"))
    }
}

const REQUIREMENTS_1: &str = "requirements-1.txt";
const REQUIREMENTS_2: &str = "requirements-2.txt";
