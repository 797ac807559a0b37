//! Histories that no store may leave behind, and the law that each breaks.

use super::super::all;
use super::*;

const KEY: &str = "raw/hot/0";
const LOG: &str = "raw/log/0";

fn op(writer: u32, number: u32) -> Op {
    Op(writer, 0, 0, number)
}

fn wrote(op: Op, place: usize, expected: Option<u64>, revision: u64) -> Note {
    Note::Wrote { key: KEY.into(), op, place, expected, revision }
}

fn appended(op: Op, at: u64, count: u64) -> Note {
    Note::Appended { log: LOG.into(), op, at, count }
}

fn entries(op: Op, count: u64) -> Vec<Entry> {
    (1..=count).map(|part| Entry { op, part, count }).collect()
}

/// Two acknowledged updates, one whose answer was lost, one whose writer was killed; and the same in a log.
fn sound() -> Evidence {
    let notes = vec![
        wrote(op(0, 1), 0, None, 7),
        wrote(op(1, 1), 1, Some(7), 9),
        Note::MayHaveWritten { key: KEY.into(), op: op(0, 2) },
        appended(op(0, 3), 0, 2),
        Note::MayHaveAppended { log: LOG.into(), op: op(0, 4), count: 1 },
        appended(op(1, 2), 2, 1),
    ];
    let log = [entries(op(0, 3), 2), entries(op(1, 2), 1), entries(op(2, 1), 3)].concat();
    Evidence {
        notes,
        records: [(KEY.into(), vec![op(0, 1), op(1, 1), op(0, 2), op(3, 5)])].into(),
        logs: [(LOG.into(), log)].into(),
        ..Evidence::default()
    }
}

/// Which laws `evidence` breaks.
fn broken(evidence: &Evidence) -> Vec<&'static str> {
    all(evidence).into_iter().filter(|it| !it.complaints.is_empty()).map(|it| it.law).collect()
}

#[test]
fn a_sound_history_breaks_no_law() {
    assert_eq!(broken(&sound()), Vec::<&str>::new());
}

#[test]
fn a_lost_update_is_seen() {
    let mut evidence = sound();
    evidence.records.get_mut(KEY).unwrap().remove(1);
    assert_eq!(broken(&evidence), ["no acknowledged update is lost"]);
    evidence.records.clear();
    assert_eq!(broken(&evidence), ["no acknowledged update is lost"]);
}

#[test]
fn two_winners_are_seen() {
    let mut evidence = sound();
    evidence.notes.push(wrote(op(4, 1), 4, Some(7), 11));
    evidence.records.get_mut(KEY).unwrap().push(op(4, 1));
    assert_eq!(broken(&evidence), ["no two winners of one revision"]);
}

#[test]
fn a_revision_that_comes_back_is_seen() {
    let mut evidence = sound();
    evidence.notes.push(wrote(op(4, 1), 4, Some(10), 9));
    evidence.records.get_mut(KEY).unwrap().push(op(4, 1));
    assert_eq!(broken(&evidence), ["no two winners of one revision"]);
}

#[test]
fn an_update_of_another_revision_is_seen() {
    let mut evidence = sound();
    evidence.notes[1] = wrote(op(1, 1), 1, Some(8), 9);
    assert_eq!(broken(&evidence), ["each update replaced the revision it named"]);
}

#[test]
fn a_lost_append_is_seen() {
    let mut evidence = sound();
    evidence.logs.get_mut(LOG).unwrap().drain(..2);
    assert_eq!(broken(&evidence), ["no acknowledged append is lost or moved"]);
}

#[test]
fn half_an_append_is_seen() {
    let mut evidence = sound();
    evidence.logs.get_mut(LOG).unwrap().pop();
    assert_eq!(broken(&evidence), ["an append is there whole or not at all"]);
}

#[test]
fn a_refused_write_that_was_made_is_seen() {
    const LAW: &str = "nothing was written but what was wanted, and that once";
    let mut evidence = sound();
    // Its writer went on to write 2, 3 and 4, so it must have been told that this one failed.
    evidence.records.get_mut(KEY).unwrap().push(op(0, 0));
    assert_eq!(broken(&evidence), [LAW]);
    // Of one task only one write can have been under way.
    let mut evidence = sound();
    evidence.records.get_mut(KEY).unwrap().push(op(3, 6));
    assert_eq!(broken(&evidence), [LAW]);
    let mut evidence = sound();
    evidence.records.get_mut(KEY).unwrap().push(op(0, 2));
    assert_eq!(broken(&evidence), [LAW]);
}

#[test]
fn a_read_of_the_past_is_seen() {
    let mut evidence = sound();
    evidence.notes.push(Note::WentBack { name: KEY.into(), had: 3, saw: 2 });
    assert_eq!(broken(&evidence), ["what was seen is seen by every later read"]);
}
