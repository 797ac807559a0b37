//! Contract tests for [`Store`], [`Queue`] and [`Bus`].
//!
//! [`backend_laws!`](crate::backend_laws) generates one test for each rule of the contracts. The name of a test states
//! the tested rule, so a failed test shows the violated rule. A second set of tests runs over
//! [`Flaky`](crate::flaky::Flaky). `Flaky` fails calls, delays calls, and reports failures for calls that were applied.
//!
//! `backend_laws!` takes a function that opens the backend in a given space (namespace). A test calls this opening
//! function several times to get several handles to one set of data, for example to test races. The opening function
//! returns `None` if the server of the backend is not available. [`service`] reads the environment variable with the
//! server's address.
//!
//! ```
//! # #[cfg(test)]
//! mod redis {
//!     use antiphon_store::{Backend, QueueConfig, conformance::service};
//!
//!     async fn open(space: String, config: QueueConfig) -> Option<Backend> {
//!         let url = service("REDIS_URL")?;
//!         Some(Backend::connect(&url, &space, config).await.expect("the test server takes connections"))
//!     }
//!
//!     antiphon_store::backend_laws!(open);
//! }
//! ```
//!
//! To test only one contract, use [`store_laws!`](crate::store_laws), [`queue_laws!`](crate::queue_laws) or
//! [`bus_laws!`](crate::bus_laws).

#![expect(clippy::unwrap_used, reason = "a law that fails panics")]

pub mod bus;
mod fixture;
pub mod queue;
pub mod store;

pub use self::fixture::{Buses, Queues, Stores, run, service};
#[expect(unused_imports, reason = "the module's documentation names them")]
use crate::{Bus, Queue, Store};

/// Generates one test for each rule in the contracts of `Store`, `Queue` and `Bus`.
///
/// The module `flaky` contains the same tests over a backend that fails calls, delays calls, and reports failures for
/// calls that were applied.
///
/// `backend_laws!` takes the path of an `async fn(space: String, config: QueueConfig) -> Option<Backend>`.
#[macro_export]
macro_rules! backend_laws {
    ($open:path) => {
        async fn open_store(space: String) -> Option<std::sync::Arc<dyn $crate::Store>> {
            Some($open(space, $crate::QueueConfig::default()).await?.store)
        }

        async fn open_queue(
            space: String,
            config: $crate::QueueConfig,
        ) -> Option<std::sync::Arc<dyn $crate::Queue>> {
            Some($open(space, config).await?.queue)
        }

        async fn open_bus(space: String) -> Option<std::sync::Arc<dyn $crate::Bus>> {
            Some($open(space, $crate::QueueConfig::default()).await?.bus)
        }

        $crate::store_laws!(open_store);
        $crate::queue_laws!(open_queue);
        $crate::bus_laws!(open_bus);

        mod flaky {
            $crate::store_laws!(flaky super::open_store);
            $crate::queue_laws!(flaky super::open_queue);
            $crate::bus_laws!(flaky super::open_bus);
        }
    };
}

/// Generates one test for each rule in the contract of [`Store`](crate::Store).
#[macro_export]
macro_rules! store_laws {
    (flaky $open:path) => { $crate::store_laws!(@ store flaky_stores $open); };
    ($open:path) => { $crate::store_laws!(@ store stores $open); };
    (@ $kind:ident $fixture:ident $open:path) => {
        $crate::__law_tests!($kind $fixture $open:
            absent_key_reads_as_nothing
            created_record_is_read_back
            second_creation_is_a_conflict
            update_at_its_revision_replaces_the_value
            stale_update_is_a_conflict_and_changes_nothing
            update_of_an_absent_record_is_a_conflict
            delete_at_its_revision_removes_the_record
            stale_delete_is_a_conflict_and_removes_nothing
            delete_of_an_absent_record_is_a_conflict
            revision_is_never_used_twice
            write_is_seen_by_another_opening
            spaces_do_not_see_each_other
            any_bytes_are_kept
            largest_value_is_kept
            too_large_value_is_refused
            bad_names_are_refused
            names_that_look_alike_are_different
            expired_record_is_neither_read_nor_listed_nor_updated
            expired_record_makes_room_for_a_new_one
            clock_is_shared_and_expires_records
            write_without_a_time_to_live_never_expires
            update_begins_the_time_to_live_anew
            expired_record_is_claimed_and_deleted_at_its_revision
            live_record_is_not_claimed
            claimed_record_is_given_to_nobody_else
            lapsed_claim_can_be_taken_again
            reborn_record_is_safe_from_its_claimer
            claims_are_divided_among_racers
            claims_keep_to_their_prefix_and_limit
            expired_records_are_removed_within_prefix_and_limit
            bulk_removal_spares_live_and_claimed_records
            listing_keeps_to_its_prefix
            listing_in_pages_shows_each_record_once
            listing_goes_on_while_records_are_deleted
            listed_revision_can_be_written_at
            racing_creators_have_one_winner
            racing_updaters_lose_no_update
            absent_log_is_empty
            entries_are_read_in_the_order_of_appending
            stale_append_is_a_conflict_that_says_the_length
            append_beyond_the_end_is_a_conflict
            racing_appenders_have_one_winner_a_place
            append_is_all_or_nothing
            log_is_read_in_parts
            deleted_log_is_empty_and_begins_anew
            log_and_record_of_one_name_are_two_things
            any_entry_is_kept
            largest_append_is_kept_and_more_is_refused
        );
    };
}

