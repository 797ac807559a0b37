//! The functions that queries can use, by name. A query with any other function is rejected.
//!
//! The lists deliberately do not contain these functions:
//! - Functions that return a different result for each call: `now`, `random`, `uuid`.
//! - Functions that reveal details of the machine: `version`, `input_file_name`.
//! - Functions whose result can be much larger than their arguments: `repeat`, `range`, `array_repeat`,
//!   `array_resize`.
//! - Functions that are slow for long values: `levenshtein`.
//! - Functions that cast to a type whose name is given as text.

/// Scalar functions (functions of one row) whose result is not much larger than their arguments.
pub(super) const SCALARS: &[&str] = &[
    // Functions of numbers.
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "cot",
    "degrees",
    "exp",
    "floor",
    "gcd",
    "isnan",
    "iszero",
    "lcm",
    "ln",
    "log",
    "log10",
    "log2",
    "nanvl",
    "pi",
    "power",
    "radians",
    "round",
    "signum",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    // Functions of text.
    "ascii",
    "bit_length",
    "btrim",
    "character_length",
    "chr",
    "contains",
    "ends_with",
    "find_in_set",
    "initcap",
    "left",
    "lower",
    "ltrim",
    "octet_length",
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "reverse",
    "right",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "substr_index",
    "to_hex",
    "translate",
    "upper",
    // Functions of dates and timestamps.
    "date_bin",
    "date_part",
    "date_trunc",
    "from_unixtime",
    "make_date",
    "to_date",
    "to_local_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    // Functions of values of any type.
    "arrow_typeof",
    "coalesce",
    "get_field",
    "greatest",
    "least",
    "nullif",
    "nvl",
    "nvl2",
    // Functions of existing lists and maps.
    "array_distinct",
    "array_element",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_length",
    "array_max",
    "array_min",
    "array_position",
    "array_slice",
    "array_sort",
    "cardinality",
    "map_extract",
    "map_keys",
    "map_values",
];

/// Scalar functions (functions of one row) whose result can be much larger than their arguments. The size of the
/// result of each call is [bounded](super::bounded).
pub(super) const GROWING: &[&str] = &[
    "array_to_string",
    "concat",
    "concat_ws",
    "lpad",
    "overlay",
    "regexp_replace",
    "replace",
    "rpad",
    "string_to_array",
    "to_char",
];

/// Aggregate functions (functions of many rows).
pub(super) const AGGREGATES: &[&str] = &[
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "median",
    "min",
    "nth_value",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// Functions that can be used only as window functions. Functions in [`AGGREGATES`] can also be used as window
/// functions. Aggregates that collect values cannot be used as window functions, because each row would contain all
/// previous values.
pub(super) const WINDOWS: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// Aggregates that collect values into a list or a text.
pub(super) const GATHERING: &[&str] = &["array_agg", "string_agg"];

/// Aggregate functions that process all values of a window again for each row. The time limit of a query cannot
/// interrupt an aggregate function while it processes a window.
pub(super) const SORTING: &[&str] = &["approx_median", "approx_percentile_cont", "median", "percentile_cont"];

/// Returns the names of common functions, for error messages.
pub(super) fn shown() -> &'static str {
    "count, sum, avg, min, max, median, stddev, date_trunc, date_part, to_char, round, coalesce, lower, upper, substr, concat, regexp_like and other common functions"
}
