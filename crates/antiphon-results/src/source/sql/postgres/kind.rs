use sqlx::{PgConnection, Row as _, postgres::types::Oid};

use crate::source::sql::SqlError;

/// A PostgreSQL type, as described in the system catalog.
#[derive(Clone, Debug)]
pub struct Kind {
    pub(super) oid: Oid,
    /// OID of the base type, if this type is a PostgreSQL domain. If the type is not a domain, the value is the OID of
    /// the type itself.
    pub(super) base: Oid,
    /// Name of the type in SQL, which the server quotes if necessary. The name is `bpchar` and not `character`, because
    /// `character` without a length means length 1.
    pub(super) name: String,
    pub(super) form: Form,
    /// Type of the elements, if this type is an array.
    pub(super) element: Option<Box<Self>>,
}

/// The format in which the server sends values of a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Bool,
    Integer,
    Float,
    Double,
    Numeric,
    /// All types that have text as their wire format.
    Text,
    Json,
    Jsonb,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    /// Arrays and composites, which the server converts to JSON.
    Composite,
    /// Every other type, with values that the server converts to text.
    Other,
}

impl Kind {
    /// Returns whether the statement casts the column to another type.
    pub(super) fn is_cast(&self) -> bool {
        matches!(self.form, Form::Numeric | Form::Composite | Form::Other)
    }

    fn new(oid: Oid, base: Oid, name: String, class: &str, category: &str) -> Self {
        Self { oid, base, name, form: Form::of(base, class, category), element: None }
    }
}

impl Form {
    fn of(oid: Oid, class: &str, category: &str) -> Self {
        // The OIDs of built-in types never change.
        match (oid.0, class, category) {
            (16, ..) => Self::Bool,
            (20 | 21 | 23, ..) => Self::Integer,
            (700, ..) => Self::Float,
            (701, ..) => Self::Double,
            (1700, ..) => Self::Numeric,
            (114, ..) => Self::Json,
            (3802, ..) => Self::Jsonb,
            (17, ..) => Self::Bytes,
            (2950, ..) => Self::Uuid,
            (1082, ..) => Self::Date,
            (1083, ..) => Self::Time,
            (1114, ..) => Self::Timestamp,
            (1184, ..) => Self::TimestampTz,
            (_, _, "A") | (_, "c", _) | (2249, ..) => Self::Composite,
            // This arm matches `xml`, enums and the string category: text, varchar, char, name, citext and other types.
            (142 | 705, ..) | (_, _, "S") | (_, "e", _) => Self::Text,
            _ => Self::Other,
        }
    }
}

/// Reads the types from the system catalog, with one query for all types.
pub(super) async fn describe(connection: &mut PgConnection, oids: Vec<Oid>) -> Result<Vec<Kind>, SqlError> {
    let count = oids.len();
    let rows = sqlx::query(
        "SELECT t.oid, coalesce(nullif(t.typbasetype, 0), t.oid), format_type(t.oid, -1),
                t.typtype::text, t.typcategory::text,
                e.oid, coalesce(nullif(e.typbasetype, 0), e.oid), format_type(e.oid, -1),
                e.typtype::text, e.typcategory::text
         FROM unnest($1::oid[]) WITH ORDINALITY AS wanted(oid, place)
         JOIN pg_catalog.pg_type AS t ON t.oid = wanted.oid
         LEFT JOIN pg_catalog.pg_type AS e ON e.oid = t.typelem AND t.typcategory = 'A'
         ORDER BY wanted.place",
    )
    .bind(oids)
    .fetch_all(connection)
    .await
    .and_then(|rows| rows.iter().map(read).collect::<Result<Vec<_>, _>>());
    let kinds =
        rows.map_err(|error| SqlError::Database { doing: "describe its types", source: error.into() })?;
    if kinds.len() == count {
        Ok(kinds)
    } else {
        Err(SqlError::setup(
            "the type of a column or parameter was not found in PostgreSQL's catalog `pg_type`; cast the column or parameter to a built-in type",
        ))
    }
}

fn read(row: &sqlx::postgres::PgRow) -> Result<Kind, sqlx::Error> {
    let text = |at: usize| row.try_get::<String, _>(at);
    let mut kind = Kind::new(row.try_get(0)?, row.try_get(1)?, text(2)?, &text(3)?, &text(4)?);
    if let Some(oid) = row.try_get(5)? {
        kind.element = Some(Box::new(Kind::new(oid, row.try_get(6)?, text(7)?, &text(8)?, &text(9)?)));
    }
    Ok(kind)
}
