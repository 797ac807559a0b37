//! The laws can fail: each is broken by a backend with one fault.

mod backend;
mod bus;
mod fault;
mod queue;
mod store;

use std::{
    collections::BTreeSet,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::Arc,
    time::Duration,
};

use antiphon_store::{
    Bus, Queue, QueueConfig, Store,
    conformance::{Buses, Queues, Stores, fixtures},
};

use self::{backend::Broken, fault::Fault};

/// Makes one test of each pair of a fault and a law that it must break.
macro_rules! breaks {
    ($($fault:ident { $($kind:ident: $($law:ident)*;)* })*) => {
        $(
            #[expect(non_snake_case, reason = "a test is named after the fault and the law")]
            mod $fault {
                $($(
                    #[test]
                    fn $law() {
                        super::assert_breaks(super::Fault::$fault, stringify!($law), async || {
                            let fixture = super::open_all::$kind(stringify!($law)).await;
                            antiphon_store::conformance::$kind::$law(&fixture).await;
                        });
                    }
                )*)*
            }
        )*
        const BROKEN: &[&str] = &[$($($(stringify!($law),)*)*)*];
    };
}

breaks! {
    SpacesAreOne {
        store: spaces_do_not_see_each_other;
        queue: queues_and_spaces_are_apart;
        bus: other_topics_and_spaces_are_not_heard;
    }
    NamesIgnoreCase {
        store: names_that_look_alike_are_different listing_keeps_to_its_prefix;
        bus: other_topics_and_spaces_are_not_heard;
    }
    AnyNameIsTaken {
        store: bad_names_are_refused;
        queue: bad_names_and_large_payloads_are_refused;
        bus: bad_topics_and_large_events_are_refused;
    }
    BytesAreText {
        store: any_bytes_are_kept any_entry_is_kept largest_value_is_kept;
        queue: any_payload_is_kept;
        bus: any_event_is_carried;
    }
    EmptyIsNothing {
        store: any_bytes_are_kept any_entry_is_kept;
        queue: any_payload_is_kept;
        bus: any_event_is_carried;
    }
    LittleFits {
        store: largest_value_is_kept largest_append_is_kept_and_more_is_refused;
        queue: any_payload_is_kept;
        bus: any_event_is_carried;
    }
    LargeIsCut {
        store: too_large_value_is_refused largest_append_is_kept_and_more_is_refused;
        queue: bad_names_and_large_payloads_are_refused;
        bus: bad_topics_and_large_events_are_refused;
    }
    LimitsAreIgnored {
        store: claims_keep_to_their_prefix_and_limit claims_are_divided_among_racers
            listing_in_pages_shows_each_record_once log_is_read_in_parts;
        queue: no_more_jobs_than_asked_for dead_letters_are_listed_in_pages;
    }
    PagesLoseTheirLast {
        store: listing_in_pages_shows_each_record_once listing_goes_on_while_records_are_deleted;
        queue: dead_letters_are_listed_in_pages;
    }
    PagesOverlap {
        store: listing_in_pages_shows_each_record_once;
        queue: dead_letters_are_listed_in_pages;
    }

    ReadsInvent {
        store: absent_key_reads_as_nothing update_of_an_absent_record_is_a_conflict;
    }
    ReadsMistakeTheRevision {
        store: created_record_is_read_back update_at_its_revision_replaces_the_value;
    }
    OpeningsRemember {
        store: write_is_seen_by_another_opening;
    }
    CreateOverwrites {
        store: second_creation_is_a_conflict racing_creators_have_one_winner;
    }
    CreateLooksThenWrites {
        store: racing_creators_have_one_winner;
    }
    UpdateKeepsTheValue {
        store: update_at_its_revision_replaces_the_value listed_revision_can_be_written_at;
    }
    UpdateCreates {
        store: update_of_an_absent_record_is_a_conflict
            expired_record_is_neither_read_nor_listed_nor_updated;
    }
    UpdateIgnoresTheRevision {
        store: stale_update_is_a_conflict_and_changes_nothing revision_is_never_used_twice;
    }
    UpdateLooksThenWrites {
        store: racing_updaters_lose_no_update;
    }
    RevisionsAreDigests {
        store: revision_is_never_used_twice;
    }
    DeleteDoesNothing {
        store: delete_at_its_revision_removes_the_record listing_goes_on_while_records_are_deleted;
    }
    DeleteIgnoresTheRevision {
        store: stale_delete_is_a_conflict_and_removes_nothing reborn_record_is_safe_from_its_claimer;
    }
    DeleteOfNothingSucceeds {
        store: delete_of_an_absent_record_is_a_conflict;
    }
    DeleteTakesTheLogAlong {
        store: log_and_record_of_one_name_are_two_things;
    }

    PrefixesAreLetters {
        store: listing_keeps_to_its_prefix claims_keep_to_their_prefix_and_limit
            expired_records_are_removed_within_prefix_and_limit;
    }
    PagesAreCounted {
        store: listing_goes_on_while_records_are_deleted;
    }
    ListingMistakesTheRevision {
        store: listed_revision_can_be_written_at;
    }
    ExpiredIsListed {
        store: expired_record_is_neither_read_nor_listed_nor_updated;
    }
    ClockStandsStill {
        store: clock_is_shared_and_expires_records;
    }
    ExpiredIsInTheWay {
        store: expired_record_makes_room_for_a_new_one reborn_record_is_safe_from_its_claimer;
    }
    UpdateKeepsTheTimeToLive {
        store: write_without_a_time_to_live_never_expires update_begins_the_time_to_live_anew;
    }
    LiveIsClaimed {
        store: live_record_is_not_claimed expired_record_makes_room_for_a_new_one;
    }
    ClaimsAreForgotten {
        store: claimed_record_is_given_to_nobody_else claims_are_divided_among_racers;
    }
    ClaimsNeverLapse {
        store: lapsed_claim_can_be_taken_again;
    }
    ClaimsWrite {
        store: expired_record_is_claimed_and_deleted_at_its_revision lapsed_claim_can_be_taken_again;
    }

    RemovalDoesNothing {
        store: expired_records_are_removed_within_prefix_and_limit;
    }
    RemovalTakesTheLiving {
        store: bulk_removal_spares_live_and_claimed_records;
    }
    RemovalIgnoresClaims {
        store: bulk_removal_spares_live_and_claimed_records;
    }

    AbsentLogIsAnError {
        store: absent_log_is_empty;
    }
    LogsAreReadBackwards {
        store: entries_are_read_in_the_order_of_appending log_is_read_in_parts;
    }
    AppendIgnoresItsPlace {
        store: stale_append_is_a_conflict_that_says_the_length append_beyond_the_end_is_a_conflict
            racing_appenders_have_one_winner_a_place;
    }
    AppendHidesTheLength {
        store: stale_append_is_a_conflict_that_says_the_length;
    }
    AppendIsOneByOne {
        store: append_is_all_or_nothing;
    }
    DeletedLogStays {
        store: deleted_log_is_empty_and_begins_anew;
    }
    DeletedLogKeepsItsPlaces {
        store: deleted_log_is_empty_and_begins_anew;
    }

    QueuesAreOne {
        queue: queues_and_spaces_are_apart;
    }
    AttemptsBeginAtZero {
        queue: pushed_job_is_leased_with_its_payload id_of_a_finished_job_is_free;
    }
    AttemptsAreNotCounted {
        queue: lapsed_lease_goes_to_the_next_worker job_given_back_comes_again;
    }
    JobsAreGivenTwice {
        queue: leased_job_is_given_to_nobody_else racing_workers_share_the_jobs;
    }
    LeasesNeverRunOut {
        queue: lapsed_lease_goes_to_the_next_worker;
    }
    LeasesAreLostOnTheHour {
        queue: lapsed_lease_that_nobody_took_may_still_be_used;
    }
    ExtendDoesNothing {
        queue: extended_lease_lasts;
    }
    LeasesAreNotFenced {
        queue: lost_lease_changes_nothing;
    }
    AckDoesNothing {
        queue: acknowledged_job_is_gone;
    }
    AckAlwaysSucceeds {
        queue: acknowledging_twice_is_a_lost_lease lost_lease_changes_nothing;
    }
    NackIsAck {
        queue: job_given_back_comes_again;
    }
    DelaysAreIgnored {
        queue: delayed_job_is_not_leased_early job_given_back_waits_its_delay;
    }
    WorkersPoll {
        queue: waiting_worker_is_woken_by_a_push waiting_worker_is_woken_when_a_delay_ends
            waiting_worker_is_woken_when_a_lease_runs_out;
    }
    WorkersDoNotWait {
        queue: empty_queue_gives_nothing_when_the_wait_is_over waiting_worker_is_woken_by_a_push;
    }
    IdsAreNotUnique {
        queue: second_job_of_an_id_is_not_added racing_pushers_of_one_id_add_one_job;
    }
    IdsOfTheDeadAreFree {
        queue: second_job_of_an_id_is_not_added;
    }
    IdsAreUsedUp {
        queue: id_of_a_finished_job_is_free discarded_job_is_gone;
    }
    JobsDieEarly {
        queue: job_given_back_too_often_is_dead job_dropped_too_often_is_dead;
    }
    JobsDieLate {
        queue: job_given_back_too_often_is_dead job_dropped_too_often_is_dead;
    }
    BuryIsAck {
        queue: buried_job_is_dead revived_job_begins_anew discarded_job_is_gone depth_counts_each_kind;
    }
    RevivedIsOld {
        queue: revived_job_begins_anew;
    }
    DiscardDoesNothing {
        queue: discarded_job_is_gone;
    }
    DepthMixesKinds {
        queue: depth_counts_each_kind;
    }
    DepthStopsAtAPage {
        queue: depth_is_exact_for_a_thousand_jobs;
    }
    PingLeases {
        queue: ping_answers_and_changes_nothing;
    }

    OpeningsAreAlone {
        bus: listener_hears_what_another_opening_publishes;
    }
    ListenersShareEvents {
        bus: every_listener_hears;
    }
    EventsOvertake {
        bus: events_come_in_order;
    }
    TopicsAreTrees {
        bus: other_topics_and_spaces_are_not_heard;
    }
    EventsAreKept {
        bus: nothing_is_kept_for_later;
    }
    OneLeavesForAll {
        bus: one_listener_leaves_and_the_others_hear;
    }
    OverflowIsSilent {
        bus: slow_listener_is_told_of_a_gap_and_holds_up_nobody;
    }
}

