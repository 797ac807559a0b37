//! All rows in another order.

use std::{sync::Arc, time::Instant};

use antiphon_results::{
    Sort,
    snapshot::{SnapshotStore as _, View},
};
use anyhow::Result;
use datafusion::{
    config::TableParquetOptions,
    dataframe::DataFrameWriteOptions,
    execution::{
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::{ParquetReadOptions, SessionConfig, SessionContext, col},
};
use serde_json::json;

use crate::{CHUNK_ROWS, COMPRESSION, Figure, Options, PAGE_ROWS, POOL_BYTES};

pub(crate) fn view() -> View {
    View::sorted([Sort::ascending("enrollment")])
}

pub(crate) async fn ours(options: &Options) -> Result<Figure> {
    let snapshots = options.snapshots()?;
    let start = Instant::now();
    let rows = snapshots.prepare(&options.id(), &view()).await?;
    Ok(Figure { times: vec![start.elapsed()], check: json!(rows), bytes: 0 })
}

/// The engine alone, in the same pool, with the settings that make its sort spill, into a file as ours is.
pub(crate) async fn bare(options: &Options) -> Result<Figure> {
    let context = context()?;
    let data = options.data();
    let path = options.sorted();
    let _ = std::fs::remove_file(&path);
    let start = Instant::now();
    let frame =
        context.read_parquet(data.to_string_lossy().into_owned(), ParquetReadOptions::default()).await?;
    // What makes the order one: ours keeps rows that are equal in the order they came in.
    let frame = frame.sort(vec![col("enrollment").sort(true, false), col("id").sort(true, false)])?;
    let mut written = TableParquetOptions::default();
    written.global.compression = Some(format!("zstd({COMPRESSION})"));
    written.global.max_row_group_size = CHUNK_ROWS;
    written.global.data_page_row_count_limit = PAGE_ROWS;
    written.global.statistics_enabled = Some("page".into());
    let single = DataFrameWriteOptions::new().with_single_file_output(true);
    frame.write_parquet(&path.to_string_lossy(), single, Some(written)).await?;
    let times = vec![start.elapsed()];
    Ok(Figure { times, check: json!(options.rows), bytes: path.metadata()?.len() })
}

/// The engine in the pool that ours has.
pub(crate) fn context() -> Result<SessionContext> {
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .set_bool("datafusion.execution.parquet.schema_force_view_types", false)
        .with_sort_spill_reservation_bytes(10 * 1024 * 1024);
    Ok(SessionContext::new_with_config_rt(config, runtime()?))
}

fn runtime() -> Result<Arc<RuntimeEnv>> {
    let pool = Arc::new(FairSpillPool::new(POOL_BYTES));
    Ok(RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?)
}
