//! What no queue may do, and the law that each breaks.

use antiphon_store::Depth;

use super::super::all as all_laws;
use super::*;

fn id(number: u32) -> String {
    format!("job-{number}")
}

fn pushed(number: u32, delay: u64) -> Note {
    Note::Pushed { id: id(number), sent: 1000, delay, added: true }
}

fn leased(number: u32, attempt: u32, at: u64) -> Note {
    Note::Leased { id: id(number), attempt, sent: at, got: at }
}

fn done(number: u32, attempt: u32) -> Note {
    Note::Done { id: id(number), attempt }
}

fn acked(number: u32, attempt: u32) -> Note {
    Note::Acked { id: id(number), attempt }
}

/// Job 0 is done at once; job 1 is done by a worker that dies before it can say so, and again by another;
/// job 2 is given back, and was delayed.
fn sound() -> Evidence {
    let first = [pushed(0, 0), leased(0, 1, 2000), done(0, 1), acked(0, 1)];
    let second = [pushed(1, 0), leased(1, 1, 2000), done(1, 1), leased(1, 2, 4000), done(1, 2), acked(1, 2)];
    let third = [
        pushed(2, 900),
        leased(2, 1, 2000),
        Note::Nacked { id: id(2), attempt: 1 },
        leased(2, 2, 2001),
        done(2, 2),
        acked(2, 2),
    ];
    let notes = first.into_iter().chain(second).chain(third).collect();
    Evidence { notes, jobs: 3, lease: 2000, ..Evidence::default() }
}

fn broken_with(change: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = sound();
    change(&mut evidence);
    all_laws(&evidence).into_iter().filter(|it| !it.complaints.is_empty()).map(|it| it.law).collect()
}

#[test]
fn a_sound_story_breaks_no_law() {
    assert_eq!(broken_with(|_| {}), Vec::<&str>::new());
    let counted = Tally { done: 3, redeliveries: 2, repeats: 1, pushed_again: 0 };
    assert_eq!(Tally::of(&sound()), counted);
}

#[test]
fn a_lost_job_is_seen() {
    assert_eq!(broken_with(|it| it.jobs = 4), ["every job is done"]);
}

#[test]
fn a_job_that_stays_is_seen() {
    let law = ["no job is left over, and none is dead"];
    assert_eq!(broken_with(|it| it.depth = Depth { leased: 1, ..Depth::default() }), law);
    assert_eq!(broken_with(|it| it.depth = Depth { dead: 1, ..Depth::default() }), law);
}

#[test]
fn two_holders_are_seen() {
    let broken = broken_with(|it| it.notes.push(leased(0, 1, 5000)));
    assert_eq!(broken, ["one attempt has one holder"]);
}

#[test]
fn an_acknowledged_job_that_comes_again_is_seen() {
    let broken = broken_with(|it| it.notes.push(leased(0, 2, 5000)));
    assert_eq!(broken, ["an acknowledged job is not given again"]);
    let broken = broken_with(|it| it.notes.push(acked(1, 1)));
    assert_eq!(broken, ["an acknowledged job is not given again"]);
}

#[test]
fn a_lease_cut_short_is_seen() {
    let law = ["no job is taken over before its lease has run out"];
    let early = |it: &mut Evidence| it.lease = 2500;
    assert_eq!(broken_with(early), law);
    let extended = Note::Extended { id: id(1), attempt: 1, sent: 3000 };
    assert_eq!(broken_with(|it| it.notes.push(extended)), law);
}

#[test]
fn work_done_twice_in_one_attempt_is_seen() {
    assert_eq!(broken_with(|it| it.notes.push(done(0, 1))), ["what was done twice was given twice"]);
}

#[test]
fn a_job_before_its_time_is_seen() {
    let early = |it: &mut Evidence| it.notes.push(leased(3, 1, 1500));
    assert_eq!(
        broken_with(|it| {
            early(it);
            it.notes.push(pushed(3, 900));
        }),
        ["no delayed job comes before its time"]
    );
}

#[test]
fn the_delay_of_a_push_that_added_nothing_means_nothing() {
    let again = Note::Pushed { id: id(0), sent: 1000, delay: 9000, added: false };
    assert_eq!(broken_with(|it| it.notes.push(again)), Vec::<&str>::new());
}

#[test]
fn another_jobs_payload_is_seen() {
    let mixed = Note::Mixed { id: id(0), payload: id(1) };
    assert_eq!(broken_with(|it| it.notes.push(mixed)), ["every job comes with its own payload"]);
}

#[test]
fn a_job_pushed_again_after_a_lost_answer_may_have_two_lives() {
    let second_life = [Note::MayHavePushed { id: id(0) }, leased(0, 1, 9000), done(0, 1), acked(0, 1)];
    assert_eq!(broken_with(|it| it.notes.extend(second_life)), Vec::<&str>::new());
}