/// Laws that look at the clock on the wall. The others are given a clock that runs ahead when all wait.
const MEASURED: &[&str] = &[
    "delayed_job_is_not_leased_early",
    "empty_queue_gives_nothing_when_the_wait_is_over",
    "job_given_back_waits_its_delay",
    "waiting_worker_is_woken_by_a_push",
    "waiting_worker_is_woken_when_a_delay_ends",
    "waiting_worker_is_woken_when_a_lease_runs_out",
];

/// A law for which nobody has written a fault has not been seen to fail.
#[test]
fn every_law_is_broken_by_some_fault() {
    // The macros make tests of the laws, so the tests of this program are where their names are.
    let program = std::env::current_exe().expect("this program runs");
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output().expect("it can be run");
    let listed = String::from_utf8(listed.stdout).expect("names are text");
    let laws: BTreeSet<_> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("memory::")?.strip_suffix(": test"))
        .filter(|name| !name.contains("::"))
        .collect();
    assert!(laws.len() >= 88, "only {} laws were found", laws.len());
    let broken: BTreeSet<_> = BROKEN.iter().copied().collect();
    let unbroken: Vec<_> = laws.difference(&broken).collect();
    assert!(unbroken.is_empty(), "no fault breaks {unbroken:?}");
}

tokio::task_local! {
    /// What the backends that a law opens have.
    static FAULT: Option<Fault>;
}

