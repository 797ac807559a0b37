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

/// What one database does differently from the others.
///
/// Every text that is made here consists of what the author declared, of what the database says of its own
/// types, and of words of ours. Values are bound.
pub trait Dialect: Database + HasStatementCache {
    /// What a column is, as the database describes it.
    type Kind: Clone + fmt::Debug + Send + Sync;
    /// What a parameter is, as the database describes it.
    type Parameter: fmt::Debug + Send + Sync;

    /// What stands around a name. Within it, it is doubled.
    const QUOTE: char;

    /// How the parameter with this number is written, counted from 1.
    fn placeholder(number: usize) -> String;

    /// What columns and parameters are.
    fn describe(
        connection: &mut Self::Connection,
        columns: &[Self::TypeInfo],
        parameters: Option<Either<&[Self::TypeInfo], usize>>,
    ) -> impl Future<Output = Result<Described<Self>, SqlError>> + Send;

    /// What the column is in rows that came, or nothing if it is no longer what was described.
    fn found<'k>(kind: &'k Self::Kind, found: &Self::TypeInfo) -> Option<Cow<'k, Self::Kind>>;

    /// How the column is selected.
    fn selected(column: &Column<Self>) -> String {
        column.quoted.clone()
    }

    /// What the column is sorted by and compared with, or nothing if it has no order.
    fn sorted(column: &Column<Self>) -> Option<String>;

    /// Sorts nulls as if they were greater than all else.
    fn ordered(expression: &str, order: Order, nullable: bool) -> String;

    /// Binds a value that was in this column, and says how it is compared with: the placeholder, with a cast
    /// where it needs one. The value comes from outside.
    fn operand(
        column: &Column<Self>,
        value: &Value,
        placeholder: String,
        arguments: &mut Self::Arguments,
    ) -> Result<String, BoxError>;

    /// Binds a parameter of the query. The value comes from outside.
    fn parameter(
        parameter: &Self::Parameter,
        value: &Value,
        arguments: &mut Self::Arguments,
    ) -> Result<(), BoxError>;

    /// Binds a number of rows.
    fn number(number: i64, arguments: &mut Self::Arguments) -> Result<(), BoxError>;

    /// Writes a value of this kind that is not null as JSON. In a column of the key or the sort, `is_anchor`, it must be
    /// one that [`operand`](Self::operand) can go on from.
    fn write(
        column: &Column<Self>,
        kind: &Self::Kind,
        value: Self::ValueRef<'_>,
        is_anchor: bool,
        json: &mut Vec<u8>,
    ) -> Result<(), BoxError>;

    /// What a snapshot stores of a column: its definition, and what its text is.
    fn stored(name: &str, info: &Self::TypeInfo) -> (ColumnDefinition, ColumnHint);

    /// The statement whose rows [`write_stored_row`](Self::write_stored_row) reads.
    fn stored_rows(sql: &str) -> String {
        sql.to_owned()
    }

    /// Writes a value that is not null as JSON for a snapshot: with all of its digits, and bytes as `\x` and
    /// hexadecimal.
    fn write_stored(value: Self::ValueRef<'_>, json: &mut Vec<u8>) -> Result<(), BoxError>;

    /// Writes a row as a JSON object for a snapshot. `names` are the columns' names as JSON.
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
                format!("column {name} cannot be read: {error}; cast it to text in the query")
            })?;
        }
        json.push(b'}');
        Ok(())
    }

    /// The author's statement that counts, so that it answers with a number that [`count`](Self::count) reads.
    fn counted(sql: &str) -> String {
        sql.to_owned()
    }

    /// Whether the value is `NULL`.
    fn is_null(value: &Self::ValueRef<'_>) -> bool {
        sqlx::ValueRef::is_null(value)
    }

    /// Reads what a statement that counts has answered.
    fn count(row: &Self::Row) -> Result<i64, sqlx::Error>;

    /// Asks the server to give a statement up by itself, where that can be said in the statement: what comes
    /// before `SELECT`, and what comes after it.
    fn limited(_limit: Duration) -> (String, String) {
        (String::new(), String::new())
    }

    /// Asks the connection to give the next statement up after `limit`, or when what is returned says so.
    fn guard(
        _connection: &mut Self::Connection,
        _limit: Duration,
    ) -> impl Future<Output = Result<Option<Guard>, sqlx::Error>> + Send {
        std::future::ready(Ok(None))
    }

    /// Whether the server refused a value it was given, or an order that a type does not have.
    fn is_refusal(_error: &dyn DatabaseError) -> bool {
        false
    }

    /// Whether the server gave up because the statement took too long.
    fn is_timeout(error: &dyn DatabaseError) -> bool;
}

/// What a connection is told of its statement: that it goes on, that it has ended, or that nobody waits for it any more.
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

    /// Whether what runs on the connection may go on. Once the statement has ended, that is somebody else's.
    #[cfg(feature = "sqlite")]
    pub(super) fn may_go_on(&self, deadline: std::time::Instant) -> bool {
        match self.0.load(Ordering::Acquire) {
            Self::ENDED => true,
            Self::GIVEN_UP => false,
            _ => std::time::Instant::now() < deadline,
        }
    }
}

/// What a database says of a statement: its columns and its parameters.
#[derive(Debug)]
pub struct Described<DB: Dialect> {
    pub(super) columns: Vec<DB::Kind>,
    pub(super) parameters: Vec<DB::Parameter>,
}

/// A column of a query, ready to be selected, sorted by and read.
#[derive(Debug)]
pub struct Column<DB: Dialect> {
    pub(super) name: String,
    /// Its name as JSON, with a colon after it.
    pub(super) member: String,
    /// Its name in SQL: of the query, and quoted.
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

    /// Whether numbers are wanted rather than text.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn is_number(&self) -> bool {
        matches!(self.declared, Some(ColumnType::Number | ColumnType::Integer))
    }
}

/// The column of the query, quoted: whatever is in the name, it is a name.
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
