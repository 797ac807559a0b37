//! Converts errors of the query engine to messages that the caller can read. The messages contain no internal details.

use std::time::Duration;

use antiphon_results::DualResponseError;
use arrow::error::ArrowError;
use datafusion::{common::SchemaError, error::DataFusionError};

use crate::error::Error;

/// Creates the error for a query that a rule rejects.
pub(crate) fn refused(rule: &'static str, reason: impl Into<String>) -> DualResponseError {
    DualResponseError::Refused { rule, reason: reason.into() }
}

/// Converts an error of an SQL query to an error for the caller.
pub(crate) fn of_query(error: DataFusionError) -> DualResponseError {
    match error {
        DataFusionError::ResourcesExhausted(text) if is_disk(&text) => refused(
            "spill",
            "the query needs more temporary disk space than allowed; select fewer rows or columns before sorting, joining or grouping",
        ),
        DataFusionError::ResourcesExhausted(_) => refused(
            "memory",
            "the query needs more memory than allowed; select fewer rows or columns before joining, grouping or concatenating",
        ),
        DataFusionError::ArrowError(error, _) => match *error {
            ArrowError::ExternalError(source) => of_source(source),
            ArrowError::MemoryError(_) | ArrowError::OffsetOverflowError(_) => {
                refused("memory", "the query creates a value that is too large; select shorter values")
            }
            ArrowError::IoError(text, error) => inside(format!("{text}: {error}")),
            error => not_valid(&error.to_string()),
        },
        DataFusionError::SQL(error, _) => match *error {
            datafusion::sql::sqlparser::parser::ParserError::RecursionLimitExceeded => too_deep(),
            datafusion::sql::sqlparser::parser::ParserError::TokenizerError(text)
            | datafusion::sql::sqlparser::parser::ParserError::ParserError(text) => not_valid(&text),
        },
        DataFusionError::SchemaError(error, _) => not_valid(&of_schema(&error)),
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => not_valid(&text),
        DataFusionError::NotImplemented(text) => not_valid(&format!("the query is not supported: {text}")),
        DataFusionError::External(source) => of_source(source),
        DataFusionError::Context(_, error) | DataFusionError::Diagnostic(_, error) => of_query(*error),
        DataFusionError::Collection(mut errors) => match errors.pop() {
            Some(error) => of_query(error),
            None => inside("the query engine returned an empty list of errors"),
        },
        DataFusionError::Shared(error) => shared(&error),
        DataFusionError::Internal(text) if is_pattern(&text) => no_pattern(),
        error => inside(error),
    }
}

/// Converts an error of a view or an aggregate to an error for the caller. The error messages do not refer to a query,
/// because the caller did not write a query.
pub(crate) fn of_view(error: DataFusionError) -> DualResponseError {
    match of_query(error) {
        DualResponseError::Refused { rule: "memory" | "spill", .. } => DualResponseError::TooLarge(
            "sorting, filtering or grouping needs more memory or disk space than allowed; filter the rows first".into(),
        ),
        DualResponseError::Refused { reason, .. } => DualResponseError::Invalid(reason),
        error => error,
    }
}

/// Creates the error for a query that exceeded its time limit.
pub(crate) fn timeout(limit: Duration) -> DualResponseError {
    DualResponseError::Timeout { limit }
}

/// Creates the error for a query that is nested too deeply.
pub(crate) fn too_deep() -> DualResponseError {
    refused("too_deep", "the query is nested too deeply; use fewer parentheses, operators and subqueries")
}

/// Creates the error for an invalid query, with the message of the parser or the planner.
pub(crate) fn not_valid(text: &str) -> DualResponseError {
    let text = text.split("\n\nbacktrace").next().unwrap_or(text);
    // The text after this phrase names settings and versions of the query engine, which the caller cannot change.
    let text = text.split("This issue was likely caused by a bug").next().unwrap_or(text).trim();
    let mut shown: String = text.chars().filter(|character| !character.is_control()).take(600).collect();
    if shown.is_empty() {
        shown.push_str("the query is not valid SQL");
    }
    refused("not_valid", shown)
}

fn is_disk(text: &str) -> bool {
    text.contains("disk")
}

fn inside(error: impl Into<antiphon_results::BoxError>) -> DualResponseError {
    Error::Broken(error.into()).into()
}

fn of_source(source: antiphon_results::BoxError) -> DualResponseError {
    let source = match source.downcast::<Error>() {
        Ok(error) => return (*error).into(),
        Err(source) => source,
    };
    let source = match source.downcast::<DualResponseError>() {
        Ok(error) => return *error,
        Err(source) => source,
    };
    if source.is::<regex::Error>() {
        return no_pattern();
    }
    match source.downcast::<DataFusionError>() {
        Ok(error) => of_query(*error),
        Err(source) => inside(source),
    }
}

/// Converts an error that several callers share. A shared error cannot be moved, so the conversion reads only the root
/// cause of the error.
fn shared(error: &DataFusionError) -> DualResponseError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(text) => {
            of_query(DataFusionError::ResourcesExhausted(text.clone()))
        }
        DataFusionError::Execution(text) | DataFusionError::Plan(text) => not_valid(text),
        DataFusionError::ArrowError(error, _)
            if !matches!(**error, ArrowError::ExternalError(_) | ArrowError::IoError(..)) =>
        {
            not_valid(&error.to_string())
        }
        DataFusionError::Internal(text) if is_pattern(text) => no_pattern(),
        DataFusionError::External(source) if source.is::<regex::Error>() => no_pattern(),
        error => inside(error.to_string()),
    }
}

/// Returns `true` if the text of an internal error shows that the query contains an invalid pattern.
fn is_pattern(text: &str) -> bool {
    text.contains("Regular expression did not compile")
}

fn no_pattern() -> DualResponseError {
    not_valid("a regular expression is not valid or is too large; correct or shorten it")
}

fn of_schema(error: &SchemaError) -> String {
    let SchemaError::FieldNotFound { field, valid_fields } = error else { return error.to_string() };
    let wanted = field.name.to_lowercase();
    let mut text = format!("column `{}` does not exist", field.name);
    let capitals =
        valid_fields.iter().find(|valid| valid.name != field.name && valid.name.to_lowercase() == wanted);
    if let Some(valid) = capitals {
        return format!("{text}; names with capitals need double quotes: write \"{}\"", valid.name);
    }
    let near = valid_fields.iter().map(|valid| (distance(&wanted, &valid.name.to_lowercase()), &valid.name));
    if let Some((_, name)) = near.filter(|(distance, _)| *distance <= 1 + wanted.len() / 4).min() {
        text.push_str("; did you mean `");
        text.push_str(name);
        text.push_str("`?");
        return text;
    }
    let mut names: Vec<_> = valid_fields.iter().map(|valid| format!("`{}`", valid.name)).collect();
    names.dedup();
    if names.len() > 30 {
        names.truncate(30);
        names.push("…".into());
    }
    if !names.is_empty() {
        text.push_str("; the columns are ");
        text.push_str(&names.join(", "));
    }
    text
}

/// Returns the edit distance of two names. Only the first 64 characters of each name count.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, character) in one.chars().take(64).enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (column, candidate) in other.iter().enumerate() {
            let kept = before + usize::from(character != *candidate);
            before = row[column + 1];
            row[column + 1] = kept.min(before + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
