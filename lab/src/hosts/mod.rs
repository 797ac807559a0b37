//! `cargo xtask hosts`: open-source hosts with a scripted model, against a server whose tools ask users.
//!
//! Each host runs in its own home folder, as a user starts it. `tap` records the messages between the host and the
//! server, `model.py` records the texts that the host shows to its model, and `seen` compares both with the documents.

mod catalog;
mod seen;
mod tap;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::catalog::{HOSTS, Host, Install, Start};
pub(crate) use self::seen::Plan;
use self::seen::{ANSWERS, LONG, PLAN, Seen};
use self::tap::Tap;
use crate::interop::drive;
use crate::project::{self, Profile, Project};
use crate::python::{self, Python};
use crate::server::{self, Server};
use crate::table::Table;

/// How long a run of a host can take.
const LIMIT: Duration = Duration::from_mins(3);
/// npm installs no version that was published later, so that dependencies without a pin stay the same.
const BEFORE: &str = "2026-11-18";
const PROMPT: &str = "ANTIPHON-PLAN: call the tools of your plan.";

/// Options of `cargo xtask hosts`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run the light hosts: AI SDK, Gemini CLI and `mcpdo`. This is the default.
    #[arg(long, conflicts_with_all = ["all", "host"])]
    light: bool,
    /// Run all hosts. Their packages need 2.5 GB.
    #[arg(long, conflicts_with = "host")]
    all: bool,
    /// Run only this host, for example `codex`.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Write the table and the transcripts to this Markdown file.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Options {
    fn wants(&self, host: &Host) -> bool {
        match &self.host {
            Some(name) => host.name == name,
            None => host.light || (self.all && !self.light),
        }
    }
}

/// Runs the hosts, one after the other.
pub(crate) fn main(options: &Options) -> Result<()> {
    let hosts: Vec<&Host> = HOSTS.iter().filter(|host| options.wants(host)).collect();
    let names: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
    ensure!(!hosts.is_empty(), "the host was not found; the hosts are {}", names.join(", "));
    let project = Project::open()?;
    let place = Place::open(&project, &PLAN)?;
    let binary = project.build("lab", "asking-server", Profile::Dev)?;
    let server = Server::start(
        &binary,
        server::free_address()?,
        &["--page".to_owned()],
        &place.target.join("server.log"),
    )?;

    let mut table =
        Table::new(["host", "revision", "declares", "tools", "dual", "long", "asked", "answered by"]);
    let mut failures = Vec::new();
    let mut transcripts = Vec::new();
    for host in &hosts {
        eprintln!("running {}", host.title);
        let problems = match place.run(host, &server) {
            Ok(seen) => {
                table.push([vec![host.title.to_owned()], Vec::from(seen.row())].concat());
                transcripts.push(format!("\n## {}\n{}", host.title, seen.transcript()));
                seen.problems(host)
            }
            Err(error) => vec![format!("{error:#}")],
        };
        if !problems.is_empty() {
            failures.push(format!("{}: {}", host.title, problems.join(", ")));
        }
    }
    println!("\n{table}\n`dual` and `long` are the sizes of the model's texts, in bytes.");
    for failure in &failures {
        println!("{failure}");
    }
    println!("{} passed, {} failed", hosts.len() - failures.len(), failures.len());
    if let Some(path) = &options.write {
        let page = format!("{PAGE}\n{}{}", table.to_markdown(), transcripts.concat());
        fs::write(path, page).with_context(|| format!("could not write {}", path.display()))?;
    }
    ensure!(failures.is_empty(), "not every host is as documented; see {}", place.target.display());
    Ok(())
}

/// Installs the packages of the light hosts.
pub(crate) fn install(project: &Project) -> Result<()> {
    let place = Place::open(project, &PLAN)?;
    HOSTS.iter().filter(|host| host.light).try_for_each(|host| place.install(host).map(drop))
}

/// Runs one host against any server, and returns the calls of the plan with the texts that its model reads.
pub(crate) fn play(
    project: &Project,
    name: &str,
    server: &Server,
    plan: Plan,
) -> Result<Vec<(String, String)>> {
    let host = HOSTS.iter().find(|host| host.name == name).context("the host was not found")?;
    Ok(Place::open(project, plan)?.run(host, server)?.results)
}

/// The start of the page with the transcripts.
const PAGE: &str = r"# Runs of hosts