/// Checks that a law is kept by a backend without faults, and broken by one with this fault.
#[track_caller]
fn assert_breaks(fault: Fault, name: &str, law: impl AsyncFn()) {
    run(name, FAULT.scope(None, law()));
    let ended = catch_unwind(AssertUnwindSafe(|| run(name, FAULT.scope(Some(fault), law()))));
    assert!(ended.is_err(), "{fault:?} does not break `{name}`");
}

fn run(name: &str, law: impl Future<Output = ()>) {
    let measured = MEASURED.contains(&name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(!measured).build();
    runtime.expect("a runtime can be built").block_on(async {
        let ended = tokio::time::timeout(Duration::from_secs(120), law).await;
        assert!(ended.is_ok(), "the law has not ended within two minutes");
    });
}

/// What a law is given, by the contract it belongs to.
mod open_all {
    use super::{Arc, Broken, Bus, Buses, Queue, QueueConfig, Queues, Store, Stores, fixtures};

    pub(super) async fn store(law: &str) -> Stores {
        async fn open(space: String) -> Option<Arc<dyn Store>> {
            Some(Arc::new(Broken::open(space, QueueConfig::default())))
        }
        fixtures::stores(law, open).await.expect("memory is always there")
    }

    pub(super) async fn queue(law: &str) -> Queues {
        async fn open(space: String, config: QueueConfig) -> Option<Arc<dyn Queue>> {
            Some(Arc::new(Broken::open(space, config)))
        }
        fixtures::queues(law, open).await.expect("memory is always there")
    }

    pub(super) async fn bus(law: &str) -> Buses {
        async fn open(space: String) -> Option<Arc<dyn Bus>> {
            Some(Arc::new(Broken::open(space, QueueConfig::default())))
        }
        fixtures::buses(law, open).await.expect("memory is always there")
    }
}
