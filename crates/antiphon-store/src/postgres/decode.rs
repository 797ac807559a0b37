//! Conversions between Rust and SQL values.

use std::time::Duration;

use bytes::Bytes;
use sqlx::{
    Decode, Postgres, Row, Type,
    postgres::{PgRow, types::PgInterval},
};

use super::BACKEND;
use crate::error::{Error, Result};

/// A thousand years, which fits into a timestamp. Durations of more than a thousand years are reduced to a thousand
/// years.
const FOREVER: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// Converts a duration, rounded up to microseconds.
pub(super) fn interval(duration: Duration) -> PgInterval {
    let micros = duration.min(FOREVER).as_nanos().div_ceil(1000);
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(micros).unwrap_or(i64::MAX) }
}

/// Reads the column `at` of a row.
pub(super) fn column<'r, T>(row: &'r PgRow, at: usize) -> Result<T>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(at).map_err(|error| Error::backend(BACKEND, error))
}

/// Reads the column `at` of a row, which contains bytes.
pub(super) fn bytes(row: &PgRow, at: usize) -> Result<Bytes> {
    column(row, at).map(Bytes::copy_from_slice)
}

/// Reads a column with a count or a revision.
pub(super) fn number(row: &PgRow, at: usize) -> Result<u64> {
    let number: i64 = column(row, at)?;
    u64::try_from(number).map_err(|error| Error::backend(BACKEND, error))
}

/// Returns the error for a statement that must always return a row, but returned no row.
pub(super) fn silent() -> Error {
    Error::backend(BACKEND, sqlx::Error::RowNotFound)
}