`cargo xtask hosts --all --write docs/reference/host-runs.md` writes this page.
`cargo xtask hosts` starts each host in an empty home folder, with a scripted model. Each host connects over HTTP to a server with an [answer page](../guides/hosts-without-forms.md#a-web-page-for-answers).
The scripted model calls three tools: `orders` returns a result set, `report` needs 7 seconds, and `onboard` asks two questions.
The server [hands a call over](../guides/hosts-without-forms.md#long-calls) after 5 seconds. So the call of `report` returns before the run of `report` has ended, unless the client declares sampling or the tasks of MCP 2026-07-28.
If the model reads a link to the answer page, a script opens the link and answers the question, in place of the user.

In the table, the columns `dual` and `long` contain the size in bytes of the text that the model reads for `orders` and `report`. The column `tools` contains the number of the server's tools that the model can call.
The column `asked` states how the call of `onboard` ended, and the column `answered by` states the channel through which the answers arrived.
The transcripts show the beginning of each text that the model reads. The page [Texts for models](model-view.md) contains the whole texts.
";

/// The folders of all runs.
#[derive(Debug)]
struct Place {
    /// Node and `mcpdo`.
    node: PathBuf,
    /// `lab/conformance/hosts`.
    scripts: PathBuf,
    target: PathBuf,
    plan: Plan,
}

impl Place {
    fn open(project: &Project, plan: Plan) -> Result<Self> {
        let conformance = project.root.join("lab").join("conformance");
        Ok(Self {
            // This folder has Node 22 and `mcpdo`.
            node: project::npm_install(&conformance.join("interop"))?,
            scripts: conformance.join("hosts"),
            target: project.target.join("hosts"),
            plan,
        })
    }

    fn run(&self, host: &Host, server: &Server) -> Result<Seen> {
        let packages = self.install(host)?;
        let folder = self.target.join(host.name);
        // Records and settings of an earlier run would be mixed with those of this run.
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
        }
        let home = folder.join("home");
        fs::create_dir_all(&home).with_context(|| format!("could not create {}", home.display()))?;
        let tap = Tap::start(server.address())?;
        let mut run = Run { place: self, host, packages, folder, home, mcp: tap.url(), model: String::new() };
        let ran = match host.start {
            Start::Words(words) => run.with_model(words),
            Start::Mcpdo(era) => run.mcpdo(era),
        };
        run.end_what_is_left();
        let sent = tap.sent();
        let lines: Vec<String> = sent.iter().map(Value::to_string).collect();
        fs::write(run.folder.join("messages.jsonl"), lines.join("\n"))?;
        Ok(Seen { sent, ..ran? })
    }

    /// Installs the packages of a host, unless they already are. Returns their folder.
    fn install(&self, host: &Host) -> Result<PathBuf> {
        let folder = self.target.join("packages").join(host.name);
        match &host.install {
            Install::Nothing => {}
            Install::Npm(packages) => {
                let inputs = format!("{BEFORE} {}", packages.join(" "));
                project::make_once(&folder, &inputs, || {
                    eprintln!("installing {}", packages.join(", "));
                    fs::write(folder.join("package.json"), "{\"private\":true}\n")?;
                    let mut npm = Command::new("npm");
                    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--before", BEFORE]);
                    // Install scripts need a newer Node than Debian's.
                    let path = project::path_with(&self.node)?;
                    python::run(npm.args(*packages).env("PATH", path).current_dir(&folder))
                })?;
            }
            Install::Python => {
                Python::with_packages(&folder, &self.scripts.join("requirements.txt"), || {
                    eprintln!("installing {}", host.title);
                })?;
            }
        }
        if let Some(script) = host.script {
            // Node looks for packages in the folder of the script.
            fs::copy(self.scripts.join(script), folder.join(script))?;
        }
        Ok(folder)
    }
}

/// One run of a host.
#[derive(Debug)]
struct Run<'a> {
    place: &'a Place,
    host: &'a Host,
    packages: PathBuf,
    folder: PathBuf,
    home: PathBuf,
    mcp: String,
    /// The base URL of the model, if there is one.
    model: String,
}

/// A line of the model's log.
#[derive(Debug, Deserialize)]
struct Asked {
    tools: Vec<String>,
    results: Vec<(String, String)>,
}

