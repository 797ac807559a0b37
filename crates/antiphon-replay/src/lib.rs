//! The replay engine of Antiphon, as a pure state machine.
//!
//! A tool is sequential code that asks questions and runs steps. Between two rounds with the client, only a
//! [`Journal`] remains: the ordered results that the code has received so far. The next round runs the same code
//! again from the top. A [`Machine`] delivers the results from the journal until the code reaches the point where
//! it was suspended. Then the code continues with new work.
//!
//! This crate does no I/O, reads no clock, and depends neither on an async runtime nor on MCP. A driver polls the
//! code and passes its calls to the machine. Then the driver calls [`Machine::advance`], which returns the next
//! action. Every rule can therefore be tested as a function of its inputs:
//!
//! 1. The machine assigns a [`Key`] when the code *calls*. Work starts after the code *awaits* the call and is
//!    idle. The code is idle if the last poll returned `Pending` and no future of it has been woken since.
//! 2. Recorded completions are delivered one at a time, in recorded order. No new work starts before the whole
//!    journal is delivered.
//! 3. Questions that are pending at the same time are asked together ([`Machine::suspend`]).
//! 4. Every question and step has a [`Fingerprint`]. If a finished entry no longer matches the code, the machine
//!    returns [`Drift`]. If only the text of a pending question changed, the question is asked again.
//! 5. Only questions that were asked accept answers. Unknown answers are ignored. Questions without an answer are
//!    asked again.
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
//! // Second round, possibly in another process: it needs only the journal and the answer.
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
