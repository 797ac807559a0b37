//! `antiphon prompts`: lists a server's prompts, or gets the messages of one prompt.

use antiphon_host::model::Prompt;
use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::{
    call::show_block,
    exit::{Misused, Outcome},
    global::App,
    person::{Answering, Person, Watched},
    print::{clean, first_line, print, table, trimmed},
    target::Target,
};

/// List a server's prompts, or get one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  antiphon prompts notes\n  antiphon prompts notes summarize --arg topic=tides --arg style=short"
)]
pub(crate) struct Prompts {
    #[command(flatten)]
    target: Target,
    /// The prompt to get.
    name: Option<String>,
    /// Set an argument of the prompt. Can be given more than once.
    #[arg(long = "arg", value_name = "NAME=VALUE", requires = "name")]
    arguments: Vec<String>,
    #[command(flatten)]
    answering: Answering,
}

impl Prompts {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let person = Person::new(app, &self.target.server, &self.answering)?;
        let _watched = Watched(&person);
        let connection = app.connect(&self.target, person.host(app, &self.answering)?).await?;
        let prompts = connection.prompts().await?;
        let Some(name) = &self.name else {
            if prompts.is_empty() && !app.json {
                eprintln!("the server has no prompts");
                return Ok(Outcome::Nothing);
            }
            print(app.json, &json!(prompts), || all(&prompts));
            return Ok(Outcome::Done);
        };
        let Some(prompt) = prompts.iter().find(|prompt| prompt.name == *name) else {
            let names: Vec<String> = prompts.iter().map(|prompt| clean(&prompt.name)).collect();
            eprintln!("the prompt `{}` does not exist; the prompts are {}", clean(name), names.join(", "));
            return Ok(Outcome::Nothing);
        };
        let arguments = arguments(prompt, &self.arguments)?;
        let got = connection.prompt(name, Value::Object(arguments)).await;
        let ended = got.map_err(Into::into).map(|result| {
            let result = json!(result);
            print(app.json, &result, || messages(&result));
            Outcome::Done
        });
        person.ended(ended)
    }
}

fn all(prompts: &[Prompt]) -> String {
    let mut table = table(["PROMPT", "WHAT IT IS FOR", "ARGUMENTS"]);
    for prompt in prompts {
        let arguments = prompt.arguments.iter().flatten().map(|argument| {
            let optional = if argument.required == Some(true) { "" } else { "?" };
            format!("{}{optional}", clean(&argument.name))
        });
        let about = first_line(prompt.description.as_deref().unwrap_or_default());
        table.add_row([clean(&prompt.name), about, arguments.collect::<Vec<_>>().join(", ")]);
    }
    trimmed(&table)
}

fn arguments(prompt: &Prompt, given: &[String]) -> Result<Map<String, Value>, Misused> {
    let mut arguments = Map::new();
    for pair in given {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Misused(format!("`{pair}` is not a valid argument; write `--arg name=value`")));
        };
        arguments.insert(name.to_owned(), value.into());
    }
    let missing =
        prompt.arguments.iter().flatten().find(|argument| {
            argument.required == Some(true) && !arguments.contains_key(argument.name.as_str())
        });
    match missing {
        Some(argument) => {
            let (prompt, name) = (clean(&prompt.name), clean(&argument.name));
            Err(Misused(format!("the prompt `{prompt}` needs `{name}`; add `--arg {name}=…`")))
        }
        None => Ok(arguments),
    }
}

fn messages(result: &Value) -> String {
    let messages = result["messages"].as_array().into_iter().flatten();
    let line = |message: &Value| {
        format!("{}: {}", clean(message["role"].as_str().unwrap_or("?")), show_block(&message["content"]))
    };
    messages.map(line).collect::<Vec<_>>().join("\n\n")
}
