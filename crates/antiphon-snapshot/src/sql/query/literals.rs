//! How long the values are that stand in a plan, when all that can be reckoned beforehand has been.
//!
//! Such a value becomes a column of itself as soon as it meets rows, and the engine does not count that.

use antiphon_results::DualResponseError;
use datafusion::{
    common::{ScalarValue, tree_node::TreeNode as _, tree_node::TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
};

use super::bounded::scalar;
use crate::engine::refusal::{of_query, refused};

/// How many of the longest one step may have.
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
                // Those of a list are looked for, and stay what they are.
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
                "the query makes values that are too long to be repeated for every row: {most} bytes are the most"
            ),
        ));
    }
    Ok(())
}

/// Only what can be of any length counts.
fn size(value: &ScalarValue) -> usize {
    let kind = value.data_type();
    if kind.is_numeric() || kind.is_temporal() || kind.is_null() { 0 } else { scalar(value) }
}
