//! Creates the flags of a tool from the schema of its arguments.

use std::collections::BTreeSet;

use antiphon_host::model::Tool;
use anyhow::Result;
use clap::{
    Arg, ArgAction, Args as _, Command, FromArgMatches as _,
    builder::{PossibleValuesParser, TypedValueParser as _, ValueParser},
    error::ErrorKind,
};
use serde_json::{Map, Value};

use super::After;
use crate::{
    exit::Misused,
    person::field::{Field, Kind, check, check_count},
    print::clean,
};

/// One field of the tool's arguments, and the flag for this field. `name` is `None` if the field's name cannot be the
/// name of a flag.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    pub(crate) field: Field,
    pub(crate) name: Option<String>,
}

/// The command line words that follow the tool's name, after they were parsed.
pub(super) enum Words {
    /// The words contain the tool's arguments and options of the CLI.
    Call(Map<String, Value>, After),
    /// The words contain `--help`. The value is the help text to print.
    Help(String),
}

impl Flag {
    /// Returns the flags for the arguments of a tool.
    pub(crate) fn all(tool: &Tool) -> Vec<Self> {
        let fields = Field::all(&Value::Object((*tool.input_schema).clone()));
        let mut names = BTreeSet::new();
        let mut flags = Vec::new();
        for field in fields {
            let exact = field.name();
            // `dry_run` and `dryRun` both become `--dry-run`. If a tool has both fields, the second flag has the exact
            // name of its field.
            let name =
                [kebab(&exact), exact].into_iter().find(|name| is_flag(name) && names.insert(name.clone()));
            flags.push(Self { field, name });
        }
        flags
    }

    /// Returns the flag with a placeholder for its value, or `None` if the field has no flag.
    pub(crate) fn usage(&self) -> Option<String> {
        let name = self.name.as_ref()?;
        let more = if matches!(self.field.kind, Kind::List { .. }) { " …" } else { "" };
        Some(match &self.field.kind {
            Kind::Boolean => format!("--{name}"),
            kind => format!("--{name} <{}>{more}", kind.placeholder()),
        })
    }

    fn arg(&self, others: &BTreeSet<String>) -> Option<Arg> {
        let name = self.name.clone()?;
        let Field { description, default, kind, .. } = &self.field;
        let exact = self.field.name();
        let mut arg = Arg::new(id(&name)).long(name).value_name(kind.placeholder()).help_heading("Arguments");
        if is_flag(&exact) && !others.contains(&exact) {
            arg = arg.alias(exact);
        }
        let mut help = clean(description.as_deref().unwrap_or_default());
        let bounded = matches!(kind, Kind::Text { format: Some(_), .. } | Kind::Number { .. });
        for note in [
            self.field.is_required().then(|| "required".to_owned()),
            bounded.then(|| kind.describe()),
            default.as_ref().map(|default| clean(&format!("default: {default}"))),
            matches!(kind, Kind::List { .. }).then(|| "can be given more than once".to_owned()),
        ]
        .into_iter()
        .flatten()
        {
            let space = if help.is_empty() { "" } else { " " };
            help = format!("{help}{space}[{note}]");
        }
        if help.is_empty() && !matches!(kind, Kind::Choice(_)) {
            help = format!("[{}]", kind.describe());
        }
        // No flag of a tool or of the CLI has a digit as its name, so `-5` is always a value.
        arg = arg.help(help).allow_negative_numbers(true);
        Some(match kind {
            // Only flags follow a tool, so a word after this flag can only be its value.
            Kind::Boolean => arg.num_args(0..=1).default_missing_value("true").value_parser(parser(kind)),
            Kind::List { of, .. } => arg.action(ArgAction::Append).value_parser(parser(of)),
            kind => arg.value_parser(parser(kind)),
        })
    }
}

/// Parses the words after the tool's name. If a flag and `arguments` set the same field, the value of the flag has
/// priority.
pub(super) fn parse(
    server: &str,
    tool: &Tool,
    flags: &[Flag],
    words: &[String],
    arguments: Map<String, Value>,
) -> Result<Words> {
    let parsed = command(server, tool, flags).try_get_matches_from(words);
    let matches = match parsed {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Ok(Words::Help(error.render().to_string()));
        }
        Err(error) => return Err(misused(&error, words).into()),
    };
    let mut arguments = arguments;
    for Flag { field, name } in flags {
        let Some(values) = name.as_ref().and_then(|name| matches.get_many::<Value>(&id(name))) else {
            continue;
        };
        let values: Vec<Value> = values.cloned().collect();
        if matches!(field.kind, Kind::List { .. }) {
            check_count(&field.kind, values.len())
                .map_err(|why| Misused(format!("`{}`: {why}", clean(&field.name()))))?;
            field.put(&mut arguments, values.into());
        } else if let Some(value) = values.into_iter().next_back() {
            field.put(&mut arguments, value);
        }
    }
    let after = After::from_arg_matches(&matches).map_err(|error| misused(&error, words))?;
    Ok(Words::Call(arguments, after))
}

