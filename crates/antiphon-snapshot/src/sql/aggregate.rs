//! Computes aggregates of rows, by group.

use std::{sync::Arc, time::Instant};

use antiphon_results::{
    DualResponseError, Rows,
    snapshot::{Aggregate, Bucket, Group, Measure, MeasureOp, SnapshotId, View},
};
use arrow::datatypes::{DataType, Schema};
use datafusion::{
    datasource::provider_as_source,
    functions::{datetime::expr_fn::date_trunc, math::expr_fn::floor},
    functions_aggregate::expr_fn::{approx_distinct, avg, count, count_distinct, max, min, sum},
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit},
};
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{
    filter,
    scan::{self, SnapshotTable},
};
use crate::{
    engine::{self, Running, refusal},
    error::{Error, Result},
    inner::Inner,
};

/// The maximum number of groups in the result of an aggregate.
const MAX_GROUPS: usize = 10_000;
/// The maximum number of columns to group by.
const MAX_BY: usize = 2;
/// The maximum number of measures for each group.
const MAX_MEASURES: usize = 4;

/// Computes the aggregates of a snapshot's rows for each group.
pub(crate) async fn aggregate(
    inner: &Arc<Inner>,
    id: &SnapshotId,
    aggregate: &Aggregate,
) -> Result<Rows, DualResponseError> {
    let opened = inner.opened(id, &View::default()).await?;
    let table = SnapshotTable::new(inner, opened, engine::PARTITIONS);
    let plan = plan(table, aggregate)?;
    let turn = inner.engine.turn(id.share()).await?;
    let state = inner.engine.state(engine::PARTITIONS);
    let open = async move {
        let batches = scan::run(state, &plan).await.map_err(refusal::of_view)?;
        Ok(batches.map_err(refusal::of_view).boxed())
    };
    let mut running = Running::start(&inner.engine, Arc::new(turn), Instant::now(), open)?;
    let mut rows = Rows::new();
    while let Some(batch) = running.next().await? {
        crate::read::rows(&batch, &mut rows, MAX_GROUPS + 1)?;
    }
    if rows.len() > MAX_GROUPS {
        return Err(DualResponseError::TooLarge(format!(
            "the result has more than {MAX_GROUPS} groups; set a `limit`, or group by wider buckets"
        )));
    }
    Ok(rows)
}

fn plan(table: SnapshotTable, aggregate: &Aggregate) -> Result<LogicalPlan> {
    let schema = SnapshotTable::plain_schema(&table.opened);
    let (groups, measures) = (&aggregate.groups, &aggregate.measures);
    if groups.len() > MAX_BY || measures.len() > MAX_MEASURES {
        return Err(Error::Invalid(format!(
            "the request has too many `groups` or `measures`; the maximum is {MAX_BY} `groups` and {MAX_MEASURES} `measures`"
        )));
    }
    let counted = [Measure { op: MeasureOp::Count, column: None }];
    let measures = if measures.is_empty() { &counted[..] } else { &measures[..] };
    let mut by = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        if groups[..at].iter().any(|before| before.column == group.column) {
            return Err(Error::Invalid(format!("`groups` contains `{}` twice; remove one", group.column)));
        }
        if (0..measures.len()).any(|number| group.column == format!("m{number}")) {
            return Err(Error::Invalid(format!(
                "the group column `{}` has the same name as a measure in the answer; use a SQL query instead",
                group.column
            )));
        }
        by.push(self::group(&schema, group)?.alias(&group.column));
    }
    let mut measured = Vec::new();
    for (number, measure) in measures.iter().enumerate() {
        measured.push(self::measure(&schema, measure)?.alias(format!("m{number}")));
    }
    let in_groups = groups.iter().map(|group| filter::column(&group.column).sort(true, false));
    let (order, fetch) = match aggregate.limit {
        // The groups with the largest first measure come first. Groups with equal first measures are sorted by the
        // group columns.
        Some(limit) => {
            let greatest = filter::column("m0").sort(false, false);
            let limit = usize::try_from(limit).unwrap_or(MAX_GROUPS).min(MAX_GROUPS);
            (std::iter::once(greatest).chain(in_groups).collect(), limit)
        }
        None => (in_groups.collect::<Vec<_>>(), MAX_GROUPS + 1),
    };
    let filter = filter::all(&schema, &aggregate.filter)?;
    let build = || {
        let mut plan = LogicalPlanBuilder::scan("rows", provider_as_source(Arc::new(table)), None)?;
        if let Some(filter) = filter {
            plan = plan.filter(filter)?;
        }
        let plan = plan.aggregate(by, measured)?;
        if order.is_empty() { plan.build() } else { plan.sort_with_limit(order, Some(fetch))?.build() }
    };
    build().map_err(|error| Error::Broken(error.into()))
}

