//! Limits for functions whose result can be much larger than their arguments.
//!
//! The memory pool of the query engine does not count the result of a function before an operator holds the result. So
//! this module estimates the size of a function's result before each call. If the result for a batch could be too
//! large, the batch is split. The function call fails if the result for a single row could be too large, or if all
//! results together become too large.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray as _},
    compute::{concat, kernels::concat_elements::concat_elements_dyn},
    datatypes::{DataType, Int64Type},
};
use datafusion::{
    common::{DFSchema, ScalarValue, plan_err, resources_err},
    error::Result,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
        expr::ScalarFunction,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};

use crate::engine::BATCH_ROWS;

/// Adds a limit to an SQL function: the maximum number of bytes that one call can produce.
pub(super) fn bounded(function: Arc<ScalarUDF>, bytes: usize) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Bounded { function, bytes }))
}

/// Returns `true` if an SQL function has a limit on the bytes that one call can produce.
pub(super) fn is_bounded(function: &ScalarUDF) -> bool {
    let function: &dyn std::any::Any = function.inner().as_ref();
    function.is::<Bounded>()
}

/// Returns a planner that limits the operators that concatenate text.
pub(super) fn planner(overlay: Option<Arc<ScalarUDF>>, bytes: usize) -> Arc<dyn ExprPlanner> {
    let join = ScalarUDF::new_from_impl(Join { signature: Signature::user_defined(Volatility::Immutable) });
    Arc::new(Planner { join: bounded(Arc::new(join), bytes), overlay })
}

#[derive(Debug)]
struct Planner {
    join: Arc<ScalarUDF>,
    overlay: Option<Arc<ScalarUDF>>,
}

impl ExprPlanner for Planner {
    fn plan_binary_op(&self, raw: RawBinaryExpr, _schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if raw.op != BinaryOperator::StringConcat {
            return Ok(PlannerResult::Original(raw));
        }
        let call = ScalarFunction::new_udf(Arc::clone(&self.join), vec![raw.left, raw.right]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let Some(overlay) = &self.overlay else { return Ok(PlannerResult::Original(args)) };
        let call = ScalarFunction::new_udf(Arc::clone(overlay), args);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    function: Arc<ScalarUDF>,
    bytes: usize,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.function.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.function.return_type(kinds)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<arrow::datatypes::FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(kinds)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let fits = estimate(self.name(), &args) <= self.bytes;
        let alone = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if alone {
            return if fits { self.alone(args) } else { too_much(self.name()) };
        }
        if fits {
            return self.function.invoke_with_args(args);
        }
        let mut made = Vec::new();
        let mut bytes = 0;
        self.in_pieces(&args, &mut made, &mut bytes)?;
        let made: Vec<&dyn Array> = made.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&made)?))
    }
}

impl Bounded {
    /// Computes one value for all rows. The computed value is later repeated for each row of a batch, so the value
    /// must be small.
    fn alone(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = self.function.invoke_with_args(args)?;
        let size = match &made {
            ColumnarValue::Scalar(value) => scalar(value),
            ColumnarValue::Array(array) => used(array) / array.len().max(1),
        };
        if size > repeated(self.bytes) { too_much(self.name()) } else { Ok(made) }
    }

    fn in_pieces(
        &self,
        args: &ScalarFunctionArgs,
        made: &mut Vec<ArrayRef>,
        bytes: &mut usize,
    ) -> Result<()> {
        let rows = args.number_rows;
        if estimate(self.name(), args) <= self.bytes {
            let piece = self.function.invoke_with_args(args.clone())?.into_array(rows)?;
            *bytes += piece.get_array_memory_size();
            made.push(piece);
            return if *bytes > self.bytes { too_much(self.name()) } else { Ok(()) };
        }
        if rows <= 1 {
            return too_much(self.name());
        }
        self.in_pieces(&part(args, 0, rows / 2), made, bytes)?;
        self.in_pieces(&part(args, rows / 2, rows - rows / 2), made, bytes)
    }
}

/// Returns the maximum size of a value that is repeated for each row. The maximum size ensures that a batch with
/// repeated values has at most `bytes` bytes.
pub(super) fn repeated(bytes: usize) -> usize {
    bytes / BATCH_ROWS
}

fn too_much<T>(name: &str) -> Result<T> {
    resources_err!("the result of `{name}` is too large")
}

fn part(args: &ScalarFunctionArgs, from: usize, rows: usize) -> ScalarFunctionArgs {
    let part = |arg: &ColumnarValue| match arg {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, rows)),
        scalar @ ColumnarValue::Scalar(_) => scalar.clone(),
    };
    ScalarFunctionArgs { args: args.args.iter().map(part).collect(), number_rows: rows, ..args.clone() }
}

