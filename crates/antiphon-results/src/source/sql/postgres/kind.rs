use sqlx::{PgConnection, Row as _, postgres::types::Oid};

use crate::source::sql::SqlError;

/// A type, as the catalog describes it.
#[derive(Clone, Debug)]
pub struct Kind {
    pub(super) oid: Oid,
    /// The type it is a domain of, or itself.
    pub(super) base: Oid,
    /// Its name in SQL, as the server quotes it, without a length: `character` alone would be of length 1.
    pub(super) name: String,
    pub(super) form: Form,
    /// What its elements are, if it is an array.
    pub(super) element: Option<Box<Self>>,
}

/// In which form its values come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Bool,
    Integer,
    Float,
    Double,
    Numeric,
    /// All types whose values are text on the wire.
    Text,
    Json,
    Jsonb,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    /// Arrays and composites: the server writes them as JSON.
    Composite,
    /// All others: the server writes them as text.
    Other,
}

impl Kind {
    /// Whether the server is asked for another type in its place.
    pub(super) fn is_cast(&self) -> bool {
        matches!(self.form, Form::Numeric | Form::Composite | Form::Other)
    }

    fn new(oid: Oid, base: Oid, name: String, class: &str, category: &str) -> Self {
        Self { oid, base, name, form: Form::of(base, class, category), element: None }
    }
}

impl Form {
    fn of(oid: Oid, class: &str, category: &str) -> Self {
        // Those of types that the server is born with never change.
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
            // Text, varchar, char, name, citext and what else is in the category; xml; enums.
            (142 | 705, ..) | (_, _, "S") | (_, "e", _) => Self::Text,
            _ => Self::Other,
        }
    }
}

/// Asks the catalog, once for all.
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
    if kinds.len() == count { Ok(kinds) } else { Err(SqlError::setup("a type is not in the catalog")) }
}

fn read(row: &sqlx::postgres::PgRow) -> Result<Kind, sqlx::Error> {
    let text = |at: usize| row.try_get::<String, _>(at);
    let mut kind = Kind::new(row.try_get(0)?, row.try_get(1)?, text(2)?, &text(3)?, &text(4)?);
    if let Some(oid) = row.try_get(5)? {
        kind.element = Some(Box::new(Kind::new(oid, row.try_get(6)?, text(7)?, &text(8)?, &text(9)?)));
    }
    Ok(kind)
}
