//! The replay engine of Antiphon, as a pure state machine.
//!
//! A tool is sequential code that asks questions and runs steps. Between two rounds with the client, a run exists only
//! as a [`Journal`]. The journal contains the results that the code has received so far, in order. The next round runs
//! the same code again from the start. A [`Machine`] (the *replay machine*) delivers the results from the journal until
//! the code reaches the point where it was suspended. After this point, the code continues with new work.
//!
//! This crate does no I/O, reads no clock, and depends neither on an async runtime nor on MCP. A driver (the caller of
//! this crate) polls the code and passes the calls of the code to the replay machine. Then the driver calls
//! [`Machine::advance`], which returns the next action. Because the crate has no I/O, tests can check every rule of the
//! replay machine as a function of the inputs. The replay machine follows these rules:
//!
//! 1. The replay machine assigns a [`Key`] when the code *calls* a question or step. The work of a question or step
//!    starts later, when the code *awaits* the call and is idle. The code is idle if its last poll returned `Pending`
//!    and none of its futures has been woken since this poll.
//! 2. The replay machine delivers the recorded results one at a time, in recorded order. No new work starts before the
//!    code has received the whole journal.
//! 3. Questions that are pending at the same time are sent together ([`Machine::suspend`]).
//! 4. Every question and step has a [`Fingerprint`]. If a finished entry no longer matches the code, the replay
//!    machine returns [`Drift`]. If only the text of a pending question changed, the replay machine asks the question
//!    again.
//! 5. The replay machine accepts answers only to questions that were asked, and ignores all other answers. If a
//!    question has no answer, the replay machine asks the question again.
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
//! // Second round, possibly in another process: this round needs only the journal and the answer.
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
