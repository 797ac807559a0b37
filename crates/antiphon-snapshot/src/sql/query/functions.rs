//! The functions that queries can use, by name. All other functions are rejected.
//!
//! These functions are not allowed on purpose:
//! - Functions that return a different result for each call: `now`, `random`, `uuid`.
//! - Functions that reveal details of the machine: `version`, `input_file_name`.
//! - Functions whose result can be much larger than their arguments: `repeat`, `range`, `array_repeat`,
//!   `array_resize`.
//! - Functions that are slow for long values: `levenshtein`.
//! - Functions that cast to a type whose name is given as text.

/// Functions of one row whose result is not much larger than their arguments.
pub(super) const SCALARS: &[&str] = &[
    // Numbers.
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
    // Text.
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
    // Dates and timestamps.
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
    // Any values.
    "arrow_typeof",
    "coalesce",
    "get_field",
    "greatest",
    "least",
    "nullif",
    "nvl",
    "nvl2",
    // Existing lists and maps.
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

/// Functions of one row whose result can be much larger than their arguments. Each call is
/// [bounded](super::bounded).
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

/// Functions of many rows.
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

/// Window functions. Functions in [`AGGREGATES`] can also be used as window functions. Functions that collect values
/// are an exception, because each row would contain all previous values.
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

/// Aggregates that collect values.
pub(super) const GATHERING: &[&str] = &["array_agg", "string_agg"];

/// Aggregates that process all their values again for each row of a window. This step cannot be interrupted.
pub(super) const SORTING: &[&str] = &["approx_median", "approx_percentile_cont", "median", "percentile_cont"];

/// Returns the names of common functions, for error messages.
pub(super) fn shown() -> &'static str {
    "count, sum, avg, min, max, median, stddev, date_trunc, date_part, to_char, round, coalesce, lower, upper, substr, concat, regexp_like and other common functions"
}
