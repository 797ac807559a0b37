//! How wide rows may be that are repeated.
//!
//! A join gives the same row many times, a subquery's one value is given to every row, and the engine makes thousands
//! of them at once without counting.

use arrow::{
    array::{Array, ArrayRef, AsArray as _, RecordBatch},
    datatypes::DataType,
};
use datafusion::{
    common::{JoinType, resources_err},
    error::Result,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
    },
};

use super::bounded::used;

/// Whether a plan repeats rows of this one of its children.
pub(super) fn repeats(plan: &dyn ExecutionPlan, child: usize) -> bool {
    let kind = match plan.name() {
        "ScalarSubqueryExec" => return child > 0,
        "CrossJoinExec" | "PiecewiseMergeJoinExec" | "SymmetricHashJoinExec" => return true,
        "HashJoinExec" => plan.downcast_ref::<HashJoinExec>().map(|join| *join.join_type()),
        "NestedLoopJoinExec" => plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()),
        "SortMergeJoinExec" => plan.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type),
        _ => return false,
    };
    // Those that only choose rows give each once.
    !matches!(
        kind,
        Some(
            JoinType::LeftSemi
                | JoinType::RightSemi
                | JoinType::LeftAnti
                | JoinType::RightAnti
                | JoinType::LeftMark
                | JoinType::RightMark
        )
    )
}

/// An error if a row may have more bytes than this.
pub(super) fn check(batch: &RecordBatch, most: usize) -> Result<()> {
    if batch.get_array_memory_size() <= most {
        return Ok(());
    }
    let width = batch.columns().iter().map(widest).fold(0, usize::saturating_add);
    if width > most {
        return resources_err!("rows of {width} bytes would be repeated, and {most} are the most");
    }
    Ok(())
}

/// The bytes of the longest value. What all values of a type have is not counted.
fn widest(array: &ArrayRef) -> usize {
    fn longest<'a, T: AsRef<[u8]> + ?Sized + 'a>(values: impl Iterator<Item = Option<&'a T>>) -> usize {
        values.flatten().map(|value| value.as_ref().len()).max().unwrap_or(0)
    }
    match array.data_type() {
        DataType::Utf8 => longest(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => longest(array.as_string::<i64>().iter()),
        DataType::Utf8View => longest(array.as_string_view().iter()),
        DataType::Binary => longest(array.as_binary::<i32>().iter()),
        DataType::LargeBinary => longest(array.as_binary::<i64>().iter()),
        DataType::BinaryView => longest(array.as_binary_view().iter()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(widest).sum(),
        DataType::List(_) => {
            array.as_list::<i32>().iter().flatten().map(|list| used(&list)).max().unwrap_or(0)
        }
        DataType::LargeList(_) => {
            array.as_list::<i64>().iter().flatten().map(|list| used(&list)).max().unwrap_or(0)
        }
        kind if kind.is_nested() => used(array) / array.len().max(1),
        _ => 0,
    }
}
