use antiphon_results::{ColumnDefinition, ColumnType};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};

/// The maximum number of columns of a snapshot.
pub(crate) const MAX_COLUMNS: usize = 1000;

/// The metadata with which Arrow marks a text field as JSON.
const EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.json");

/// Creates a text field that contains JSON of any kind.
pub(crate) fn json_field(name: &str) -> Field {
    let metadata = [(EXTENSION.0.to_owned(), EXTENSION.1.to_owned())].into();
    Field::new(name, DataType::Utf8, true).with_metadata(metadata)
}

/// Returns `true` if the text in a column is JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    field.metadata().get(EXTENSION.0).is_some_and(|name| name == EXTENSION.1)
}

/// Returns the definitions of the columns in a schema, for responses.
pub(crate) fn columns(schema: &Schema) -> Vec<ColumnDefinition> {
    schema.fields().iter().map(column).collect()
}

fn column(field: &FieldRef) -> ColumnDefinition {
    use DataType as T;
    let (kind, format) = match field.data_type() {
        _ if is_json(field) => (ColumnType::Json, None),
        T::Boolean => (ColumnType::Boolean, None),
        T::Decimal32(_, 0) | T::Decimal64(_, 0) | T::Decimal128(_, 0) | T::Decimal256(_, 0) => {
            (ColumnType::Integer, None)
        }
        kind if kind.is_integer() => (ColumnType::Integer, None),
        kind if kind.is_numeric() => (ColumnType::Number, None),
        T::Date32 | T::Date64 => (ColumnType::Date, None),
        T::Timestamp(..) => (ColumnType::Timestamp, None),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => (ColumnType::String, None),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            (ColumnType::String, Some("base64"))
        }
        T::Time32(_) | T::Time64(_) => (ColumnType::String, Some("time")),
        T::Duration(_) | T::Interval(_) => (ColumnType::String, Some("duration")),
        _ => (ColumnType::Json, None),
    };
    let mut column = ColumnDefinition::new(field.name(), kind);
    column.format = format.map(Into::into);
    if field.is_nullable() { column.nullable() } else { column }
}
