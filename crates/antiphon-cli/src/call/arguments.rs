//! Collects the arguments of a call from JSON, from flags and from a form.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use super::flags::Flag;
use crate::{
    exit::Misused,
    person::{Person, field::Field, forms},
    stdin,
};

/// Reads the value of `--arguments`: JSON, `@file`, or `-` for standard input.
pub(super) async fn read(said: Option<&str>) -> Result<Map<String, Value>> {
    let text = match said {
        None => return Ok(Map::new()),
        Some("-") => stdin::read().await?,
        Some(said) => match said.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).with_context(|| format!("{path} cannot be read"))?,
            None => said.to_owned(),
        },
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err(Misused("`--arguments` must be a JSON object: '{\"name\": \"Ada\"}'".into()).into()),
        Err(error) => {
            let message = format!(
                "`--arguments` is not JSON: {error}; write '{{…}}', @file.json, or - for standard input"
            );
            Err(Misused(message).into())
        }
    }
}

/// Asks the user for the missing arguments. If `all` is set, `complete` asks for every argument that was not given.
///
/// Returns `None` if the user cancels the form.
///
/// # Errors
///
/// Returns `Misused` if an argument is missing or `all` is set, but no terminal is present to ask the user.
pub(super) async fn complete(
    person: &Person,
    tool: &str,
    flags: &[Flag],
    mut arguments: Map<String, Value>,
    all: bool,
) -> Result<Option<Map<String, Value>>> {
    let missing: Vec<&Flag> = flags.iter().filter(|flag| flag.field.is_missing(&arguments)).collect();
    if missing.is_empty() && !all {
        return Ok(Some(arguments));
    }
    if !person.is_present() {
        if missing.is_empty() {
            return Err(Misused("`--form` needs a terminal; pass the arguments as flags".into()).into());
        }
        return Err(lacking(tool, &missing).into());
    }
    let fields: Vec<Field> = if all {
        flags.iter().map(|flag| &flag.field).filter(|field| !field.is_in(&arguments)).cloned().collect()
    } else {
        missing.iter().map(|flag| flag.field.clone()).collect()
    };
    if fields.is_empty() {
        return Ok(Some(arguments));
    }
    let message = format!("The arguments of {}", crate::print::clean(tool));
    let Some(given) = forms::fill(person, message, fields.clone()).await else { return Ok(None) };
    for field in &fields {
        if let Some(value) = field.find(&given) {
            field.put(&mut arguments, value.clone());
        }
    }
    Ok(Some(arguments))
}

fn lacking(tool: &str, missing: &[&Flag]) -> Misused {
    let tool = crate::print::clean(tool);
    let written: Vec<String> = missing
        .iter()
        .map(|flag| match flag.usage() {
            Some(usage) => format!("  {usage}"),
            None => format!("  `{}`, with --arguments", crate::print::clean(&flag.field.name())),
        })
        .collect();
    let what = if missing.len() == 1 { "an argument" } else { "arguments" };
    Misused(format!("`{tool}` needs {what} that you did not pass:\n{}", written.join("\n")))
}
