//! Strict parsing of requests. The parser rejects unknown or ambiguous input, and never guesses its meaning.

mod query;
mod sorts;
mod strict;

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use serde::Deserialize;

#[cfg(test)]
pub(super) use self::query::PARAMETERS;
pub(super) use self::query::Query;
use self::{
    sorts::Sorts,
    strict::{Object, Whole, given},
};
use super::error::ApiError;
use crate::{
    link::{LinkOptions, Scope},
    page::{Order, Sort},
    server::{Expiry, PageOptions, QueryOptions},
    snapshot::{Aggregate, Filter, Group, Measure},
};

/// Maximum number of sort columns in a request.
const MAX_SORTS: usize = 4;

/// The greatest integer that every JSON reader represents exactly: 2^53 - 1.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Parses the body of `POST /{id}`.
pub(super) fn page(body: &[u8]) -> Result<PageOptions, ApiError> {
    let PageAsk { offset, limit, sort, cursor, filter, columns } = read(body)?;
    let sort = sort.map_or_else(Vec::new, |Sorts(sorts)| sorts);
    let options = options(offset.map(|Whole(offset)| offset), limit.map(|Whole(limit)| limit), sort, cursor)?;
    let filter = filter.into_iter().flatten().map(|Object(filter)| filter);
    Ok(options.with_filter(filter).with_columns(columns.unwrap_or_default()))
}

/// Parses the body of `POST /{id}/aggregate`.
pub(super) fn aggregate(body: &[u8]) -> Result<Aggregate, ApiError> {
    let AggregateAsk { groups, measures, filter, limit } = read(body)?;
    let limit = limit.map(|Whole(limit)| limit);
    if limit.is_some_and(|limit| limit > MAX_GROUPS) {
        return Err(ApiError::invalid(format!("`limit` must be at most {MAX_GROUPS}")));
    }
    Ok(Aggregate { groups, measures, filter, limit })
}

/// Maximum number of groups in the response to an aggregate request.
const MAX_GROUPS: u64 = 10_000;

/// Parses the body of `POST /{id}/query`.
pub(super) fn query(body: &[u8]) -> Result<QueryOptions, ApiError> {
    let QueryAsk { sql, name, tables, sample } = read(body)?;
    let sample = sample.map(|Whole(rows)| usize::try_from(rows).unwrap_or(usize::MAX));
    let mut options = QueryOptions::new(sql).with_name(name).with_sample(sample);
    for (table, id) in tables.unwrap_or_default() {
        options = options.with_table(table, id);
    }
    Ok(options)
}

/// Parses the body of `PUT /{id}`.
pub(super) fn life(body: &[u8]) -> Result<Expiry, ApiError> {
    match read(body)? {
        ExpiryBody { pinned: Some(_), expires_in: Some(_) } => {
            Err(ApiError::invalid("the body has `pinned` and `expires_in`; send only one"))
        }
        ExpiryBody { expires_in: Some(Whole(0)), .. } => {
            Err(ApiError::invalid("`expires_in` must be at least 1"))
        }
        ExpiryBody { expires_in: Some(Whole(seconds)), .. } => Ok(Expiry::For(Duration::from_secs(seconds))),
        ExpiryBody { pinned: Some(false), .. } => Ok(Expiry::Own),
        ExpiryBody { .. } => Ok(Expiry::Pinned),
    }
}

/// Parses the body of `POST /{id}/links`.
pub(super) fn link(body: &[u8]) -> Result<LinkOptions, ApiError> {
    let LinkAsk { scopes, expires_in } = read(body)?;
    let mut options = LinkOptions::default();
    if let Some(scopes) = scopes {
        let scopes = scopes.iter().map(|scope| match &**scope {
            "read" => Ok(Scope::Read),
            "pin" => Ok(Scope::Pin),
            "delete" => Ok(Scope::Delete),
            "query" => Ok(Scope::Query),
            _ => Err(ApiError::invalid("`scopes` must contain only `read`, `pin`, `delete` or `query`")),
        });
        options = options.with_scopes(scopes.collect::<Result<Vec<_>, _>>()?);
    }
    match expires_in {
        Some(Whole(0)) => Err(ApiError::invalid("`expires_in` must be at least 1")),
        Some(Whole(seconds)) => Ok(options.with_life(Duration::from_secs(seconds))),
        None => Ok(options),
    }
}

fn options(
    offset: Option<u64>,
    limit: Option<u64>,
    sort: Vec<Sort>,
    cursor: Option<String>,
) -> Result<PageOptions, ApiError> {
    if limit == Some(0) {
        return Err(ApiError::invalid("`limit` must be at least 1"));
    }
    let options = PageOptions::default().with_offset(offset.unwrap_or(0)).with_limit(limit);
    Ok(options.with_sorts(sort).with_cursor(cursor))
}

fn order(text: Option<&str>) -> Result<Order, ApiError> {
    match text {
        None | Some("asc") => Ok(Order::Asc),
        Some("desc") => Ok(Order::Desc),
        Some(_) => Err(ApiError::invalid("`order` must be `asc` or `desc`")),
    }
}

fn too_many_sorts() -> ApiError {
    ApiError::invalid(format!("`sort` has more than {MAX_SORTS} columns"))
}

fn whole(name: &str) -> ApiError {
    ApiError::invalid(format!("`{name}` must be a whole number from 0 to {MAX_NUMBER}"))
}

/// Parses an integer in a query string: digits, and only zeros after a decimal point.
fn digits(text: &str) -> Option<u64> {
    let (digits, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let zeros = !fraction.is_empty() && fraction.bytes().all(|byte| byte == b'0');
    let number = (all_digits && zeros).then(|| digits.parse().ok()).flatten();
    number.filter(|number| *number <= MAX_NUMBER)
}

/// Parses a request body. For an empty body, returns the default value of `T`.
fn read<'de, T: Deserialize<'de> + Default>(body: &'de [u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|Object(asked)| asked)
        .map_err(|error| ApiError::invalid(format!("the request body is not valid: {error}")))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageAsk {
    #[serde(default, deserialize_with = "given")]
    offset: Option<Whole>,
    #[serde(default, deserialize_with = "given")]
    limit: Option<Whole>,
    // Clients can send `null` for a missing `sort` or `cursor`. An `offset` of `null` is rejected, because the server
    // returns `null` as the next offset of the last page.
    #[serde(default)]
    sort: Option<Sorts>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    filter: Option<Vec<Object<Filter>>>,
    #[serde(default)]
    columns: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AggregateAsk {
    groups: Vec<Group>,
    measures: Vec<Measure>,
    filter: Vec<Filter>,
    limit: Option<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryAsk {
    sql: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tables: Option<BTreeMap<String, String>>,
    #[serde(default)]
    sample: Option<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpiryBody {
    #[serde(default, deserialize_with = "given")]
    pinned: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    expires_in: Option<Whole>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkAsk {
    #[serde(default, deserialize_with = "given")]
    scopes: Option<Vec<Cow<'static, str>>>,
    #[serde(default, deserialize_with = "given")]
    expires_in: Option<Whole>,
}
