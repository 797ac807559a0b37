//! The durable part of Antiphon, pure: *given what happened, what happens next?*
//!
//! A tool is straight-line code that asks questions and takes steps. Between two rounds with the
//! client nothing of it stays in memory but a [`Journal`]: what the code has seen so far. The next
//! round runs the same code again from the top, and a [`Machine`] hands it what the journal holds
//! until the code is where it was. Then it goes on.
//!
//! This crate does no I/O, reads no clock, and knows neither an async runtime nor MCP. A driver
//! polls the code, tells the machine what the code waits for, and asks [`Machine::advance`] what to
//! do next. That makes every rule testable as a function of its inputs:
//!
//! 1. A [`Key`] is taken when the code *calls*; work begins when the code *waits* and is at rest.
//! 2. Recorded completions are handed over one at a time, in recorded order. Nothing new starts
//!    before the journal is drained.
//! 3. Questions that wait together are asked together ([`Machine::suspend`]).
//! 4. Every question and step has a [`Fingerprint`]. A finished entry that no longer fits the code is
//!    [`Drift`]; a pending question that was merely reworded is asked again.
//! 5. Only questions that were asked accept answers; unknown answers are ignored, missing ones are
//!    asked for again.
//!
//! ```
//! use antiphon_replay::{Advance, Journal, Machine, Op, Turn};
//! use serde_json::json;
//!
//! // First round: the code waits for one answer.
//! let mut machine = Machine::new(Journal::new("run-1"));
//! let key = machine.take_key("", "size");
//! let op = Op::ask("elicit `Which size?`", &json!({"message": "Which size?"}));
//! assert!(matches!(machine.ask(&key, &op, || json!({"message": "Which size?"})), Turn::Wait));
//! assert!(matches!(machine.advance(), Ok(Advance::Opened)));
//! assert!(matches!(machine.advance(), Ok(Advance::Blocked(_))));
//! let suspension = machine.suspend()?;
//! assert_eq!(suspension.asks.len(), 1);
//!
//! // Second round, on any machine: the journal and an answer are all it takes.
//! let mut machine = Machine::new(suspension.journal).with_answers([("size".into(), json!("L"))]);
//! let key = machine.take_key("", "size");
//! machine.ask(&key, &op, || json!({"message": "Which size?"}));
//! while !matches!(machine.advance()?, Advance::Deliver(_)) {}
//! assert!(matches!(machine.ask(&key, &op, || json!(null)), Turn::Ready(_)));
//! # Ok::<(), antiphon_replay::Drift>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod journal;
mod key;
mod machine;
#[cfg(feature = "__mutations")]
mod mutation;
mod op;
mod turn;

pub use error::{Drift, FormatError};
pub use journal::{Asked, Entry, FORMAT, Failure, Journal, Outcome};
pub use key::Key;
pub use machine::Machine;
#[cfg(feature = "__mutations")]
pub use mutation::Mutation;
pub use op::{Fingerprint, Kind, Op, canonical};
pub use turn::{Advance, Blocked, Suspension, Tally, Turn};
