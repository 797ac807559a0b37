//! Sorts, filters and aggregates snapshots, and runs SQL queries. Only the modules `sql` and `engine` use DataFusion.
//!
//! The query engine reads rows through the [scan](scan::SnapshotTable) of this crate. The query engine has no access
//! to files, catalogs and the network.

mod aggregate;
mod filter;
mod prune;
mod query;
mod scan;
mod view;

pub(crate) use self::{aggregate::aggregate, query::query, view::prepare};

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use antiphon_results::{
        Owner,
        snapshot::{SnapshotId, SnapshotStore as _, SnapshotWriteOptions},
    };
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use futures_util::stream;

    use crate::{Batches, SnapshotConfig, Snapshots};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_query_that_is_dropped_gives_its_turn_and_its_memory_back() {
        let config = SnapshotConfig::default().with_pool_bytes(64 * 1024 * 1024);
        let turns = config.queries;
        let snapshots = Snapshots::open_with("memory:", [], config).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..20_000).map(|at| at % 3)));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let id = SnapshotId::new(&Owner::nobody(), "rs_dropped");
        let row_source = Batches::new(batch.schema(), stream::iter([Ok(batch)])).into();
        snapshots.begin(&id, row_source, SnapshotWriteOptions::default()).await.unwrap().rest.await.unwrap();
        let engine = &snapshots.inner.engine;
        // This join holds one side in memory, and would run for a long time.
        let sql = "SELECT sum(a.n + b.n + c.n) FROM result a JOIN result b USING (n) JOIN result c USING (n)";
        let query = snapshots.query(&[("result".into(), id)], sql, &Owner::nobody()).await.unwrap();
        assert_eq!(engine.free(), turns - 1);
        let until = async |reached: &dyn Fn() -> bool| {
            let reached = async {
                while !reached() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(15), reached).await.unwrap();
        };
        until(&|| engine.taken() > 0).await;
        drop(query);
        until(&|| engine.taken() == 0 && engine.free() == turns).await;
    }
}
