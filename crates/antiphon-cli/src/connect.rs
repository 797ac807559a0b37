//! `antiphon connect`: connects to a server, shows its capabilities, and saves the server under a name.

use std::{collections::BTreeMap, path::Path};

use antiphon_host::ServerInfo;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::{
    config::{Definition, is_name},
    doctor::words,
    exit::{Misused, Outcome},
    global::App,
    print,
    target::ConnectionArgs,
};

/// Connect to a server, show its capabilities, and save it under a name. Without arguments, list the saved servers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon connect weather https://weather.example.com/mcp --header 'Authorization: Bearer ${WEATHER_TOKEN}'
  antiphon connect everything -- npx -y @modelcontextprotocol/server-everything
  antiphon connect
  antiphon connect --remove weather")]
pub(crate) struct Connect {
    /// The name to save the server under.
    #[arg(value_name = "NAME", requires = "server")]
    name: Option<String>,
    /// The server's URL, or a program with its arguments. Put `--` before a program that has flags.
    #[arg(value_name = "URL|COMMAND")]
    server: Vec<String>,
    /// Connect and show the server, but do not save it.
    #[arg(long, requires = "name")]
    dry_run: bool,
    /// Replace the server that already has this name.
    #[arg(long, requires = "name")]
    replace: bool,
    /// Delete a saved server.
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    remove: Option<String>,
    /// Set an environment variable of the program, as `NAME=value`. Can be given more than once.
    #[arg(long, value_name = "NAME=VALUE", requires = "name")]
    env: Vec<String>,
    #[command(flatten)]
    reach: ConnectionArgs,
}

impl Connect {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        match (&self.remove, &self.name) {
            (Some(name), _) => remove(app, name),
            (None, Some(name)) => self.connect(app, name).await,
            (None, None) => Ok(list(app)),
        }
    }

    async fn connect(&self, app: &App, name: &str) -> Result<Outcome> {
        if !self.dry_run {
            may_be_called(name)?;
            self.may_keep(app, name)?;
        }
        let definition = self.definition(app)?;
        // The definition already contains the headers, so do not send them twice.
        let reach = ConnectionArgs { header: Vec::new(), ..self.reach.clone() };
        let host = App::host().with_lifecycle(definition.lifecycle()?).build();
        let connection = host.connect(definition.endpoint(&reach, app.verbose)?).await?;
        let info = connection.server().await;
        let counts = words::Counts::of(&connection, &info.capabilities).await;
        connection.close().await;

        let kept = if self.dry_run { None } else { Some(app.config.keep(name, Some(&definition))?) };
        let value = json!({
            "name": name,
            "server": described(&info),
            "counts": counts.json(),
            "kept": kept.as_deref().map(Path::display).map(|path| path.to_string()),
        });
        print::print(app.json, &value, || introduce(&info, &counts));
        if let (Some(path), false) = (&kept, app.json) {
            eprintln!("saved as `{name}` in {}", path.display());
            if self.reach.token.is_some() {
                eprintln!("hint: the token was not saved; set ANTIPHON_TOKEN when you use `{name}`");
            }
            eprintln!("next: antiphon tools {name}");
        }
        Ok(Outcome::Done)
    }

    fn may_keep(&self, app: &App, name: &str) -> Result<()> {
        let Some(taken) = app.config.servers.get(name).filter(|_| !self.replace) else { return Ok(()) };
        let file = app.config.source(name).map(|path| format!(" in {}", path.display()));
        let message = format!(
            "the name `{name}` is taken: it is {}{}; choose another name, or use `--replace`",
            taken.describe(),
            file.unwrap_or_default()
        );
        Err(Misused(message).into())
    }

    fn definition(&self, app: &App) -> Result<Definition> {
        let mut definition = match self.server.as_slice() {
            [one] => Definition::find(one, &app.config)?.reached(&self.reach),
            [program, arguments @ ..] => Definition {
                command: Some(program.clone()),
                args: arguments.to_vec(),
                ..Definition::default()
            },
            [] => return Err(Misused("the URL or the command of the server is missing".into()).into()),
        };
        // The definition can be used from other folders, so it needs an absolute path.
        if let Some(program) = &mut definition.command
            && program.contains(std::path::MAIN_SEPARATOR)
            && let Ok(path) = std::path::absolute(&*program)
        {
            *program = path.display().to_string();
        }
        if !self.env.is_empty() && definition.command.is_none() {
            return Err(Misused("`--env` is for programs; a URL takes `--header`".into()).into());
        }
        if !self.reach.header.is_empty() && definition.url.is_none() {
            return Err(Misused("`--header` is for URLs; a program takes `--env`".into()).into());
        }
        definition.env.extend(pairs(&self.env, '=', "`NAME=value`")?);
        definition.headers.extend(pairs(&self.reach.header, ':', "`Name: value`")?);
        if let Some(choice) = self.reach.revision {
            definition.revision = Some(choice.version().to_owned());
        }
        Ok(definition)
    }
}

