//! The SQL function `sum`, with a result that does not overflow 64 bits.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::plan_err,
    error::Result,
    functions_aggregate::sum::sum_udaf,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

/// The `sum` of the engine, which adds integers as decimals with scale 0.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WideSum {
    signature: Signature,
}

pub(super) fn wide() -> Arc<AggregateUDF> {
    let sum = WideSum { signature: Signature::user_defined(Volatility::Immutable) };
    Arc::new(AggregateUDF::from(sum))
}

impl AggregateUDFImpl for WideSum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let [given] = given else { return plan_err!("`sum` needs one argument") };
        Ok(vec![match given {
            kind if kind.is_integer() => DataType::Decimal128(20, 0),
            DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Duration(_)
            | DataType::Interval(_) => given.clone(),
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            DataType::Null => DataType::Float64,
            kind if kind.is_floating() => DataType::Float64,
            _ => return plan_err!("`sum` needs numbers, and its argument has the type {given}"),
        }])
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        sum_udaf().inner().return_type(&self.coerce_types(given)?)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        sum_udaf().inner().accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        sum_udaf().inner().state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        sum_udaf().inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        sum_udaf().inner().create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        sum_udaf().inner().create_sliding_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}
