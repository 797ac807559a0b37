use std::{
    borrow::Cow,
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use sqlx::{ColumnIndex, Database, Either, Row as _, database::HasStatementCache, error::DatabaseError};

use super::SqlError;
use crate::{
    column::{ColumnDefinition, ColumnType},
    error::BoxError,
    page::Order,
    snapshot::ColumnHint,
};

/// The SQL syntax, the types and the protocol features of one database, for code that all databases share.
///
/// Generated SQL consists of the author's declarations, type names from the database, and fixed text of this crate.
/// Values are not part of generated SQL, but are bound as parameters.
pub trait Dialect: Database + HasStatementCache {
    /// Type of a column, as the database describes it.
    type Kind: Clone + fmt::Debug + Send + Sync;
    /// Type of a parameter, as the database describes it.
    type Parameter: fmt::Debug + Send + Sync;

    /// Quote character around names. If a name contains the quote character, the character is doubled.
    const QUOTE: char;

    /// Returns the SQL placeholder of the parameter with the number `number`, counted from 1.
    fn placeholder(number: usize) -> String;

    /// Returns the types of the columns and parameters of a statement.
    fn describe(
        connection: &mut Self::Connection,
        columns: &[Self::TypeInfo],
        parameters: Option<Either<&[Self::TypeInfo], usize>>,
    ) -> impl Future<Output = Result<Described<Self>, SqlError>> + Send;

    /// Returns the type that a column has in received rows. Returns `None` if the type no longer matches the
    /// description of the statement.
    fn found<'k>(kind: &'k Self::Kind, found: &Self::TypeInfo) -> Option<Cow<'k, Self::Kind>>;

    /// Returns the expression that selects the column.
    fn selected(column: &Column<Self>) -> String {
        column.quoted.clone()
    }

    /// Returns the expression that sorts and compares the column, or `None` if the type of the column has no order.
    fn sorted(column: &Column<Self>) -> Option<String>;

    /// Returns a sort term in which null is the greatest value.
    fn ordered(expression: &str, order: Order, nullable: bool) -> String;

    /// Binds a value of this column, and returns the operand of a comparison: the placeholder, with a cast if
    /// necessary. The bound value comes from a client.
    fn operand(
        column: &Column<Self>,
        value: &Value,
        placeholder: String,
        arguments: &mut Self::Arguments,
    ) -> Result<String, BoxError>;

    /// Binds a parameter of the query. The bound value comes from a client.
    fn parameter(
        parameter: &Self::Parameter,
        value: &Value,
        arguments: &mut Self::Arguments,
    ) -> Result<(), BoxError>;

    /// Binds a limit or an offset.
    fn number(number: i64, arguments: &mut Self::Arguments) -> Result<(), BoxError>;

    /// Writes a non-null value of this kind as JSON. If `is_anchor` is set, the column belongs to the key or the sort.
    /// For an anchor, [`operand`](Self::operand) must be able to bind the written value.
    fn write(
        column: &Column<Self>,
        kind: &Self::Kind,
        value: Self::ValueRef<'_>,
        is_anchor: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), BoxError>;

    /// Returns the definition of a column in a snapshot, and a hint about the type of its values.
    fn stored(name: &str, info: &Self::TypeInfo) -> (ColumnDefinition, ColumnHint);

    /// Returns the statement whose rows [`write_stored_row`](Self::write_stored_row) reads.
    fn stored_rows(sql: &str) -> String {
        sql.to_owned()
    }

    /// Writes a non-null value as JSON for a snapshot. In this JSON, numbers keep all digits, and bytes become `\x`
    /// and hexadecimal digits.
    fn write_stored(value: Self::ValueRef<'_>, json: &mut Vec<u8>) -> Result<(), BoxError>;

    /// Writes a row as a JSON object for a snapshot. `names` contains the column names as JSON.
    fn write_stored_row(row: &Self::Row, names: &[String], json: &mut Vec<u8>) -> Result<(), BoxError>
    where
        usize: ColumnIndex<Self::Row>,
    {
        json.push(b'{');
        for (at, name) in names.iter().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend_from_slice(name.as_bytes());
            json.push(b':');
            let value = row.try_get_raw(at)?;
            if Self::is_null(&value) {
                json.extend_from_slice(b"null");
                continue;
            }
            Self::write_stored(value, json).map_err(|error| {
                format!("column {name} cannot be read: {error}; cast the column to text in the query")
            })?;
        }
        json.push(b'}');
        Ok(())
    }

    /// Returns the author's count statement, changed so that [`count`](Self::count) can read its result.
    fn counted(sql: &str) -> String {
        sql.to_owned()
    }

    /// Returns whether a value from the database is `NULL`.
    fn is_null(value: &Self::ValueRef<'_>) -> bool {
        sqlx::ValueRef::is_null(value)
    }

    /// Reads the result of a count statement.
    fn count(row: &Self::Row) -> Result<i64, sqlx::Error>;

    /// Returns two texts that limit the execution time on the server: the text before `SELECT` and the text after
    /// `SELECT`. Both texts are empty if the database has no limit for the execution time.
    fn limited(_limit: Duration) -> (String, String) {
        (String::new(), String::new())
    }

    /// Configures the connection to stop the next statement after `limit`. The connection also stops the statement when
    /// the returned guard is set to abandoned.
    fn guard(
        _connection: &mut Self::Connection,
        _limit: Duration,
    ) -> impl Future<Output = Result<Option<Guard>, sqlx::Error>> + Send {
        std::future::ready(Ok(None))
    }

    /// Returns `true` if the server rejected a bound value, or cannot sort by the type of a column.
    fn is_refusal(_error: &dyn DatabaseError) -> bool {
        false
    }

    /// Returns whether the server stopped the statement because of a timeout.
    fn is_timeout(error: &dyn DatabaseError) -> bool;
}