pub(crate) fn pairs(texts: &[String], between: char, form: &str) -> Result<BTreeMap<String, String>> {
    let pair = |text: &String| {
        let (name, value) = text.split_once(between)?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value.trim_start().to_owned()))
    };
    // The error does not repeat the text, because the text can contain a secret.
    let wrong = || Misused(format!("a header or variable is not valid; write it as {form}"));
    texts.iter().map(|text| Ok(pair(text).ok_or_else(wrong)?)).collect()
}

pub(crate) fn may_be_called(name: &str) -> Result<()> {
    if !is_name(name) {
        let message = format!("`{name}` is not a valid server name; use letters, digits, `-`, `_` and `.`");
        return Err(Misused(message).into());
    }
    Ok(())
}

fn described(info: &ServerInfo) -> Value {
    let ServerInfo { name, version, instructions, revision, capabilities, .. } = info;
    json!({"name": name, "version": version, "instructions": instructions, "revision": revision, "capabilities": capabilities})
}

fn introduce(info: &ServerInfo, counts: &words::Counts) -> String {
    let mut lines = vec![words::title(info)];
    lines.push(format!("  supports  {}", info.revision));
    lines.push(format!("  offers    {}", counts.sentence()));
    let others = words::capabilities(&info.capabilities);
    if !others.is_empty() {
        lines.push(format!("  also      {}", others.join(", ")));
    }
    if let Some(instructions) = &info.instructions {
        lines.push(format!("  says      {}", print::first_line(instructions)));
    }
    lines.join("\n")
}

fn list(app: &App) -> Outcome {
    let source = |name: &str| app.config.source(name).map(|path| path.display().to_string());
    let servers: Vec<Value> = app
        .config
        .servers
        .iter()
        .map(|(name, it)| json!({"name": name, "where": it.describe(), "file": source(name)}))
        .collect();
    if servers.is_empty() && !app.json {
        eprintln!("no servers are saved yet");
        eprintln!("next: antiphon connect NAME URL");
        return Outcome::Done;
    }
    print::print(app.json, &Value::from(servers), || {
        let mut table = print::table(["NAME", "WHERE", "FILE"]);
        for (name, it) in &app.config.servers {
            table.add_row([
                print::clean(name),
                print::clean(&it.describe()),
                source(name).unwrap_or_default(),
            ]);
        }
        print::trimmed(&table)
    });
    Outcome::Done
}

fn remove(app: &App, name: &str) -> Result<Outcome> {
    let Some(path) = app.config.source(name) else {
        eprintln!("the server `{name}` does not exist");
        return Ok(Outcome::Nothing);
    };
    if !app.config.keeps(name) {
        let message =
            format!("`connect` cannot change {}, which contains `{name}`; edit that file", path.display());
        return Err(Misused(message).into());
    }
    app.config.keep(name, None)?;
    let value = json!({"removed": name, "file": path.display().to_string()});
    if app.json {
        print::json(&format!("{value:#}"));
    } else {
        eprintln!("deleted `{name}` from {}", path.display());
    }
    Ok(Outcome::Done)
}
