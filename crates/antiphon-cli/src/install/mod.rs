//! `antiphon install` and `antiphon uninstall`: edit the servers in the configuration of a host.

mod document;
mod entry;
mod file;
mod host;

use std::{collections::BTreeMap, path::Path};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum as _};
use serde_json::{Value, json};

use self::{
    document::Document,
    file::ConfigFile,
    host::{HostName, Layout, Scope},
};
use crate::{
    config::{Definition, is_program},
    connect::{may_be_called, pairs},
    exit::{Misused, Outcome},
    global::App,
    print, secrets,
};

/// Add a server to the configuration of a host, or list the servers of the hosts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon install claude-code --name desk -- /path/to/desk
  antiphon install vscode --name desk --scope project --url http://127.0.0.1:8000/mcp
  antiphon install --list
  antiphon uninstall claude-code --name desk

The command changes only the entry of the server. Comments, other members and the format of the file stay.")]
pub(crate) struct Install {
    /// The host.
    #[arg(value_enum, value_name = "HOST", required_unless_present = "list")]
    host: Option<HostName>,
    /// Set the name of the server in the host.
    #[arg(long, required_unless_present = "list")]
    name: Option<String>,
    /// Set the URL of a server over HTTP.
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Set an environment variable of the program, as `NAME=value`. Can be given more than once.
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Send this header to the URL, as `Name: value`. Can be given more than once.
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// Set the scope of the entry [default: user].
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    /// Show the entry, and do not write the file.
    #[arg(long)]
    dry_run: bool,
    /// Replace an entry with the same name and another content.
    #[arg(long)]
    force: bool,
    /// List the servers in the configuration of all hosts, or of HOST.
    #[arg(long, conflicts_with_all = ["name", "url", "env", "header", "dry_run", "force", "command"])]
    list: bool,
    /// The program that the host starts, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Remove a server from the configuration of a host.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  antiphon uninstall claude-code --name desk")]
pub(crate) struct Uninstall {
    /// The host.
    #[arg(value_enum, value_name = "HOST")]
    host: HostName,
    /// The name of the server in the host.
    #[arg(long)]
    name: String,
    /// Set the scope of the entry [default: user].
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    /// Show the file, and do not write it.
    #[arg(long)]
    dry_run: bool,
}

impl Install {
    pub(crate) fn run(self, app: &App) -> Result<Outcome> {
        match (self.host, &self.name) {
            (Some(host), Some(name)) => self.install(app, host, name),
            (host, _) => {
                list(app, host, self.scope);
                Ok(Outcome::Done)
            }
        }
    }

    fn install(&self, app: &App, host: HostName, name: &str) -> Result<Outcome> {
        may_be_called(name)?;
        let scope = self.scope.unwrap_or(Scope::User);
        let server = self.definition(host, scope)?;
        let place = Place::open(host, scope)?;
        let (name, keys) = (host.key(name), host.keys(place.layout));
        let entry = entry::entry(host, place.layout, &name, &server);
        let shown = place.file.path().display().to_string();

        let old = place.document.servers(keys).and_then(|servers| servers.get(&name));
        let change = match old {
            None => Change::Added,
            Some(old) if *old == entry => Change::Unchanged,
            Some(_) if self.force => Change::Replaced,
            Some(old) => {
                let server = entry::read(old).map(|old| format!(": it is {}", old.describe()));
                let message = format!(
                    "{shown} has another entry `{name}`{}; choose another name, or use `--force`",
                    server.unwrap_or_default()
                );
                return Err(Misused(message).into());
            }
        };
        // The secrets of the entry are masked in the output.
        let masked = entry::entry(host, place.layout, &name, &masked(&server));
        let fragment = fragment(host, keys, &name, &masked);
        if change != Change::Unchanged {
            let Some(text) = place.document.with(keys, &name, &entry) else {
                bail!(
                    "{shown} cannot be edited safely: the command cannot add the entry without changing other parts of the file; add this by hand:\n{fragment}"
                )
            };
            if !self.dry_run {
                self.warn(host, scope, &place, &server);
                place.file.write(&text, scope)?;
            }
        }

        if app.json {
            let is_written = change != Change::Unchanged && !self.dry_run;
            let value = json!({
                "host": host.id(),
                "scope": scope_id(scope),
                "name": name,
                "file": shown,
                "entry": masked,
                "change": change.id(),
                "written": is_written,
            });
            print::json(&format!("{value:#}"));
            return Ok(Outcome::Done);
        }
        let title = host.title();
        if self.dry_run {
            print::line(fragment.trim_end());
        }
        match change {
            Change::Unchanged => eprintln!("`{name}` is already in the configuration of {title}: {shown}"),
            _ if self.dry_run => eprintln!("dry run: {shown} was not changed"),
            Change::Added => eprintln!("added `{name}` to the configuration of {title}: {shown}"),
            Change::Replaced => eprintln!("replaced `{name}` in the configuration of {title}: {shown}"),
        }
        if change != Change::Unchanged && !self.dry_run {
            eprintln!("next: {}", host.next(scope));
        }
        Ok(Outcome::Done)
    }

