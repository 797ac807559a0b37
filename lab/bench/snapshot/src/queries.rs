//! A filter and a grouping.

use std::time::Instant;

use antiphon_results::{
    Owner,
    snapshot::{Aggregate, Group, Measure as Of, MeasureOp, RowSource, SnapshotStore as _},
};
use antiphon_snapshot::Batches;
use anyhow::{Context as _, Result};
use datafusion::prelude::ParquetReadOptions;
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};

use crate::{Figure, Measure, Options, sort};

const FILTER: &str = "SELECT count(*) AS n FROM result WHERE enrollment > 50000 AND state = 'NJ'";
const GROUP: &str =
    "SELECT state, control, count(*) AS m0, avg(revenue) AS m1 FROM result GROUP BY state, control";

pub(crate) async fn ours(options: &Options) -> Result<Figure> {
    let snapshots = options.snapshots()?;
    let mut figure = Figure::default();
    for _ in 0..options.repeat {
        let start = Instant::now();
        figure.check = if options.measure == Measure::Filter {
            let tables = [("result".to_owned(), options.id())];
            let row_source = snapshots.query(&tables, FILTER, &Owner::nobody()).await?;
            let RowSource::Own(own) = row_source else { anyhow::bail!("the answer is no batches") };
            let batches = own.downcast::<Batches>().ok().context("the answer is no batches")?;
            let batches: Vec<_> =
                batches.into_stream().try_collect().await.map_err(anyhow::Error::from_boxed)?;
            number(&batches)
        } else {
            let mut aggregate = Aggregate::default();
            aggregate.groups =
                ["state", "control"].map(|column| Group { column: column.into(), bucket: None }).into();
            aggregate.measures = vec![
                Of { op: MeasureOp::Count, column: None },
                Of { op: MeasureOp::Mean, column: Some("revenue".into()) },
            ];
            json!(snapshots.aggregate(&options.id(), &aggregate).await?.len())
        };
        figure.times.push(start.elapsed());
    }
    Ok(figure)
}

pub(crate) async fn bare(options: &Options) -> Result<Figure> {
    let mut figure = Figure::default();
    for _ in 0..options.repeat {
        let context = sort::context()?;
        let start = Instant::now();
        let data = options.data();
        context.register_parquet("result", data.to_string_lossy(), ParquetReadOptions::default()).await?;
        let sql = if options.measure == Measure::Filter { FILTER } else { GROUP };
        let batches = context.sql(sql).await?.collect().await?;
        figure.check = if options.measure == Measure::Filter {
            number(&batches)
        } else {
            json!(batches.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>())
        };
        figure.times.push(start.elapsed());
    }
    Ok(figure)
}

fn number(batches: &[arrow::array::RecordBatch]) -> Value {
    use arrow::{array::AsArray as _, datatypes::Int64Type};
    let counted = batches.iter().find(|batch| batch.num_rows() > 0);
    json!(counted.map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0)))
}