/// Generates one test for each rule in the contract of [`Queue`](crate::Queue).
#[macro_export]
macro_rules! queue_laws {
    (flaky $open:path) => { $crate::queue_laws!(@ queue flaky_queues $open); };
    ($open:path) => { $crate::queue_laws!(@ queue queues $open); };
    (@ $kind:ident $fixture:ident $open:path) => {
        $crate::__law_tests!($kind $fixture $open:
            pushed_job_is_leased_with_its_payload
            acknowledged_job_is_gone
            leased_job_is_given_to_nobody_else
            lapsed_lease_goes_to_the_next_worker
            lost_lease_changes_nothing
            acknowledging_twice_is_a_lost_lease
            extended_lease_lasts
            lapsed_lease_that_nobody_took_may_still_be_used
            job_given_back_comes_again
            job_given_back_waits_its_delay
            delayed_job_is_not_leased_early
            waiting_worker_is_woken_by_a_push
            waiting_worker_is_woken_when_a_delay_ends
            waiting_worker_is_woken_when_a_lease_runs_out
            empty_queue_gives_nothing_when_the_wait_is_over
            no_more_jobs_than_asked_for
            second_job_of_an_id_is_not_added
            id_of_a_finished_job_is_free
            job_given_back_too_often_is_dead
            job_dropped_too_often_is_dead
            buried_job_is_dead
            revived_job_begins_anew
            discarded_job_is_gone
            dead_letters_are_listed_in_pages
            racing_workers_share_the_jobs
            racing_pushers_of_one_id_add_one_job
            queues_and_spaces_are_apart
            depth_counts_each_kind
            depth_is_exact_for_a_thousand_jobs
            ping_answers_and_changes_nothing
            any_payload_is_kept
            bad_names_and_large_payloads_are_refused
        );
    };
}

/// Generates one test for each rule in the contract of [`Bus`](crate::Bus).
#[macro_export]
macro_rules! bus_laws {
    (flaky $open:path) => { $crate::bus_laws!(@ bus flaky_buses $open); };
    ($open:path) => { $crate::bus_laws!(@ bus buses $open); };
    (@ $kind:ident $fixture:ident $open:path) => {
        $crate::__law_tests!($kind $fixture $open:
            listener_hears_what_another_opening_publishes
            every_listener_hears
            events_come_in_order
            other_topics_and_spaces_are_not_heard
            nothing_is_kept_for_later
            one_listener_leaves_and_the_others_hear
            any_event_is_carried
            slow_listener_is_told_of_a_gap_and_holds_up_nobody
            bad_topics_and_large_events_are_refused
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __law_tests {
    ($kind:ident $fixture:ident $open:path: $($law:ident)*) => {
        $(
            #[test]
            fn $law() {
                $crate::conformance::run(async {
                    let Some(fixture) = $crate::conformance::fixtures::$fixture(stringify!($law), $open).await
                    else { return };
                    $crate::conformance::$kind::$law(&fixture).await;
                });
            }
        )*
    };
}

#[doc(hidden)]
pub use self::fixture::fixtures;