    fn definition(&self, host: HostName, scope: Scope) -> Result<Definition> {
        let mut server = match (&self.url, self.command.as_slice()) {
            (Some(_), []) if host == HostName::ClaudeDesktop => {
                let message = "Claude Desktop does not read URLs from its configuration file; \
                               add the URL under Customize > Connectors";
                return Err(Misused(message.into()).into());
            }
            (Some(url), []) if url.starts_with("http://") || url.starts_with("https://") => {
                Definition::at(url)?
            }
            (Some(url), []) => {
                let url = secrets::in_url(url);
                let message = format!("`{url}` is not supported by hosts; use a URL with http or https");
                return Err(Misused(message).into());
            }
            (_, [program, arguments @ ..]) => Definition {
                command: Some(program.clone()),
                args: arguments.to_vec(),
                ..Definition::default()
            },
            (None, []) => {
                let message = "the server is missing; pass `--url URL`, or a program after `--`";
                return Err(Misused(message.into()).into());
            }
        };
        if !self.env.is_empty() && server.command.is_none() {
            return Err(Misused("`--env` is for programs; a URL takes `--header`".into()).into());
        }
        if !self.header.is_empty() && server.url.is_none() {
            return Err(Misused("`--header` is for URLs; a program takes `--env`".into()).into());
        }
        // A host starts the program in another folder, so the path must be absolute. In a project file, an absolute
        // path would be valid on only one computer.
        if let Some(program) = &mut server.command
            && scope == Scope::User
            && program.contains(std::path::MAIN_SEPARATOR)
            && let Ok(path) = std::path::absolute(&*program)
        {
            *program = path.display().to_string();
        }
        server.env.extend(pairs(&self.env, '=', "`NAME=value`")?);
        server.headers.extend(pairs(&self.header, ':', "`Name: value`")?);
        Ok(server)
    }

    fn warn(&self, host: HostName, scope: Scope, place: &Place, server: &Definition) {
        if let Some(program) = server.command.as_deref().filter(|program| !is_program(program)) {
            eprintln!("warning: the program `{program}` was not found, so {} cannot start it", host.title());
        }
        if scope == Scope::Project && !(self.env.is_empty() && self.header.is_empty()) {
            let file = place.file.path().display();
            eprintln!("warning: {file} contains the values of `--env` and `--header`; do not commit secrets");
        }
        if scope == Scope::User && !place.file.has_folder() {
            let file = place.file.path().display();
            eprintln!("warning: the folder of {file} is new; check that {} is installed", host.title());
        }
    }
}

impl Uninstall {
    pub(crate) fn run(self, app: &App) -> Result<Outcome> {
        let Self { host, name, scope, dry_run } = self;
        let scope = scope.unwrap_or(Scope::User);
        let place = Place::open(host, scope)?;
        let (name, keys) = (host.key(&name), host.keys(place.layout));
        let shown = place.file.path().display().to_string();
        let servers = place.document.servers(keys);
        if !servers.is_some_and(|servers| servers.contains_key(&name)) {
            eprintln!("the server `{name}` is not in {shown}");
            return Ok(Outcome::Nothing);
        }
        let Some(text) = place.document.without(keys, &name) else {
            bail!(
                "{shown} cannot be edited safely: the command cannot remove the entry without changing other parts of the file; remove `{name}` by hand"
            )
        };
        if !dry_run {
            place.file.write(&text, scope)?;
        }
        if app.json {
            let value = json!({
                "host": host.id(),
                "scope": scope_id(scope),
                "name": name,
                "file": shown,
                "written": !dry_run,
            });
            print::json(&format!("{value:#}"));
        } else if dry_run {
            eprintln!("dry run: {shown} was not changed");
        } else {
            eprintln!("removed `{name}` from the configuration of {}: {shown}", host.title());
        }
        Ok(Outcome::Done)
    }
}

/// The parsed configuration file of a host.
#[derive(Debug)]
struct Place {
    file: ConfigFile,
    document: Document,
    layout: Layout,
}

impl Place {
    fn open(host: HostName, scope: Scope) -> Result<Self> {
        let file = ConfigFile::read(host.path(scope)?)?;
        let document = file.document(host.format())?;
        let layout = host.layout(file.path(), document.value());
        Ok(Self { file, document, layout })
    }
}

/// The effect of `antiphon install` on the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Replaced,
    /// The configuration file already has the entry.
    Unchanged,
}

