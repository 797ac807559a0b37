//! Adds memory accounting and pauses to a plan, because the query engine does not account for all memory or pause often
//! enough.
//!
//! Window functions over all rows keep the rows in memory, and the query engine does not count this memory. The query
//! engine yields the thread only where batches are read, but a join can create many batches from one batch. So a query
//! that only counts the rows of a large join would not yield the thread, and would not check the time limit.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{
        ScalarValue, internal_err,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer},
    logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        ReplaceChildrenOptions,
        coop::CooperativeExec,
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use futures_util::StreamExt as _;

use super::narrow;

/// If a window frame has at most this number of rows, the memory of the frame is not counted.
const FEW: u64 = 10_000;

/// Returns the plan with memory accounting and pauses.
///
/// For the returned plan, the memory pool counts the rows that window functions keep. Repeated rows with more than
/// `width` bytes cause an error. Each operator in the returned plan yields the thread regularly.
pub(super) fn bounded(plan: Arc<dyn ExecutionPlan>, width: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|plan| {
        if plan.children().is_empty() {
            return Ok(Transformed::no(plan));
        }
        let keeps = match plan.downcast_ref::<BoundedWindowAggExec>() {
            Some(window) => window.window_expr().iter().any(|expr| is_wide(expr.get_window_frame())),
            None => plan.downcast_ref::<WindowAggExec>().is_some(),
        };
        let over = |(at, child): (usize, &Arc<dyn ExecutionPlan>)| {
            let child = pausing(Arc::clone(child));
            match () {
                () if keeps => Watched::over(child, Rule::Kept),
                () if narrow::repeats(plan.as_ref(), at) => Watched::over(child, Rule::Narrow(width)),
                () => child,
            }
        };
        let children: Vec<_> = plan.children().into_iter().enumerate().map(over).collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(plan.replace_children(children, options)?))
    });
    plan.data().map(pausing)
}

fn pausing(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if plan.downcast_ref::<CooperativeExec>().is_some() {
        return plan;
    }
    Arc::new(CooperativeExec::new(plan))
}

/// Returns whether a frame can hold many rows. A frame from the first row to the current row holds no rows, because
/// the result of the frame is accumulated.
fn is_wide(frame: &WindowFrame) -> bool {
    let wide = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => {
            let Ok(ScalarValue::UInt64(Some(rows))) = by.cast_to(&arrow::datatypes::DataType::UInt64) else {
                return true;
            };
            frame.units != WindowFrameUnits::Rows || rows > FEW
        }
    };
    let from_the_beginning = matches!(&frame.start_bound, WindowFrameBound::Preceding(by) if by.is_null());
    (!from_the_beginning && wide(&frame.start_bound)) || wide(&frame.end_bound)
}

/// The rule for the rows that a [`Watched`] node forwards.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The memory of the forwarded rows is counted until the end of the stream.
    Kept,
    /// A forwarded row can have at most this number of bytes.
    Narrow(usize),
}

/// A plan node that forwards the rows of its input, and applies a rule to these rows.
#[derive(Debug)]
struct Watched {
    input: Arc<dyn ExecutionPlan>,
    rule: Rule,
}

impl Watched {
    fn over(input: Arc<dyn ExecutionPlan>, rule: Rule) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { input, rule })
    }
}

impl DisplayAs for Watched {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched: {:?}", self.rule)
    }
}

impl ExecutionPlan for Watched {
    fn name(&self) -> &'static str {
        "Watched"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Self::over(input, self.rule)),
            Err(children) => internal_err!("one input is watched, not {}", children.len()),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rule = self.rule;
        let reservation = MemoryConsumer::new("window").register(context.memory_pool());
        let kept = Arc::new(reservation);
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        // Invariant: the reservation lives as long as the stream, which the window function drops when it is done.
        let counted = rows.map(move |batch| {
            let batch = batch?;
            match rule {
                Rule::Kept => kept.try_grow(batch.get_array_memory_size())?,
                Rule::Narrow(width) => narrow::check(&batch, width)?,
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }
}
