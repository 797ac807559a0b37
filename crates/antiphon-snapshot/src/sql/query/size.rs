//! Limits the size of expressions after column references are replaced by their definitions.
//!
//! A chain of `SELECT x + x AS x` is short as text, but doubles with every step when the optimizer replaces the column
//! references. This module computes the size before the optimizer replaces column references.

use antiphon_results::DualResponseError;
use datafusion::{
    common::tree_node::{TreeNode as _, TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
};

use crate::engine::refusal::{of_query, too_deep};

/// The maximum number of columns, operators and functions of one expression.
const MAX_SIZE: u64 = 2_000;

pub(super) fn check(plan: &LogicalPlan) -> Result<(), DualResponseError> {
    columns(plan).map(drop)
}

/// Returns the size of the expression for each column of a plan.
fn columns(plan: &LogicalPlan) -> Result<Vec<u64>, DualResponseError> {
    let mut inputs = Vec::new();
    for input in plan.inputs() {
        inputs.push(columns(input)?);
    }
    let mut sizes = Vec::new();
    for expr in plan.expressions() {
        sizes.push(size(plan, &inputs, &expr)?);
    }
    let width = plan.schema().fields().len();
    let all: Vec<u64> = inputs.iter().flatten().copied().collect();
    let made = match plan {
        LogicalPlan::Projection(_) if sizes.len() == width => sizes,
        // Plan nodes above an aggregate refer to the result of an aggregate function as a plain column of size 1. A
        // group expression keeps its size.
        LogicalPlan::Aggregate(aggregate) => {
            let mut made: Vec<u64> = sizes.into_iter().take(aggregate.group_expr.len()).collect();
            made.resize(width, 1);
            made
        }
        LogicalPlan::Window(_) => {
            let mut made = all;
            made.resize(width, 1);
            made
        }
        _ if all.len() == width => all,
        // For unions and for joins that keep one side, the maximum is an upper bound.
        _ => vec![all.iter().copied().max().unwrap_or(1); width],
    };
    Ok(made)
}

fn size(plan: &LogicalPlan, inputs: &[Vec<u64>], expr: &Expr) -> Result<u64, DualResponseError> {
    let mut size = 0_u64;
    let mut nested = Vec::new();
    let walked = expr.apply(|expr| {
        size = size.saturating_add(match expr {
            Expr::Literal(..) => 0,
            Expr::Column(column) => {
                let found = plan.inputs().into_iter().zip(inputs).find_map(|(input, sizes)| {
                    input.schema().index_of_column(column).ok().and_then(|at| sizes.get(at))
                });
                found.copied().unwrap_or(1)
            }
            Expr::ScalarSubquery(query) => {
                nested.push(query.clone());
                1
            }
            Expr::InSubquery(within) => {
                nested.push(within.subquery.clone());
                1
            }
            Expr::Exists(exists) => {
                nested.push(exists.subquery.clone());
                1
            }
            _ => 1,
        });
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(of_query)?;
    if size > MAX_SIZE {
        return Err(too_deep());
    }
    for query in nested {
        columns(&query.subquery)?;
    }
    Ok(size.max(1))
}
