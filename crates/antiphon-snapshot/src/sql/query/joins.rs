//! The fourth check of a query: the physical plan. Joins that compare every pair of rows are limited, and only the
//! scan of this crate can read rows.

use std::sync::Arc;

use antiphon_results::DualResponseError;
use datafusion::physical_plan::{ExecutionPlan, aggregates::AggregateExec};

use super::text::only_reads;
use crate::{engine::refusal::refused, sql::scan::Scan};

/// The maximum number of pairs of rows that one join compares.
const MAX_PAIRS: u64 = 100_000_000;

pub(super) fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<(), DualResponseError> {
    rows(plan).map(drop)
}

/// Returns an upper bound for the number of rows that a plan returns. The bound is only an estimate if the plan joins
/// rows by a key.
fn rows(plan: &Arc<dyn ExecutionPlan>) -> Result<u64, DualResponseError> {
    let mut children = Vec::new();
    for child in plan.children() {
        children.push(rows(child)?);
    }
    let most = children.iter().copied().max().unwrap_or(1);
    let given = match plan.name() {
        "Scan" => plan.downcast_ref::<Scan>().map_or(u64::MAX, Scan::rows),
        // These plans return no row, one row, or the rows of a VALUES clause, which are in the text of the query.
        "PlaceholderRowExec" | "EmptyExec" | "DataSourceExec" => 1_000,
        "CrossJoinExec" | "NestedLoopJoinExec" | "PiecewiseMergeJoinExec" => {
            let pairs = children.iter().copied().fold(1, u64::saturating_mul);
            if pairs > MAX_PAIRS {
                return Err(refused(
                    "cartesian",
                    format!(
                        "the query is a cross join of {pairs} row pairs, and the maximum is {MAX_PAIRS}; join by a column with `=`, or group or filter first"
                    ),
                ));
            }
            pairs
        }
        "UnionExec" | "InterleaveExec" => children.iter().copied().fold(0, u64::saturating_add),
        "AggregateExec" => {
            let whole = plan.downcast_ref::<AggregateExec>().is_some_and(|plan| plan.group_expr().is_empty());
            if whole { 1 } else { most }
        }
        _ if children.is_empty() => return Err(only_reads()),
        _ => most,
    };
    Ok(plan.fetch().map_or(given, |fetch| given.min(fetch as u64)))
}