/// Returns an upper bound for the number of bytes that a function call produces.
fn estimate(name: &str, args: &ScalarFunctionArgs) -> usize {
    let alone = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if alone { 1 } else { args.number_rows };
    let total = |arg: &ColumnarValue| match arg {
        ColumnarValue::Array(array) => used(array),
        ColumnarValue::Scalar(value) => scalar(value).saturating_mul(rows),
    };
    let all = args.args.iter().map(total).fold(0, usize::saturating_add);
    let of = |at: usize| args.args.get(at);
    match name {
        // The separator is repeated between the arguments.
        "concat_ws" => all.saturating_add(of(0).map_or(0, total).saturating_mul(args.args.len())),
        "array_to_string" => {
            let items = of(0).map_or(0, items);
            let between = of(1).map_or(0, longest).saturating_add(of(2).map_or(0, longest));
            // A number of 8 bytes can take 25 bytes as text.
            all.saturating_mul(4).saturating_add(items.saturating_mul(between))
        }
        // The replacement can be inserted at each position of the text, even between characters. The replacement can
        // contain the match several times.
        "replace" | "regexp_replace" => {
            let places = of(0).map_or(0, total).saturating_add(rows);
            places.saturating_mul(of(2).map_or(0, longest).saturating_mul(2).saturating_add(1))
        }
        "lpad" | "rpad" => {
            let wanted = of(1).map_or(0, greatest);
            // A character has at most 4 bytes.
            all.max(wanted.saturating_mul(rows).saturating_mul(4))
        }
        "string_to_array" => all.saturating_mul(8),
        "to_char" => of(1).map_or(0, total).saturating_mul(16),
        _ => all,
    }
}

/// Returns the number of bytes of an array's values, without the unused parts of shared buffers.
pub(super) fn used(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

pub(super) fn scalar(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref().map_or(0, String::len) + 4
        }
        value => value.size(),
    }
}

/// Returns the length in bytes of the longest value of an argument.
fn longest(arg: &ColumnarValue) -> usize {
    match arg {
        ColumnarValue::Scalar(value) => scalar(value),
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().iter().flatten().map(str::len).max().unwrap_or(0),
            DataType::LargeUtf8 => array.as_string::<i64>().iter().flatten().map(str::len).max().unwrap_or(0),
            DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).max().unwrap_or(0),
            _ => used(array),
        },
    }
}

/// Returns the largest number in an argument, or `usize::MAX` if the largest number is unknown.
fn greatest(arg: &ColumnarValue) -> usize {
    let number = |value: Option<i64>| usize::try_from(value.unwrap_or(0).max(0)).unwrap_or(usize::MAX);
    match arg {
        ColumnarValue::Scalar(ScalarValue::Int64(value)) => number(*value),
        ColumnarValue::Scalar(value) if value.is_null() => 0,
        ColumnarValue::Array(array) if *array.data_type() == DataType::Int64 => {
            number(array.as_primitive::<Int64Type>().iter().flatten().max())
        }
        _ => usize::MAX,
    }
}

/// Returns the number of values in all lists of an argument.
fn items(arg: &ColumnarValue) -> usize {
    match arg {
        ColumnarValue::Array(array) => match array.as_list_opt::<i32>() {
            Some(lists) => lists.iter().flatten().map(|list| list.len()).sum(),
            None => used(array),
        },
        ColumnarValue::Scalar(value) => value.size(),
    }
}

/// The operator `a || b`, which concatenates two texts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Join {
    signature: Signature,
}

impl ScalarUDFImpl for Join {
    fn name(&self) -> &'static str {
        "||"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<_> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(names.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _kinds: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn coerce_types(&self, kinds: &[DataType]) -> Result<Vec<DataType>> {
        if kinds.iter().any(DataType::is_nested) {
            return plan_err!("`||` concatenates text and does not support lists");
        }
        Ok(vec![DataType::Utf8; kinds.len()])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let alone = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if alone { 1 } else { args.number_rows };
        let sides = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = &sides[..] else { return plan_err!("`||` needs two operands") };
        let full = |side: &ArrayRef| {
            if side.len() == rows {
                Ok(Arc::clone(side))
            } else {
                ScalarValue::try_from_array(side, 0)?.to_array_of_size(rows)
            }
        };
        let joined = concat_elements_dyn(&full(left)?, &full(right)?)?;
        if alone {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?));
        }
        Ok(ColumnarValue::Array(joined))
    }
}
