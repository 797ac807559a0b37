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

/// Tokens of forms and of the web page for answers: changed ones are rejected.
pub fn tokens(data: &[u8]) {
    antiphon::fuzzing::tokens(data);
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

/// Lets the libraries that decode files panic where that is contained: on a thread that works for a task, which hands it
/// over as an error. `parquet` does, for files that say wrong things of their own schema. A panic of ours is one all the same.
pub fn contain() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_ours = panic.location().is_none_or(|place| place.file().contains("antiphon"));
        let is_contained = std::thread::current().name() == Some("tokio-rt-worker");
        if is_ours || !is_contained {
            hook(panic);
        }
    }));
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
    use std::{fs, path::Path, time::Instant};

    use super::*;

    /// For how long a target is fed what is near its corpus. What finds its way by coverage is `cargo xtask fuzz`.
    const NEAR: Duration = Duration::from_secs(3);

    /// Feeds a target all that is kept for it, whole and cut short, and then what is near it.
    fn feed(name: &str, target: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut kept = Vec::new();
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let data = fs::read(entry.unwrap().path()).unwrap();
            target(&data);
            target(&data[..data.len() / 2]);
            target(&data[..data.len().saturating_sub(1)]);
            kept.push(data);
        }
        assert!(kept.len() >= 3, "{} has {} files", folder.display(), kept.len());
        target(b"");
        // The same inputs in every run: whether a change passes does not depend on chance. `cargo xtask fuzz` searches.
        let seed = std::env::var("ANTIPHON_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap());
        println!("seed {seed}");
        let (mut rng, began) = (fastrand::Rng::with_seed(seed), Instant::now());
        while began.elapsed() < NEAR {
            target(&near(&kept, &mut rng));
        }
    }

    /// One of the corpus with a few bytes changed, cut out, repeated, or taken from another.
    fn near(kept: &[Vec<u8>], rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut data = kept[rng.usize(..kept.len())].clone();
        for _ in 0..rng.usize(1..5) {
            let at = rng.usize(..=data.len());
            let end = rng.usize(at..=data.len().min(at + 32));
            match rng.u8(..4) {
                0 if at < data.len() => data[at] = rng.u8(..),
                1 => drop(data.drain(at..end)),
                2 => {
                    let again = data[at..end].to_vec();
                    data.splice(at..at, again);
                }
                _ => {
                    let other = &kept[rng.usize(..kept.len())];
                    let from = rng.usize(..=other.len());
                    let to = rng.usize(from..=other.len().min(from + 64));
                    data.splice(at..end, other[from..to].iter().copied());
                }
            }
        }
        data
    }

    #[test]
    fn seal_target_takes_its_corpus() {
        feed("seal", seal);
    }

    #[test]
    fn tokens_target_takes_its_corpus() {
        feed("tokens", tokens);
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
