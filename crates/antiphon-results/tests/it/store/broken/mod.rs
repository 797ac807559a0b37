//! The laws can fail: each is broken by a store with one fault.

mod fault;
mod faulty;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::Arc,
};

use antiphon_results::store::{ResourceStore, conformance::Stores};

use self::{fault::Fault, faulty::Faulty};
use super::run_paused;

/// Makes one test of each pair of a fault and a law that it must break.
macro_rules! breaks {
    ($($fault:ident: $($law:ident)*;)*) => {
        $(
            #[expect(non_snake_case, reason = "a test is named after the fault and the law")]
            mod $fault {
                $(
                    #[test]
                    fn $law() {
                        super::assert_breaks(super::Fault::$fault, stringify!($law), async || {
                            let stores = super::Stores::new(stringify!($law), super::open).await;
                            let stores = stores.expect("memory is always there");
                            antiphon_results::store::conformance::$law(&stores).await;
                        });
                    }
                )*
            }
        )*
        const BROKEN: &[&str] = &[$($(stringify!($law),)*)*];
    };
}

breaks! {
    OpeningsAreAlone: save_is_seen_by_another_opening closing_twice_is_fine;
    SaveRoundsTimes: saved_resource_is_read_back_equal;
    SaveCutsText: saved_resource_is_read_back_equal partial_update_changes_only_what_it_gives;
    FirstSaveStays: saved_again_is_as_it_was_last_written;
    UpdateCreates: unknown_resource_is_nothing deleted_resource_is_not_brought_back_by_an_update;
    IdsAreMadeGood: hostile_ids_are_unknown;
    IdsIgnoreCase: ids_that_look_alike_are_different rows_of_sets_are_apart;
    UpdateClearsTheRest: partial_update_changes_only_what_it_gives;
    UpdateLooksThenWrites: updates_of_different_fields_at_once_are_all_kept racing_accesses_are_counted_exactly
        revoking_links_raises_the_epoch deleted_resource_is_not_brought_back_by_an_update;
    UpdateReturnsWhatWas: update_returns_what_the_resource_then_is revoking_links_raises_the_epoch
        partial_update_changes_only_what_it_gives;
    RevocationsAreOne: revoking_links_raises_the_epoch;
    SecondCloseFails: closing_twice_is_fine;
    AccessesCountForOne: accesses_add_up_and_the_latest_is_kept;
    AccessesComeLast: accesses_add_up_and_the_latest_is_kept;
    ChangesAreAccesses: accesses_add_up_and_the_latest_is_kept;
    AbandonedHoldsUpAll: abandoned_update_takes_nobody_along;
    AbandonedTakesAllAlong: abandoned_update_takes_nobody_along;
    ExpiredIsUpdated: access_to_what_has_expired_is_refused;
    ExpiredIsHidden: expired_resource_is_seen_until_it_is_deleted;
    DeleteOnlySaysSo: deleted_resource_is_gone_and_remembered deletion_takes_even_what_is_pinned
        expired_resource_is_gone_and_remembered;
    DeleteIsToldToAll: racing_deleters_have_one_winner deleted_resource_is_gone_and_remembered;
    TombstonesAreForgotten: deleted_resource_is_gone_and_remembered expired_resource_is_gone_and_remembered
        racing_deleters_have_one_winner unpinned_resource_ends_again;
    TombstonesSayDeleted: expired_resource_is_gone_and_remembered expired_are_found_and_no_others;
    LastTombstoneStays: deleted_resource_is_gone_and_remembered expired_resource_is_gone_and_remembered
        racing_deleters_have_one_winner;
    ExpiryDoesNotLook: expiry_spares_what_was_pinned_or_extended expired_resource_is_gone_and_remembered;
    PinsAreAgainstPeople: deletion_takes_even_what_is_pinned;
    LiveIsFound: expired_are_found_and_no_others life_ends_by_itself extended_resource_ends_at_its_new_end;
    PinnedIsFound: pinned_resource_is_never_found expired_are_found_and_no_others unpinned_resource_ends_again;
    NothingIsFound: life_ends_by_itself expired_are_found_and_no_others found_is_not_given_again_at_once;
    FindsAreForgotten: found_is_not_given_again_at_once racing_cleaners_share_what_has_expired;
    PinsLastForEver: unpinned_resource_ends_again;
    FirstEndStays: extended_resource_ends_at_its_new_end shortened_resource_ends_at_its_new_end;
    RowsAreBackwards: rows_are_read_at_every_place many_rows_are_read_in_order;
    PagesAreShort: many_rows_are_read_in_order;
    BeyondTheEndIsTheLast: rows_are_read_at_every_place;
    LargeRowsAreLeftOut: rows_of_every_size_are_kept;
    RowsAreRewritten: rows_of_every_size_are_kept;
    RowsAreOfAll: rows_of_sets_are_apart;
    RowsStay: rows_of_a_deleted_set_are_gone;
    NoRowsAreOne: no_rows_are_no_rows unknown_resource_is_nothing;
}

/// A law for which nobody has written a fault has not been seen to fail.
#[test]
fn every_law_is_broken_by_some_fault() {
    // The macro makes tests of the laws, so the tests of this program are where their names are.
    let program = std::env::current_exe().expect("this program runs");
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output().expect("it can be run");
    let listed = String::from_utf8(listed.stdout).expect("names are text");
    let laws: BTreeSet<_> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("store::memory_store::")?.strip_suffix(": test"))
        .collect();
    assert!(laws.len() >= 36, "only {} laws were found", laws.len());
    let broken: BTreeSet<_> = BROKEN.iter().copied().collect();
    let unbroken: Vec<_> = laws.difference(&broken).collect();
    assert!(unbroken.is_empty(), "no fault breaks {unbroken:?}");
}

tokio::task_local! {
    /// What the stores that a law opens have.
    static FAULT: Option<Fault>;
}

async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
    Some(Arc::new(Faulty::open(space, FAULT.get())))
}

/// Checks that a law is kept by a store without faults, and broken by one with this fault.
#[track_caller]
fn assert_breaks(fault: Fault, name: &str, law: impl AsyncFn()) {
    run_paused(FAULT.scope(None, law()));
    let ended = catch_unwind(AssertUnwindSafe(|| run_paused(FAULT.scope(Some(fault), law()))));
    assert!(ended.is_err(), "{fault:?} does not break `{name}`");
}