/// The state of a statement for the connection that runs it: running, ended or abandoned.
#[derive(Clone, Debug, Default)]
pub struct Guard(Arc<AtomicU8>);

impl Guard {
    const ENDED: u8 = 1;
    const GIVEN_UP: u8 = 2;

    pub(super) fn end(&self) {
        self.0.store(Self::ENDED, Ordering::Release);
    }

    pub(super) fn give_up(&self) {
        self.0.store(Self::GIVEN_UP, Ordering::Release);
    }

    /// Returns whether the connection can continue its current statement. After the guarded statement has ended, the
    /// connection can run another statement, which this guard does not limit.
    #[cfg(feature = "sqlite")]
    pub(super) fn may_go_on(&self, deadline: std::time::Instant) -> bool {
        match self.0.load(Ordering::Acquire) {
            Self::ENDED => true,
            Self::GIVEN_UP => false,
            _ => std::time::Instant::now() < deadline,
        }
    }
}

/// The description of a statement by the database: its columns and its parameters.
#[derive(Debug)]
pub struct Described<DB: Dialect> {
    pub(super) columns: Vec<DB::Kind>,
    pub(super) parameters: Vec<DB::Parameter>,
}

/// A column of a query, ready for selecting, sorting and reading.
#[derive(Debug)]
pub struct Column<DB: Dialect> {
    pub(super) name: String,
    /// Name of the column as JSON, followed by a colon.
    pub(super) member: String,
    /// Name of the column in SQL: quoted, and qualified with the table name `q`.
    pub(super) quoted: String,
    pub(super) declared: Option<ColumnType>,
    pub(super) nullable: bool,
    pub(super) kind: DB::Kind,
}

impl<DB: Dialect> Column<DB> {
    pub(super) fn new(name: &str, definition: Option<&ColumnDefinition>, kind: DB::Kind) -> Self {
        Self {
            name: name.to_owned(),
            member: format!("{}:", Value::from(name)),
            quoted: qualified::<DB>(name),
            declared: definition.map(|definition| definition.kind.clone()),
            nullable: definition.and_then(|definition| definition.nullable) != Some(false),
            kind,
        }
    }

    pub(super) fn is_declared(&self, kind: &ColumnType) -> bool {
        self.declared.as_ref() == Some(kind)
    }

    /// Returns whether the author declared the column as a number.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn is_number(&self) -> bool {
        matches!(self.declared, Some(ColumnType::Number | ColumnType::Integer))
    }
}

/// Returns the column's name, quoted and qualified with `q`. Any text in quotes is a valid name in SQL.
pub(super) fn qualified<DB: Dialect>(name: &str) -> String {
    let quote = DB::QUOTE;
    let mut quoted = String::with_capacity(name.len() + 4);
    quoted.push_str("q.");
    quoted.push(quote);
    for character in name.chars() {
        if character == quote {
            quoted.push(quote);
        }
        quoted.push(character);
    }
    quoted.push(quote);
    quoted
}
