//! What the drivers are told to call, what they print, and what it should be.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::matrix::Era;

/// A column of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cell {
    /// Connect on the revision, list the tools.
    List,
    /// A tool that answers at once.
    Call,
    /// A tool that asks the person.
    Ask,
    /// A tool that asks the model.
    Sample,
    /// A tool that asks the model for data: the client is sent the tool `__schema__`, of which it knows nothing.
    Data,
    /// A tool that says how far it is.
    Progress,
    /// A tool that logs.
    Log,
    /// The `tour` example: two questions in a row, three at once, then a step.
    Tour,
}

impl Cell {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Call => "call",
            Self::Ask => "ask",
            Self::Sample => "sample",
            Self::Data => "data",
            Self::Progress => "progress",
            Self::Log => "log",
            Self::Tour => "tour",
        }
    }
}

/// A call, and what must come of it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub cell: Cell,
    pub tool: &'static str,
    pub arguments: Value,
    /// Part of the text that comes back.
    pub text: &'static str,
}

impl Call {
    /// As a driver reads it.
    pub(crate) fn plan(&self) -> Value {
        json!({"cell": self.cell.name(), "tool": self.tool, "arguments": self.arguments})
    }
}

/// The first line a driver prints.
#[derive(Debug, Deserialize)]
pub(crate) struct About {
    /// What was negotiated, where the peer tells.
    revision: Option<String>,
    /// The same, where it tells no more than that.
    era: Option<String>,
    tools: Vec<String>,
}

impl About {
    pub(crate) fn check(&self, era: Era, calls: &[Call]) -> Result<()> {
        if let Some(revision) = &self.revision {
            ensure!(revision == era.revision(), "the revision is {revision}, not {}", era.revision());
        }
        if let Some(found) = &self.era {
            ensure!(found == era.name(), "the era is {found}, not {}", era.name());
        }
        for call in calls {
            ensure!(self.tools.iter().any(|it| it == call.tool), "`{}` is not among the tools", call.tool);
        }
        Ok(())
    }
}

/// What a driver prints for a call.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub cell: Cell,
    ok: bool,
    #[serde(default)]
    text: String,
    #[serde(default)]
    structured: Value,
    /// The first field of every form that was filled in.
    #[serde(default)]
    asked: Vec<String>,
    /// The prompt of every sample that was answered.
    #[serde(default)]
    sampled: Vec<String>,
    /// The first tool of every sample that had tools.
    #[serde(default)]
    tools: Vec<String>,
    /// How many `tools/call` requests left, where that can be seen.
    calls: Option<usize>,
    #[serde(default)]
    progress: usize,
    #[serde(default)]
    logs: usize,
}

const TOUR: &str = "Ada: Lisbon in May, Aurora, fish, window; booked ref-";

impl Line {
    pub(crate) fn check(&self, call: &Call, era: Era) -> Result<()> {
        ensure!(self.ok, "the tool answered with an error: {:?}", self.text);
        ensure!(self.text.contains(call.text), "the text is {:?}, without {:?}", self.text, call.text);
        let (asked, sampled) = (self.asked.len(), self.sampled.len());
        let rounds = match call.cell {
            Cell::Tour => self.check_tour()?,
            Cell::Ask => {
                ensure!((asked, sampled) == (1, 0), "{asked} forms and {sampled} samples, not one form");
                1
            }
            Cell::Sample => {
                ensure!((asked, sampled) == (0, 1), "{asked} forms and {sampled} samples, not one sample");
                1
            }
            Cell::Data => {
                ensure!((asked, sampled) == (0, 1), "{asked} forms and {sampled} samples, not one sample");
                ensure!(self.tools == ["__schema__"], "the client was sent the tools {:?}", self.tools);
                1
            }
            _ => {
                ensure!(
                    (asked, sampled) == (0, 0),
                    "{asked} forms and {sampled} samples, where none should be"
                );
                0
            }
        };
        if call.cell == Cell::Progress {
            ensure!(self.progress >= 3, "{} notices of progress, not 3", self.progress);
        }
        if call.cell == Cell::Log {
            ensure!(self.logs >= 1, "no line of the log came");
        }
        // At 2026-07-28 each round is a call.
        let expected = if era == Era::Modern { 1 + rounds } else { 1 };
        let sent = self.calls.unwrap_or(expected);
        ensure!(sent == expected, "{sent} `tools/call` requests were sent, not {expected}");
        Ok(())
    }