impl Change {
    fn id(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Replaced => "replaced",
            Self::Unchanged => "none",
        }
    }
}

/// Returns a server without its secrets.
fn masked(server: &Definition) -> Definition {
    let hidden = |values: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        values.keys().map(|name| (name.clone(), "***".to_owned())).collect()
    };
    Definition {
        url: server.url.as_deref().map(secrets::in_url),
        headers: hidden(&server.headers),
        args: secrets::in_arguments(&server.args),
        env: hidden(&server.env),
        ..server.clone()
    }
}

/// Returns the text of a configuration file that contains only the entry `entry`.
fn fragment(host: HostName, keys: &[&str], name: &str, entry: &Value) -> String {
    let empty = Document::parse(host.format(), "").ok();
    empty.and_then(|empty| empty.with(keys, name, entry)).unwrap_or_else(|| format!("{entry:#}"))
}

fn scope_id(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Project => "project",
    }
}

/// A server in the configuration of a host.
#[derive(Debug)]
struct Installed {
    host: HostName,
    scope: Scope,
    name: String,
    server: String,
    file: String,
}

fn list(app: &App, host: Option<HostName>, scope: Option<Scope>) {
    let hosts: Vec<HostName> = host.map_or_else(|| HostName::value_variants().to_vec(), |host| vec![host]);
    let scopes: Vec<Scope> = scope.map_or_else(|| Scope::value_variants().to_vec(), |scope| vec![scope]);
    let all = hosts.iter().flat_map(|host| scopes.iter().map(move |scope| (*host, *scope)));
    let found: Vec<Installed> = all.flat_map(|(host, scope)| installed(host, scope)).collect();
    if found.is_empty() && !app.json {
        eprintln!("the configuration files of the hosts contain no servers");
        eprintln!("next: antiphon install HOST --name NAME -- COMMAND");
        return;
    }
    let rows = found.iter().map(|Installed { host, scope, name, server, file }| {
        json!({"host": host.id(), "scope": scope_id(*scope), "name": name, "where": server, "file": file})
    });
    print::print(app.json, &rows.collect(), || {
        let mut table = print::table(["HOST", "SCOPE", "NAME", "WHERE", "FILE"]);
        for Installed { host, scope, name, server, file } in &found {
            let (name, server) = (print::clean(name), print::clean(server));
            table.add_row([host.id(), scope_id(*scope).to_owned(), name, server, file.clone()]);
        }
        print::trimmed(&table)
    });
}

/// Returns the servers of a file. A file that cannot be read causes a warning.
fn installed(host: HostName, scope: Scope) -> Vec<Installed> {
    let Ok(path) = host.path(scope) else { return Vec::new() };
    let place = match Place::open(host, scope) {
        Ok(place) if place.file.exists() => place,
        Ok(_) => return Vec::new(),
        Err(error) => {
            warn_of(&path, &error);
            return Vec::new();
        }
    };
    let servers = place.document.servers(host.keys(place.layout)).into_iter().flatten();
    let described = servers.filter_map(|(name, entry)| Some((name.clone(), entry::read(entry)?.describe())));
    let file = path.display().to_string();
    described.map(|(name, server)| Installed { host, scope, name, server, file: file.clone() }).collect()
}

fn warn_of(path: &Path, error: &anyhow::Error) {
    let why = print::clean(&format!("{error:#}"));
    eprintln!("warning: {} was skipped: {why}", path.display());
}