impl Run<'_> {
    /// Runs a host with the scripted model.
    fn with_model(&mut self, words: &[&str]) -> Result<Seen> {
        let address = server::free_address()?;
        let log = self.folder.join("model.jsonl");
        let plan: Value =
            self.place.plan.iter().map(|(tool, arguments)| json!([tool, object(arguments)])).collect();
        let mut model = Command::new("python3");
        model.arg(self.place.scripts.join("model.py")).arg(address.port().to_string()).arg(&log);
        model.arg(plan.to_string()).arg(Value::Object(object(&ANSWERS)).to_string());
        model.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut model = Server::spawn(&mut model, address, &self.folder.join("model.log"))?;
        model.wait_until_ready()?;
        self.model = format!("http://{address}");
        self.configure()?;
        if !self.host.before.is_empty() {
            drive(&mut self.command(self.host.before)?, &self.folder.join("before.log"), LIMIT)?;
        }
        let ended = drive(&mut self.command(words)?, &self.folder.join("host.log"), LIMIT);
        let text = fs::read_to_string(&log).unwrap_or_default();
        let asked = text.lines().filter_map(|line| serde_json::from_str::<Asked>(line).ok());
        let Some(last) = asked.max_by_key(|it| it.results.len()) else {
            return Err(ended.err().unwrap_or_else(|| anyhow::anyhow!("the model received no request")));
        };
        // Some hosts end with an error at a question. Their records are complete.
        let page = text.lines().any(|line| line.starts_with("{\"page\""));
        Ok(Seen { offered: last.tools, results: last.results, page, ..Seen::default() })
    }

    /// Makes the calls of the plan with `mcpdo`. Its user reads the results.
    fn mcpdo(&self, era: &str) -> Result<Seen> {
        let mcpdo = |words: &[&str]| -> Result<Value> {
            let mut command = self.command(&["mcpdo", "--format", "json"])?;
            let printed = drive(command.args(words), &self.folder.join("host.log"), LIMIT)?;
            serde_json::from_str(&printed).with_context(|| format!("`mcpdo` printed {printed:?}"))
        };
        // Calls a tool, and answers its forms.
        let call = |tool: &str, given: &[String]| -> Result<Value> {
            let mut answer = mcpdo(&with(&["@c", "tools/call", tool], given))?;
            while let Some(id) = answer["elicitationPending"]["elicitationId"].as_str() {
                let asked = &answer["elicitationPending"]["requestedSchema"]["properties"];
                let given = fields(ANSWERS.into_iter().filter(|(name, _)| asked.get(name).is_some()));
                let next = mcpdo(&with(&["@c", "elicitation/respond", id], &given))?;
                answer = next;
            }
            Ok(answer)
        };
        let talk = || -> Result<Seen> {
            mcpdo(&["connect", "--era", era, "--connection", "c", &self.mcp])?;
            let listed = mcpdo(&["@c", "tools/list"])?;
            let tools = listed["tools"].as_array().into_iter().flatten();
            let offered = tools.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
            // On 2026-07-28, `mcpdo` declares tasks.
            let mut seen = Seen { offered, tasks: era == "modern", ..Seen::default() };
            for &(tool, arguments) in self.place.plan {
                let mut answer = match call(tool, &fields(arguments.iter().copied())) {
                    // The test does not need the output of `mcpdo` for a task.
                    Err(_) if seen.tasks && tool == LONG => continue,
                    called => called?,
                };
                seen.results.push((tool.to_owned(), text(&answer)));
                // The limit is for a run that does not end.
                for _ in 0..3 {
                    let Some(id) = answer["structuredContent"]["task"]["id"].as_str() else { break };
                    let given = [format!("id:={id}")];
                    answer = call("task_result", &given)?;
                    seen.results.push(("task_result".to_owned(), text(&answer)));
                }
            }
            Ok(seen)
        };
        let seen = talk();
        // If there is no daemon, there is nothing to stop.
        let _ = mcpdo(&["daemon", "stop"]);
        seen
    }

    /// Writes the files of the host.
    fn configure(&self) -> Result<()> {
        for (name, text) in self.host.files {
            let path = self.home.join(name);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)
                    .with_context(|| format!("could not create {}", folder.display()))?;
            }
            fs::write(&path, self.fill(text))
                .with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(())
    }

    /// A command with a fixed environment, so that no setting and no key of the user is in it.
    fn command(&self, words: &[&str]) -> Result<Command> {
        let (program, arguments) = words.split_first().context("the command is empty")?;
        let path = [self.packages.join("node_modules").join(".bin"), self.place.node.clone()];
        let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let path = std::env::join_paths(path.iter().chain(&system)).context("PATH cannot be set")?;
        let mut command = Command::new(self.fill(program));
        command.args(arguments.iter().map(|word| self.fill(word))).current_dir(&self.home).env_clear();
        command.env("HOME", &self.home).env("PATH", path);
        command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
        command.envs(self.host.env.iter().map(|(name, value)| (name, self.fill(value))));
        Ok(command)
    }

    fn fill(&self, text: &str) -> String {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        text.replace("@MCP@", &self.mcp)
            .replace("@MODEL@", &self.model)
            .replace("@PROMPT@", PROMPT)
            .replace("@HOME@", &path(&self.home))
            .replace("@FOLDER@", &path(&self.packages))
            .replace("@SCRIPTS@", &path(&self.place.scripts))
    }

    /// Ends daemons that the host has left behind. They have the home folder of this run.
    fn end_what_is_left(&self) {
        let home = format!("HOME={}", self.home.display());
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes()) {
                // The process can have ended already.
                let _ = Command::new("kill").arg(process.file_name()).status();
            }
        }
    }
}

fn object(fields: &[(&str, &str)]) -> Map<String, Value> {
    fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

/// Fields in the syntax of `mcpdo`.
fn fields<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    fields.map(|(name, value)| format!("{name}:={value}")).collect()
}

fn with<'a>(words: &[&'a str], fields: &'a [String]) -> Vec<&'a str> {
    words.iter().copied().chain(fields.iter().map(String::as_str)).collect()
}

/// The text blocks of a result.
fn text(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}