fn group(schema: &Schema, group: &Group) -> Result<Expr> {
    let kind = filter::kind(schema, &group.column)?;
    let column = filter::column(&group.column);
    if kind.is_nested() {
        return Err(Error::Invalid(format!("column `{}` is nested; group by another column", group.column)));
    }
    let Some(bucket) = group.bucket else { return Ok(column) };
    let part = match bucket {
        Bucket::Width(width) => return by_width(group, kind, column, width),
        Bucket::Minute => "minute",
        Bucket::Hour => "hour",
        Bucket::Day => "day",
        Bucket::Week => "week",
        Bucket::Month => "month",
        Bucket::Year => "year",
        other => return Err(Error::Invalid(format!("the bucket {other:?} is not supported in groups"))),
    };
    match kind {
        DataType::Timestamp(..) => Ok(date_trunc(lit(part), column)),
        DataType::Date32 | DataType::Date64 => Ok(cast(date_trunc(lit(part), column), kind.clone())),
        _ => Err(Error::Invalid(format!(
            "column `{}` has no dates or timestamps; group it by `width`, or without a bucket",
            group.column
        ))),
    }
}

fn by_width(group: &Group, kind: &DataType, column: Expr, width: f64) -> Result<Expr> {
    if !kind.is_numeric() {
        return Err(Error::Invalid(format!(
            "column `{}` has no numbers; `width` needs a column of numbers",
            group.column
        )));
    }
    if !width.is_finite() || width <= 0.0 {
        return Err(Error::Invalid("`width` must be a number above 0".into()));
    }
    let least = floor(cast(column, DataType::Float64) / lit(width)) * lit(width);
    // Integers in buckets of integer width stay integers.
    let whole = kind.is_integer() && width.fract() == 0.0;
    Ok(if whole { cast(least, DataType::Int64) } else { least })
}

fn measure(schema: &Schema, measure: &Measure) -> Result<Expr> {
    let Some(name) = &measure.column else {
        if measure.op == MeasureOp::Count {
            return Ok(count(lit(1_i64)));
        }
        return Err(Error::Invalid("a measure has no `column`; only `count` can omit it".into()));
    };
    let kind = filter::kind(schema, name)?;
    let column = filter::column(name);
    let number = || {
        if kind.is_numeric() {
            return Ok(());
        }
        Err(Error::Invalid(format!("column `{name}` has no numbers; `sum` and `mean` need numbers")))
    };
    if kind.is_nested() && measure.op != MeasureOp::Count {
        return Err(Error::Invalid(format!(
            "column `{name}` is nested and can only be counted; use `count`"
        )));
    }
    Ok(match measure.op {
        MeasureOp::Count => count(column),
        MeasureOp::Distinct => match kind {
            kind if kind.is_integer() => approx_distinct(column),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Timestamp(..) | DataType::Date32 => {
                approx_distinct(column)
            }
            _ => count_distinct(column),
        },
        MeasureOp::Sum => {
            number()?;
            match kind {
                // The sum of 64-bit integers can exceed 64 bits, so these columns are summed as decimals.
                DataType::Int64 | DataType::UInt64 => sum(cast(column, DataType::Decimal128(20, 0))),
                _ => sum(column),
            }
        }
        MeasureOp::Mean => {
            number()?;
            avg(cast(column, DataType::Float64))
        }
        MeasureOp::Min => min(column),
        MeasureOp::Max => max(column),
        other => return Err(Error::Invalid(format!("the measure {other:?} is not supported"))),
    })
}
