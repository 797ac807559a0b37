//! Checks the length of the literal values in an optimized plan, after constant expressions were evaluated.
//!
//! A literal value is repeated for each row, and the query engine does not count the memory for the repetitions.

use antiphon_results::DualResponseError;
use datafusion::{
    common::{ScalarValue, tree_node::TreeNode as _, tree_node::TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
};

use super::bounded::scalar;
use crate::engine::refusal::{of_query, refused};

/// All literal values in one step of a plan together can have at most this many times the maximum size of one value.
const TOGETHER: usize = 4;

pub(super) fn check(plan: &LogicalPlan, most: usize) -> Result<(), DualResponseError> {
    let mut longest = 0;
    let mut together = 0;
    let walked = plan.apply_with_subqueries(|plan| {
        let (mut all, mut compared) = (0, 0);
        plan.apply_expressions(|top| {
            top.apply(|expr| {
                if let Expr::Literal(value, _) = expr {
                    let size = size(value);
                    longest = longest.max(size);
                    all += size;
                }
                // The values in an `IN` list are only compared, and not repeated.
                if let Expr::InList(list) = expr {
                    let literal =
                        |expr: &Expr| if let Expr::Literal(value, _) = expr { size(value) } else { 0 };
                    compared += list.list.iter().map(literal).sum::<usize>();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !matches!(plan, LogicalPlan::Values(_)) {
            together = together.max(all.saturating_sub(compared));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(of_query)?;
    if longest > most || together > TOGETHER * most {
        return Err(refused(
            "memory",
            format!(
                "the values in the query are too long: each row repeats them, and the maximum is {most} bytes per value; use shorter values"
            ),
        ));
    }
    Ok(())
}

/// Returns the size of a literal value in bytes, or 0 for types with a fixed size.
fn size(value: &ScalarValue) -> usize {
    let kind = value.data_type();
    if kind.is_numeric() || kind.is_temporal() || kind.is_null() { 0 } else { scalar(value) }
}
