//! The kinds of benchmark as parts of the report: what each is called, and which commands make it.

use anyhow::Result;
use clap::Parser as _;
use serde::{Deserialize, Serialize};

use crate::bench::figures::Figure;
use crate::bench::{self, Kind};
use crate::project::Project;

/// A part of the report, in the order of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    Call,
    Transport,
    Replay,
    Store,
    Tasks,
    Results,
    Snapshot,
    Telemetry,
}

/// How long to measure, and whether beside another engine, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    pub(super) quick: bool,
    pub(super) restate: bool,
}

impl Part {
    pub(super) const ALL: [Self; 8] = [
        Self::Call,
        Self::Transport,
        Self::Replay,
        Self::Store,
        Self::Tasks,
        Self::Results,
        Self::Snapshot,
        Self::Telemetry,
    ];

    /// What `--only` and files call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Transport => "transport",
            Self::Replay => "replay",
            Self::Store => "store",
            Self::Tasks => "tasks",
            Self::Results => "results",
            Self::Snapshot => "snapshot",
            Self::Telemetry => "telemetry",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Call => "A tool call over HTTP",
            Self::Transport => "A tool call over each transport",
            Self::Replay => "Replay",
            Self::Store => "Stores",
            Self::Tasks => "Tasks",
            Self::Results => "Result sets",
            Self::Snapshot => "Snapshots",
            Self::Telemetry => "Telemetry",
        }
    }

    /// What is measured beside what.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Call => {
                "The same echo on Antiphon and on bare rmcp, both over axum. The servers have one processor, the load another, and they are loaded in turn."
            }
            Self::Transport => {
                "Bare is no MCP here: the library beneath (a pipe, axum, tungstenite) sends the bytes of the call back unread. So these ratios hold all of MCP, the SDK's part and ours."
            }
            Self::Replay => {
                "In one process, without a transport. A leg goes from request to answer; what it must replay comes out of its `requestState`."
            }
            Self::Store => {
                "Each operation beside the bare client sending the same command to the same server, in turn; leases also beside the engine's own tool."
            }
            Self::Tasks => {
                "Legs beside lease and acknowledgement of the same payload on the bare queue; runs of two steps, a question and a step; and very many runs that wait for an answer. In one process, without HTTP."
            }
            Self::Results => {
                "Pages beside the same query on bare sqlx and axum; streams beside `curl`, which throws the bytes away."
            }
            Self::Snapshot => {
                "Beside the engines run bare (`ArrowWriter`, parquet, DataFusion), and PostgreSQL with the same rows. How the figures grow with the rows is in the [guide](guides/snapshots.md#how-it-grows)."
            }
            Self::Telemetry => {
                "The same server three times, in turn: silent, counting, and counting and tracing to an exporter that drops every span."
            }
        }
    }

    /// What keeps limits from being met, as far as it is known.
    pub(super) fn limited_by(self) -> Option<&'static str> {
        match self {
            Self::Call => Some(
                "Beyond the SDK's own work a call pays for its body to be read within bounds and a deadline, and for finding out what it asks for (4 % of its instructions), for being a run that could be replayed (6 %), and for a connection that is cut off when it stalls. Callgrind counts 146,000 instructions a call beside 130,000 at 2025-11-25 (1.12), and 208,000 beside 192,000 at 2026-07-28 (1.08). What the ratio of times has beyond that was not traced; system calls are the same in number.",
            ),
            Self::Replay => Some(
                "An answer is read from JSON, checked against its schema and parsed again; a step is only read.",
            ),
            Self::Store => Some(
                "PostgreSQL: after a push, waiting workers are told, and that runs beside the next command. NATS: `publish` waits until the server has the event, the bare client waits for nothing; an acknowledged job is overwritten before it is removed. (Inferred from what is sent, not isolated.)",
            ),
            Self::Results => Some(
                "`fetch_stream` makes a map of every row; whoever leaves rows as text reads as fast as asked.",
            ),
            Self::Snapshot => Some(
                "Each side is measured three times, and the same side differs by a tenth from run to run.",
            ),
            Self::Transport | Self::Tasks | Self::Telemetry => None,
        }
    }

    /// The words after `cargo xtask bench`, a command each.
    pub(super) fn commands(self, length: Length) -> Vec<Vec<&'static str>> {
        let (full, quick): (&[&[&str]], &[&[&str]]) = match self {
            Self::Call => (&[&["call", "--limit", "1.05"]], &[&["call", "--seconds", "3"]]),
            Self::Transport => (&[&["transport"]], &[&["transport", "--seconds", "1"]]),
            Self::Replay => (&[&["replay"]], &[&["replay"]]),
            Self::Store => (&[&["store"]], &[&["store", "--seconds", "1"]]),
            Self::Tasks => (
                &[&["tasks"], &["tasks", "--waiting", "100000"]],
                &[&["tasks", "--count", "320"], &["tasks", "--waiting", "2000"]],
            ),
            Self::Results => (&[&["results"]], &[&["results", "--seconds", "2", "--streams", "3"]]),
            Self::Snapshot => (&[&["snapshot"]], &[&["snapshot", "--rows", "1000000", "--times", "1"]]),
            Self::Telemetry => (&[&["telemetry"]], &[&["telemetry", "--seconds", "3"]]),
        };
        let chosen = if length.quick { quick } else { full };
        let mut commands: Vec<Vec<&str>> = chosen.iter().map(|words| words.to_vec()).collect();
        if self == Self::Tasks && length.restate {
            commands[0].push("--restate");
        }
        commands
    }

    /// Runs its commands, one after the other.
    pub(super) fn measure(self, project: &Project, length: Length) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for words in self.commands(length) {
            figures.extend(bench::measure(project, &parsed(&words)?)?);
        }
        Ok(figures)
    }
}

/// A command as it would be typed, so that the page can say what was run.
fn parsed(words: &[&str]) -> Result<Kind> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(subcommand)]
        kind: Kind,
    }
    Ok(Line::try_parse_from(std::iter::once("bench").chain(words.iter().copied()))?.kind)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_command_of_every_part_is_one() {
        for part in Part::ALL {
            for (quick, restate) in [(false, false), (true, false), (false, true)] {
                let commands = part.commands(Length { quick, restate });
                assert!(!commands.is_empty(), "{part:?}");
                for words in commands {
                    assert_eq!(words[0], part.name());
                    parsed(&words).unwrap();
                }
            }
        }
    }

    #[test]
    fn parts_are_called_the_same_everywhere() {
        for part in Part::ALL {
            assert_eq!(Part::from_str(part.name(), false), Ok(part));
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
        assert_eq!(Part::value_variants(), Part::ALL);
    }
}