    /// Two serial answers, then three at once.
    fn check_tour(&self) -> Result<usize> {
        let reference =
            self.text.strip_prefix(TOUR).with_context(|| format!("the text is {:?}", self.text))?;
        ensure!(reference.len() == 8, "the booking reference in {:?} has not 8 characters", self.text);
        let structured = booking(reference);
        ensure!(
            self.structured == structured,
            "the structured content is {}, not {structured}",
            self.structured
        );
        // The three concurrent questions may come in any order, but after the two serial ones.
        let (serial, concurrent) = self.asked.split_at(self.asked.len().min(2));
        let mut concurrent = concurrent.to_vec();
        concurrent.sort();
        ensure!(
            serial == ["destination", "month"] && concurrent == ["hotel", "meal", "seat"],
            "the questions were {:?}",
            self.asked
        );
        Ok(3)
    }
}

fn booking(reference: &str) -> Value {
    json!({
        "traveller": "Ada", "destination": "Lisbon", "month": "May",
        "hotel": "Aurora", "meal": "fish", "seat": "window",
        "reference": format!("ref-{reference}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tour() -> Call {
        Call { cell: Cell::Tour, tool: "plan_trip", arguments: json!({}), text: "Lisbon" }
    }

    fn line(asked: &[&str], calls: usize) -> Line {
        let line = json!({
            "cell": "tour", "ok": true, "text": format!("{TOUR}0123abcd"), "structured": booking("0123abcd"),
            "asked": asked, "calls": calls,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn concurrent_questions_may_come_in_any_order() {
        let check = |asked: &[&str]| line(asked, 4).check(&tour(), Era::Modern);
        assert!(check(&["destination", "month", "seat", "hotel", "meal"]).is_ok());
        assert!(check(&["month", "destination", "seat", "hotel", "meal"]).is_err());
    }

    #[test]
    fn a_question_asked_twice_is_an_error() {
        let asked = ["destination", "month", "seat", "hotel", "meal", "meal"];
        assert!(line(&asked, 4).check(&tour(), Era::Modern).is_err());
    }

    #[test]
    fn one_round_too_many_is_an_error() {
        let asked = ["destination", "month", "seat", "hotel", "meal"];
        assert!(line(&asked, 5).check(&tour(), Era::Modern).is_err());
        assert!(line(&asked, 4).check(&tour(), Era::Legacy).is_err());
        assert!(line(&asked, 1).check(&tour(), Era::Legacy).is_ok());
    }

    #[test]
    fn a_sample_that_nobody_answered_is_an_error() {
        let call = Call { cell: Cell::Sample, tool: "consult", arguments: json!({}), text: "" };
        let read = |sampled: Value| -> Line {
            serde_json::from_value(json!({"cell": "sample", "ok": true, "sampled": sampled})).unwrap()
        };
        assert!(read(json!(["a haiku"])).check(&call, Era::Legacy).is_ok());
        assert!(read(json!([])).check(&call, Era::Legacy).is_err());
    }

    #[test]
    fn data_that_did_not_come_from_the_reserved_tool_are_an_error() {
        let call = Call { cell: Cell::Data, tool: "test_sampling_data", arguments: json!({}), text: "" };
        let read = |tools: Value| -> Line {
            serde_json::from_value(
                json!({"cell": "data", "ok": true, "sampled": ["Where to?"], "tools": tools}),
            )
            .unwrap()
        };
        assert!(read(json!(["__schema__"])).check(&call, Era::Legacy).is_ok());
        assert!(read(json!([])).check(&call, Era::Legacy).is_err());
    }

    #[test]
    fn another_revision_than_asked_for_is_an_error() {
        let about = |revision: Value| -> About {
            serde_json::from_value(json!({"revision": revision, "tools": ["plan_trip"]})).unwrap()
        };
        assert!(about(json!("2026-07-28")).check(Era::Modern, &[tour()]).is_ok());
        assert!(about(json!("2025-11-25")).check(Era::Modern, &[tour()]).is_err());
        assert!(about(Value::Null).check(Era::Modern, &[tour()]).is_ok());
    }
}
