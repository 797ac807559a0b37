//! The tests above, tested: each broken rule is noticed.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use antiphon_replay::Mutation;

use crate::{harness::MUTATION, prefixes, stories};

macro_rules! checks {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$((stringify!($name), $module::$name as fn())),*]
    };
}

/// What notices a mutation. Each of these must fail with it and pass without.
fn checks(mutation: Mutation) -> Vec<(&'static str, fn())> {
    match mutation {
        Mutation::BatchDelivery => checks![
            stories::one_question_follows_the_other_over_rounds,
            prefixes::every_schedule_of_answers_leads_to_one_result,
            prefixes::every_prefix_of_a_journal_leads_to_one_result,
            prefixes::a_race_replays_whoever_won,
        ],
        Mutation::OpenGate => checks![
            stories::an_instant_step_does_not_win_on_replay_a_race_it_lost,
            prefixes::every_prefix_of_a_journal_leads_to_one_result,
            prefixes::a_race_replays_whoever_won,
        ],
        Mutation::BlindFingerprint => checks![
            stories::an_answered_question_that_changed_is_drift,
            stories::a_question_that_changed_where_its_label_does_not_reach_is_drift,
            stories::a_step_that_became_a_question_is_drift,
            stories::a_step_that_became_a_loop_is_drift,
        ],
        Mutation::EagerAnswers => checks![
            stories::a_later_question_cannot_be_answered_before_it_was_asked,
            stories::answers_on_the_first_call_are_good_for_the_first_questions_only,
            prefixes::every_schedule_of_answers_leads_to_one_result,
        ],
        Mutation::PositionalKeys => checks![
            stories::keys_say_scope_name_and_occurrence,
            stories::questions_that_wait_together_are_asked_in_one_round,
            stories::a_new_question_beside_a_pending_one_does_not_take_its_answer,
        ],
    }
}

fn passes(mutation: Option<Mutation>, check: fn()) -> bool {
    MUTATION.set(mutation);
    let result = catch_unwind(AssertUnwindSafe(check));
    MUTATION.set(None);
    result.is_ok()
}

#[track_caller]
fn assert_caught(mutation: Mutation) {
    for (name, check) in checks(mutation) {
        assert!(!passes(Some(mutation), check), "`{name}` does not notice {mutation:?}");
    }
}

#[test]
fn without_a_mutation_every_check_passes() {
    let all: BTreeMap<_, _> = Mutation::ALL.into_iter().flat_map(checks).collect();
    for (name, check) in all {
        assert!(passes(None, check), "`{name}` fails although nothing is broken");
    }
}

#[test]
fn batch_delivery_is_caught() {
    assert_caught(Mutation::BatchDelivery);
}

#[test]
fn open_gate_is_caught() {
    assert_caught(Mutation::OpenGate);
}

#[test]
fn blind_fingerprint_is_caught() {
    assert_caught(Mutation::BlindFingerprint);
}

#[test]
fn eager_answers_is_caught() {
    assert_caught(Mutation::EagerAnswers);
}

#[test]
fn positional_keys_is_caught() {
    assert_caught(Mutation::PositionalKeys);
}
