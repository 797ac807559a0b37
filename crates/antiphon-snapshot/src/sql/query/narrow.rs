//! Limits the size of rows that a plan repeats.
//!
//! A join returns the same row many times, and the value of a scalar subquery is copied to every row. The query engine
//! creates thousands of copies of a row or value at once, and does not count their memory.

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

/// Returns `true` if a plan node can return the same row of the input `child` several times.
pub(super) fn repeats(plan: &dyn ExecutionPlan, child: usize) -> bool {
    let kind = match plan.name() {
        "ScalarSubqueryExec" => return child > 0,
        "CrossJoinExec" | "PiecewiseMergeJoinExec" | "SymmetricHashJoinExec" => return true,
        "HashJoinExec" => plan.downcast_ref::<HashJoinExec>().map(|join| *join.join_type()),
        "NestedLoopJoinExec" => plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()),
        "SortMergeJoinExec" => plan.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type),
        _ => return false,
    };
    // Semi, anti and mark joins return each row once.
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

/// Returns an error if a row can have more than `most` bytes.
pub(super) fn check(batch: &RecordBatch, most: usize) -> Result<()> {
    if batch.get_array_memory_size() <= most {
        return Ok(());
    }
    let width = batch.columns().iter().map(widest).fold(0, usize::saturating_add);
    if width > most {
        return resources_err!("the join repeats rows of {width} bytes, and the maximum is {most} bytes");
    }
    Ok(())
}

/// Returns the number of bytes of the longest value in an array. Values of types with a fixed size count as 0 bytes.
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
