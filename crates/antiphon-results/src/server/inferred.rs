//! Infers columns from rows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    column::{ColumnDefinition, ColumnType},
    rows::{Row, Rows},
};

/// Infers the columns of rows. Each member that occurs in a row becomes a column. If all values of a column have a
/// common type, the column gets that type.
pub(super) fn inferred(rows: &Rows) -> Result<Vec<ColumnDefinition>, serde_json::Error> {
    let mut order = Vec::new();
    let mut found: BTreeMap<String, (Option<ColumnType>, usize)> = BTreeMap::new();
    let mut looked = 0;
    for row in rows.iter() {
        looked += 1;
        for (name, value) in serde_json::from_str::<Row>(row)? {
            if !found.contains_key(&name) {
                order.push(name.clone());
            }
            let (kind, seen) = found.entry(name).or_default();
            let Some(this) = kind_of(&value) else { continue };
            *seen += 1;
            *kind = Some(match kind.take() {
                None => this,
                Some(known) if known == this => known,
                Some(ColumnType::Integer | ColumnType::Number)
                    if matches!(this, ColumnType::Integer | ColumnType::Number) =>
                {
                    ColumnType::Number
                }
                Some(_) => ColumnType::Json,
            });
        }
    }
    let column = |name: String| {
        let (kind, seen) = found.remove(&name).unwrap_or_default();
        let mut column = ColumnDefinition::new(name, kind.unwrap_or(ColumnType::Json));
        column.nullable = (seen < looked).then_some(true);
        column
    };
    Ok(order.into_iter().map(column).collect())
}

fn kind_of(value: &Value) -> Option<ColumnType> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => ColumnType::Boolean,
        Value::Number(number) if number.is_i64() || number.is_u64() => ColumnType::Integer,
        Value::Number(_) => ColumnType::Number,
        Value::String(_) => ColumnType::String,
        Value::Array(_) | Value::Object(_) => ColumnType::Json,
    })
}
