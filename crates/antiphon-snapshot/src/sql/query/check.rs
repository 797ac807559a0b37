//! The third check of a query: the logical plan. The logical plan can contain only allowed nodes and functions.

use std::ops::ControlFlow;

use antiphon_results::DualResponseError;
use arrow::datatypes::DataType;
use datafusion::{
    common::tree_node::{TreeNode as _, TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition, expr::WindowFunction},
};

use super::{bounded, functions, text::only_reads};
use crate::engine::refusal::{not_valid, of_query, refused};

/// The maximum number of calls to growing functions in a query. The result of a growing function can be much larger
/// than its arguments.
const MAX_GROWING: usize = 32;
/// The maximum offset, in rows, that a query can pass to the window functions `lag` and `lead`.
const MAX_OFFSET: i64 = 100_000;

pub(super) fn check(plan: &LogicalPlan) -> Result<(), DualResponseError> {
    let mut growing = 0;
    let mut found = ControlFlow::Continue(());
    let walked = plan.apply_with_subqueries(|plan| {
        found = node(plan);
        if found.is_break() {
            return Ok(TreeNodeRecursion::Stop);
        }
        plan.apply_expressions(|top| {
            top.apply(|expr| {
                found = expression(expr, &mut growing);
                Ok(if found.is_break() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    });
    walked.map_err(of_query)?;
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn node(plan: &LogicalPlan) -> ControlFlow<DualResponseError> {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Union(_)
        // Only the tables of this query exist in its `World`.
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Distinct(_) => ControlFlow::Continue(()),
        LogicalPlan::RecursiveQuery(_) => {
            ControlFlow::Break(refused("no_recursion", "recursive queries are not allowed"))
        }
        LogicalPlan::Unnest(_) => {
            ControlFlow::Break(refused("unknown_function", "`unnest` of lists is not supported"))
        }
        _ => ControlFlow::Break(only_reads()),
    }
}

fn expression(expr: &Expr, growing: &mut usize) -> ControlFlow<DualResponseError> {
    let unknown = |name: &str| {
        ControlFlow::Break(refused(
            "unknown_function",
            format!("the function `{name}` does not exist; the functions are {}", functions::shown()),
        ))
    };
    match expr {
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            if bounded::is_bounded(&call.func) {
                *growing += 1;
                if *growing > MAX_GROWING {
                    let reason = format!(
                        "the query concatenates, replaces or pads text more than {MAX_GROWING} times"
                    );
                    return ControlFlow::Break(refused("too_deep", reason));
                }
                return ControlFlow::Continue(());
            }
            if functions::SCALARS.contains(&name) { ControlFlow::Continue(()) } else { unknown(name) }
        }
        Expr::AggregateFunction(call) => {
            let name = call.func.name();
            if functions::AGGREGATES.contains(&name) { ControlFlow::Continue(()) } else { unknown(name) }
        }
        Expr::WindowFunction(call) => window(call),
        Expr::Unnest(_) | Expr::HigherOrderFunction(_) | Expr::Lambda(_) | Expr::LambdaVariable(_) => {
            unknown("unnest")
        }
        Expr::ScalarVariable(..) | Expr::Placeholder(_) => ControlFlow::Break(not_valid(
            "variables and parameters are not supported; write the values in the query",
        )),
        Expr::Cast(cast) => kind(cast.field.data_type()),
        Expr::TryCast(cast) => kind(cast.field.data_type()),
        _ => ControlFlow::Continue(()),
    }
}

/// Rejects types of fixed size, because the query itself could choose a large size for every value.
fn kind(kind: &DataType) -> ControlFlow<DualResponseError> {
    match kind {
        DataType::FixedSizeBinary(_) | DataType::FixedSizeList(..) => ControlFlow::Break(not_valid(
            "a cast to a list or binary type with a fixed length is not supported",
        )),
        _ => ControlFlow::Continue(()),
    }
}

fn window(call: &WindowFunction) -> ControlFlow<DualResponseError> {
    let name = call.fun.name();
    let known = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(_) => functions::AGGREGATES.contains(&name),
        WindowFunctionDefinition::WindowUDF(_) => functions::WINDOWS.contains(&name),
    };
    if call.params.distinct {
        return ControlFlow::Break(refused(
            "unknown_function",
            format!("`{name}(DISTINCT …)` is not supported as a window function; group the rows instead"),
        ));
    }
    if !known || functions::GATHERING.contains(&name) || functions::SORTING.contains(&name) {
        return ControlFlow::Break(refused(
            "unknown_function",
            format!("`{name}` is not supported as a window function; group the rows instead"),
        ));
    }
    let far = |expr: &Expr| match expr {
        Expr::Literal(value, _) => {
            let offset = value.cast_to(&DataType::Int64);
            matches!(offset, Ok(datafusion::common::ScalarValue::Int64(Some(offset))) if offset.abs() > MAX_OFFSET)
        }
        _ => false,
    };
    if matches!(name, "lag" | "lead") && call.params.args.get(1).is_some_and(far) {
        let reason = format!("the offset of `{name}` is more than {MAX_OFFSET} rows; use a smaller offset");
        return ControlFlow::Break(refused("memory", reason));
    }
    ControlFlow::Continue(())
}
