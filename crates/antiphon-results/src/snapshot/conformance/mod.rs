//! Contract tests of a [`SnapshotStore`].
//!
//! [`snapshot_store_laws!`](crate::snapshot_store_laws) generates one Rust test for each contract test, with the same
//! name. The macro takes a function that opens the store in a given namespace. A contract test calls the function
//! several times to get several handles to the same data, each with an empty cache. The function returns `None` if the
//! server of the store is not available.
//!
//! ```
//! # #[cfg(test)]
//! mod memory {
//!     async fn open(space: String) -> Option<std::sync::Arc<dyn antiphon_results::snapshot::SnapshotStore>> {
//!         # let _ = space;
//!         None
//!     }
//!
//!     antiphon_results::snapshot_store_laws!(open);
//! }
//! ```
//!
//! If a store returns [`Unsupported`](crate::DualResponseError::Unsupported) for an operation, the tests skip this
//! operation.

#![expect(clippy::unwrap_used, reason = "a law that fails panics")]

mod exports;
mod fixture;
mod life;
mod pages;
mod views;

pub use self::{
    exports::*,
    fixture::{Snapshots, run},
    life::*,
    pages::*,
    views::*,
};
#[expect(unused_imports, reason = "the module's documentation names it")]
use super::SnapshotStore;

/// Generates one test for each contract test of [`SnapshotStore`](crate::snapshot::SnapshotStore).
///
/// The macro takes the path of an `async fn(space: String) -> Option<Arc<dyn SnapshotStore>>`.
#[macro_export]
macro_rules! snapshot_store_laws {
    ($open:path) => {
        $crate::__snapshot_store_laws!($open:
            snapshot_is_not_there_until_all_of_it_is
            dropped_intake_leaves_nothing
            failed_source_leaves_nothing
            sample_is_the_first_rows
            rows_beyond_the_limit_are_left_out_and_that_is_said
            unfinished_snapshot_is_found_and_removed
            snapshot_of_another_tenant_is_not_found
            deleted_snapshot_is_gone_for_everybody
            deletion_twice_is_fine
            usage_is_what_is_stored
            rows_come_in_the_order_they_came
            every_page_size_gives_the_same_rows
            every_place_is_a_page
            columns_come_as_asked_for
            large_page_may_stop_but_not_at_nothing
            digest_is_the_same_for_every_opening
            chunks_are_all_rows
            set_without_rows_is_a_set
            odd_values_come_back
            export_is_the_pages
            ranges_are_parts_of_the_whole
            export_is_the_same_from_every_opening
            chunks_are_exported_alone
            stats_count_what_is_there
            sorted_view_keeps_ties_in_order
            filtered_view_has_the_rows_that_fit
            view_is_the_same_for_every_opening
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __snapshot_store_laws {
    ($open:path: $($law:ident)*) => {
        $(
            #[test]
            fn $law() {
                $crate::snapshot::conformance::run(async {
                    let Some(snapshots) =
                        $crate::snapshot::conformance::Snapshots::new(stringify!($law), $open).await
                    else { return };
                    $crate::snapshot::conformance::$law(&snapshots).await;
                });
            }
        )*
    };
}