fn command(server: &str, tool: &Tool, flags: &[Flag]) -> Command {
    let names: BTreeSet<String> = flags.iter().filter_map(|flag| flag.name.clone()).collect();
    let server = clean(&shell_words::quote(server));
    let name = clean(&shell_words::quote(&tool.name));
    let mut command = Command::new(tool.name.to_string())
        .no_binary_name(true)
        .override_usage(format!("antiphon call [OPTIONS] {server} {name} [ARGUMENTS]"))
        .about(clean(tool.description.as_deref().unwrap_or_default()))
        .args_override_self(true)
        .disable_version_flag(true)
        .disable_help_flag(true);
    for flag in flags {
        command = command.args(flag.arg(&names));
    }
    let unnamed: Vec<String> =
        flags.iter().filter(|flag| flag.name.is_none()).map(|flag| clean(&flag.field.name())).collect();
    if !unnamed.is_empty() {
        let note = format!("Only with --arguments: {}", unnamed.join(", "));
        command = command.after_help(note);
    }
    // If an option of the CLI and a flag of the tool have the same name, the option gets a hidden name here. The
    // option still works before the tool's name.
    for ours in After::augment_args(Command::new("ours")).get_arguments() {
        let mut ours = ours.clone().help_heading("Options");
        if ours.get_long().is_some_and(|long| names.contains(long)) {
            let mut hidden = format!("antiphon-{}", ours.get_id());
            while names.contains(&hidden) {
                hidden.insert_str(0, "antiphon-");
            }
            ours = ours.long(hidden).hide(true);
        }
        command = command.arg(ours);
    }
    if !names.contains("help") {
        let help = Arg::new("help").long("help").short('h').action(ArgAction::Help);
        command = command.arg(help.help("Show this").help_heading("Options"));
    }
    command
}

/// Returns the clap ID of a tool's flag. No option of the CLI has a space in its ID.
fn id(name: &str) -> String {
    format!("argument {name}")
}

fn parser(kind: &Kind) -> ValueParser {
    if let Kind::Choice(choices) = kind {
        let words: Vec<String> = choices.iter().map(|choice| clean(&choice.word())).collect();
        let choices = choices.clone();
        let chosen = move |word: String| {
            let chosen = choices.iter().find(|choice| clean(&choice.word()) == word);
            chosen.map_or(Value::Null, |choice| choice.value.clone())
        };
        return ValueParser::new(PossibleValuesParser::new(words).map(chosen));
    }
    let kind = kind.clone();
    ValueParser::from(move |text: &str| check(&kind, text))
}

/// Converts an error of clap. The converted error does not start with `error:`. If an option is misplaced, the
/// converted error describes the correct position.
fn misused(error: &clap::Error, words: &[String]) -> Misused {
    let text = error.render().to_string();
    let text = text.trim_start_matches("error: ").trim_end();
    let ours = crate::call::Call::augment_args(Command::new("call"));
    let misplaced = ours.get_arguments().filter_map(Arg::get_long).find(|long| {
        words
            .iter()
            .any(|word| word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(long)))
    });
    match misplaced.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        Some(long) => Misused(format!("`--{long}` must come before the server: antiphon call --{long} …")),
        None => Misused(text.to_owned()),
    }
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    let mut small = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && small {
            out.push('-');
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    out
}

fn is_flag(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(properties: &Value) -> Tool {
        let schema = json!({"type": "object", "properties": properties});
        serde_json::from_value(json!({"name": "t", "inputSchema": schema})).unwrap()
    }

    fn parsed(tool: &Tool, words: &[&str]) -> Result<Map<String, Value>> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        match parse("s", tool, &Flag::all(tool), &words, Map::new())? {
            Words::Call(arguments, _) => Ok(arguments),
            Words::Help(help) => panic!("{help}"),
        }
    }

    #[test]
    fn names_that_clash_keep_apart() {
        let text = json!({"type": "string"});
        let tool = tool(&json!({
            "dryRun": text, "dry_run": text, "help": text, "json": text, "antiphon-json": text, "--x": text, "": text,
            "a.b_c": text, "a": {"type": "object", "properties": {"b_c": text}}, "e\u{1b}[m": text,
        }));
        let words = ["--dry-run=1", "--dry_run=2", "--help=3", "--json=4", "--a.b-c=5", "--a.b_c=6"];
        let expected =
            json!({"dryRun": "1", "dry_run": "2", "help": "3", "json": "4", "a.b_c": "5", "a": {"b_c": "6"}});
        assert_eq!(Value::Object(parsed(&tool, &words).unwrap()), expected);
        let unnamed: Vec<String> = Flag::all(&tool)
            .into_iter()
            .filter(|flag| flag.name.is_none())
            .map(|flag| flag.field.name())
            .collect();
        assert_eq!(unnamed, ["--x", "", "e\u{1b}[m"]);
    }

    #[test]
    fn values_that_begin_with_a_minus_and_booleans_with_a_word_are_understood() {
        let tool = tool(&json!({
            "ns": {"type": "array", "items": {"type": "integer"}}, "e": {"enum": [-1, 1]}, "j": {},
            "text": {"type": "string"}, "b": {"type": "boolean"}, "c": {"type": "boolean"}, "d": {"type": "boolean"},
        }));
        let words =
            "--ns -5 --ns -6 --e -1 --j -1.5 --text -3 --b false --c --d=no".split(' ').collect::<Vec<_>>();
        let expected = json!({
            "ns": [-5, -6], "e": -1, "j": -1.5, "text": "-3", "b": false, "c": true, "d": false,
        });
        assert_eq!(Value::Object(parsed(&tool, &words).unwrap()), expected);
        let error = parsed(&tool, &["--b", "perhaps"]).unwrap_err().to_string();
        assert!(error.contains("write true or false"), "{error}");
    }

    #[test]
    fn the_last_of_several_counts_and_choices_keep_their_kind() {
        let tool =
            tool(&json!({"n": {"enum": [1, 2]}, "name": {"type": "string"}, "less": {"type": "number"}}));
        let words = ["--n", "2", "--name=a", "--name=b", "--less", "-1.5"];
        assert_eq!(Value::Object(parsed(&tool, &words).unwrap()), json!({"n": 2, "name": "b", "less": -1.5}));
        assert!(parsed(&tool, &["stray"]).is_err());
    }
}
