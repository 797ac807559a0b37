//! `antiphon resources`: lists a server's resources, or reads one resource.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::{
    call::{save, show_resource},
    exit::Outcome,
    global::App,
    person::{Answering, Person, Watched},
    print::{clean, first_line, print, table, trimmed},
    target::Target,
};

/// List a server's resources, or read one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  antiphon resources notes\n  antiphon resources --templates notes\n  antiphon resources notes note://tides --save tides.md"
)]
pub(crate) struct Resources {
    #[command(flatten)]
    target: Target,
    /// The URI of the resource to read.
    uri: Option<String>,
    /// List the templates for URIs instead of the resources.
    #[arg(long, conflicts_with = "uri")]
    templates: bool,
    /// Write the resource to this file. If it has several parts, write only the first.
    #[arg(long, value_name = "FILE", requires = "uri")]
    save: Option<PathBuf>,
    #[command(flatten)]
    answering: Answering,
}

impl Resources {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let person = Person::new(app, &self.target.server, &self.answering)?;
        let _watched = Watched(&person);
        let connection = app.connect(&self.target, person.host(app, &self.answering)?).await?;
        let Some(uri) = &self.uri else {
            let (listed, what) = if self.templates {
                (json!(connection.resource_templates().await?), "templates")
            } else {
                (json!(connection.resources().await?), "resources")
            };
            if listed.as_array().is_none_or(Vec::is_empty) && !app.json {
                let hint = if self.templates { "" } else { "; `--templates` lists the URI templates" };
                eprintln!("the server lists no {what}{hint}");
                return Ok(Outcome::Nothing);
            }
            print(app.json, &listed, || all(&listed));
            return Ok(Outcome::Done);
        };
        let ended = match connection.read(uri).await {
            Ok(result) => self.show(app, &json!(result)),
            Err(error) => Err(error.into()),
        };
        person.ended(ended)
    }

    fn show(&self, app: &App, result: &Value) -> Result<Outcome> {
        let contents = result["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(path) = &self.save {
            let Some(first) = contents.first() else {
                eprintln!("the resource is empty");
                return Ok(Outcome::Nothing);
            };
            save(path, first)?;
            eprintln!("saved {}", path.display());
            return Ok(Outcome::Done);
        }
        print(app.json, result, || contents.iter().map(show_resource).collect::<Vec<_>>().join("\n"));
        Ok(Outcome::Done)
    }
}

fn all(listed: &Value) -> String {
    let mut table = table(["URI", "NAME", "KIND", "ABOUT"]);
    for one in listed.as_array().into_iter().flatten() {
        let text = |key: &str| first_line(one[key].as_str().unwrap_or_default());
        let uri = clean(one["uri"].as_str().or(one["uriTemplate"].as_str()).unwrap_or_default());
        table.add_row([uri, text("name"), text("mimeType"), text("description")]);
    }
    trimmed(&table)
}
