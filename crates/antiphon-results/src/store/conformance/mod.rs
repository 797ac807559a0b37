//! Contract tests of a [`ResourceStore`].
//!
//! [`resource_store_laws!`](crate::resource_store_laws) generates one Rust test for each contract test, with the same
//! name. The macro takes a function that opens the store in a given namespace. A contract test calls the function
//! several times to get several handles to the same data, for example to test races. The function returns `None` if
//! the server of the store is not available.
//!
//! ```
//! # #[cfg(test)]
//! mod redis {
//!     use antiphon_results::store::{ResourceStore, SharedStore};
//!     use antiphon_store::{Backend, QueueConfig, conformance::service};
//!     use std::sync::Arc;
//!
//!     async fn open(space: String) -> Option<Arc<dyn ResourceStore>> {
//!         let url = service("REDIS_URL")?;
//!         let backend = Backend::connect(&url, &space, QueueConfig::default()).await;
//!         Some(Arc::new(SharedStore::new(backend.expect("the test server takes connections"))))
//!     }
//!
//!     antiphon_results::resource_store_laws!(open);
//! }
//! ```
//!
//! The tests use times near the current time, because a store can use its own clock to start a clean-up. Only the
//! times that a test passes to the store determine whether a result set has expired.

#![expect(clippy::unwrap_used, reason = "a law that fails panics")]

mod accesses;
mod expiry;
mod fixture;
mod records;
mod removal;
mod rows;

pub use self::{accesses::*, expiry::*, fixture::Stores, records::*, removal::*, rows::*};
#[expect(unused_imports, reason = "the module's documentation names it")]
use super::ResourceStore;
pub use crate::snapshot::conformance::run;

/// Generates one test for each contract test of [`ResourceStore`](crate::store::ResourceStore).
///
/// The macro takes the path of an `async fn(space: String) -> Option<Arc<dyn ResourceStore>>`. The optional second
/// argument is the path of the function that runs a test. Default: [`run`](crate::store::conformance::run).
#[macro_export]
macro_rules! resource_store_laws {
    ($open:path) => { $crate::resource_store_laws!($open, $crate::store::conformance::run); };
    ($open:path, $run:path) => {
        $crate::__resource_store_laws!($open, $run:
            saved_resource_is_read_back_equal
            save_is_seen_by_another_opening
            saved_again_is_as_it_was_last_written
            unknown_resource_is_nothing
            hostile_ids_are_unknown
            ids_that_look_alike_are_different
            partial_update_changes_only_what_it_gives
            updates_of_different_fields_at_once_are_all_kept
            update_returns_what_the_resource_then_is
            revoking_links_raises_the_epoch
            closing_twice_is_fine
            racing_accesses_are_counted_exactly
            accesses_add_up_and_the_latest_is_kept
            abandoned_update_takes_nobody_along
            access_to_what_has_expired_is_refused
            expired_resource_is_seen_until_it_is_deleted
            deleted_resource_is_gone_and_remembered
            expired_resource_is_gone_and_remembered
            racing_deleters_have_one_winner
            deleted_resource_is_not_brought_back_by_an_update
            expiry_spares_what_was_pinned_or_extended
            deletion_takes_even_what_is_pinned
            expired_are_found_and_no_others
            found_is_not_given_again_at_once
            racing_cleaners_share_what_has_expired
            pinned_resource_is_never_found
            unpinned_resource_ends_again
            extended_resource_ends_at_its_new_end
            shortened_resource_ends_at_its_new_end
            life_ends_by_itself
            rows_are_read_at_every_place
            many_rows_are_read_in_order
            rows_of_every_size_are_kept
            rows_of_sets_are_apart
            rows_of_a_deleted_set_are_gone
            no_rows_are_no_rows
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __resource_store_laws {
    ($open:path, $run:path: $($law:ident)*) => {
        $(
            #[test]
            fn $law() {
                $run(async {
                    let Some(stores) = $crate::store::conformance::Stores::new(stringify!($law), $open).await
                    else { return };
                    $crate::store::conformance::$law(&stores).await;
                });
            }
        )*
    };
}
