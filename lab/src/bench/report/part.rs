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
                "The same echo tool on Antiphon and on bare rmcp, both over axum. The servers use one processor and the load generator another. They are loaded in turn."
            }
            Self::Transport => {
                "The baseline does not use MCP: the underlying library (a pipe, axum, tungstenite) returns the bytes of the call unread. So the ratio includes the complete cost of MCP, of the SDK and of Antiphon."
            }
            Self::Replay => {
                "These figures are measured in one process, without a transport. A leg starts with the request and ends with the response. It reads the journal from its `requestState`."
            }
            Self::Store => {
                "The baseline is the bare client, which sends the same command to the same server, in turn. The speed of leases is also compared with the backend's own queue, where it has one."
            }
            Self::Tasks => {
                "Legs are compared with lease and acknowledgement of the same payload on the bare queue. A run has two steps, a question and a third step. In the last rows, many runs wait for an answer. All figures are measured in one process, without HTTP."
            }
            Self::Results => {
                "Pages are compared with the same query on bare sqlx and axum. Streams are compared with `curl`, which discards the bytes."
            }
            Self::Snapshot => {
                "The baselines are the bare engines (`ArrowWriter`, parquet, DataFusion) and PostgreSQL with the same rows. The [guide](guides/snapshots.md#performance) shows how the figures grow with the number of rows."
            }
            Self::Telemetry => {
                "The same server runs three times, in turn: without telemetry, with metrics, and with metrics and spans. The exporter drops every span."
            }
        }
    }

    /// What keeps limits from being met, as far as it is known.
    pub(super) fn limited_by(self) -> Option<&'static str> {
        match self {
            Self::Call => Some(
                "In addition to the SDK's work, each call enforces a body-size limit and a read timeout, and inspects the request (4 % of its instructions). It also records a run that could be replayed (6 %), and closes stalled connections. Callgrind counts 146,000 instructions per call, compared with 130,000, on 2025-11-25 (1.12), and 208,000, compared with 192,000, on 2026-07-28 (1.08). The rest of the ratio is not explained. The number of system calls is the same.",
            ),
            Self::Replay => Some(
                "Replay reads an answer from JSON, checks it against its schema and parses it again. It only reads a step.",
            ),
            Self::Store => Some(
                "PostgreSQL: a push notifies waiting workers, and this overlaps with the next command. NATS: `publish` waits until the server has the event, and the bare client does not wait. An acknowledged job is overwritten before it is removed. (Inferred from the commands, not measured separately.)",
            ),
            Self::Results => Some(
                "`fetch_stream` parses every row into a map. `fetch_stream_as` with raw JSON and `fetch_stream_text` meet the limit.",
            ),
            Self::Snapshot => Some(
                "Each side is measured three times. Repeated measurements of the same side differ by up to a tenth.",
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
