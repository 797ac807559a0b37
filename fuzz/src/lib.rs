//! What is fuzzed: one function a target, from bytes to nothing.
//!
//! A target fails by panicking, also where the panic would be caught, or by not coming back. What it was fed is in
//! `corpus/`; the tests here feed it that again, so that what was found once stays found. The programs that look for
//! more are in `targets/`, and `cargo xtask fuzz` builds and runs them.

mod answers;
mod messages;
mod rest;
mod saved;
#[cfg(feature = "sql")]
mod sql;

use std::{cell::RefCell, future::Future, time::Duration};

use antiphon_replay::{Advance, Journal, Machine};

#[cfg(feature = "sql")]
pub use self::sql::{filter, sql};
pub use self::{
    answers::answers,
    messages::messages,
    rest::rest,
    saved::{ingest, parquet},
};

/// `requestState`, and what stays with the servers: as a client sends it, and as if it were ours.
pub fn seal(data: &[u8]) {
    antiphon::fuzzing::seal(data);
}

/// A journal, and the machine that is made of it.
pub fn journal(data: &[u8]) {
    let Ok(journal) = Journal::from_json(data) else { return };
    let again = Journal::from_json(&journal.to_json()).expect("what was read can be written and read");
    assert_eq!(again, journal, "and is the same");
    let entries = journal.entries.len();
    let mut machine = Machine::new(journal.clone());
    for _ in 0..=entries {
        match machine.advance() {
            Ok(Advance::Deliver(_) | Advance::Opened) => {}
            Ok(Advance::Blocked(_)) | Err(_) => break,
        }
    }
    let _ = machine.check_complete();
    if let Ok(suspended) = machine.suspend() {
        let _ = suspended.journal.to_json();
    }
    assert!(journal.without_last_failures().entries.len() <= entries);
}

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a future on a runtime that this thread keeps.
fn run<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: RefCell<tokio::runtime::Runtime> = RefCell::new(
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("there is a runtime"),
        );
    }
    RUNTIME.with_borrow(|runtime| {
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await });
        ended.expect("it comes back")
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Feeds a target all that is kept for it, whole and cut short.
    fn feed(name: &str, target: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut fed = 0;
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let data = fs::read(entry.unwrap().path()).unwrap();
            target(&data);
            target(&data[..data.len() / 2]);
            target(&data[..data.len().saturating_sub(1)]);
            fed += 1;
        }
        assert!(fed >= 3, "{} has {fed} files", folder.display());
        target(b"");
    }

    #[test]
    fn seal_target_takes_its_corpus() {
        feed("seal", seal);
    }

    #[test]
    fn journal_target_takes_its_corpus() {
        feed("journal", journal);
    }

    #[test]
    fn messages_target_takes_its_corpus() {
        feed("messages", messages);
    }

    #[test]
    fn rest_target_takes_its_corpus() {
        feed("rest", rest);
    }

    #[test]
    fn ingest_target_takes_its_corpus() {
        feed("ingest", ingest);
    }

    #[test]
    fn parquet_target_takes_its_corpus() {
        feed("parquet", parquet);
    }

    #[test]
    fn answers_target_takes_its_corpus() {
        feed("answers", answers);
    }

    #[cfg(feature = "sql")]
    #[test]
    fn filter_target_takes_its_corpus() {
        feed("filter", filter);
    }

    #[cfg(feature = "sql")]
    #[test]
    fn sql_target_takes_its_corpus() {
        feed("sql", sql);
    }
}
