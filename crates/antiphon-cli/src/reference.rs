//! Tests that `docs/reference/cli.md` contains the help texts that `clap` generates.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use crate::Arguments;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
const HEAD: &str = "\
# CLI reference

This page contains the help texts (`--help`) of `antiphon` and of each subcommand.
The guide [The `antiphon` CLI](../guides/command.md) shows examples.
";
/// The width that `clap` uses if the terminal's width is unknown.
const WIDTH: usize = 100;

fn page() -> String {
    let mut command = without_values(Arguments::command()).term_width(WIDTH);
    command.build();
    let mut page = HEAD.to_owned();
    describe(&mut command, &mut page);
    page
}

/// Hides the values of environment variables, which must not be in the reference.
fn without_values(command: Command) -> Command {
    command.mut_args(|argument| argument.hide_env_values(true)).mut_subcommands(without_values)
}

fn describe(command: &mut Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    writeln!(page, "\n## `{name}`\n\n```text\n{}\n```", lines.join("\n")).unwrap();
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        describe(inner, page);
    }
}

#[test]
fn reference_has_what_the_command_says_of_itself() {
    let page = page();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/cli.md is not what the command says; run `UPDATE_REFERENCE=1 cargo nextest run -p antiphon-cli reference`"
    );
}
