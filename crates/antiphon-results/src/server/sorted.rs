//! Sorts in-memory rows once, and caches the sorted rows for further pages.

use std::{
    cmp::Ordering,
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Number, Value};

use crate::{
    page::{Order, Sort},
    rows::{Row, Rows},
};

/// Maximum number of sorted result sets in the cache, and maximum size of the cache in bytes.
const KEPT: usize = 8;
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// A cache of recently sorted result sets, so that the server does not sort all rows again for the second page.
#[derive(Default)]
pub(super) struct Sorted {
    kept: Mutex<VecDeque<(String, Sort, Arc<Rows>)>>,
}

impl Sorted {
    /// Returns the rows of the result set `id` in the order of `sort`, if the sorted rows are cached.
    pub(super) fn get(&self, id: &str, sort: &Sort) -> Option<Arc<Rows>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, by, _)| known == id && by == sort).map(|(_, _, rows)| Arc::clone(rows))
    }

    /// Caches the sorted rows of the result set `id`, and removes the oldest entries from the cache.
    pub(super) fn keep(&self, id: &str, sort: &Sort, rows: &Arc<Rows>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((id.to_owned(), sort.clone(), Arc::clone(rows)));
        while kept.len() > KEPT || kept.iter().map(|(_, _, rows)| rows.bytes()).sum::<usize>() > KEPT_BYTES {
            if kept.pop_front().is_none() {
                break;
            }
        }
    }

    /// Removes a result set from the cache.
    pub(super) fn forget(&self, id: &str) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _, _)| known != id);
    }
}

/// Sorts rows by one of their members. Rows with equal values keep their order, in ascending and in descending sorts.
/// Null is the greatest value, as in the SQL sources.
pub(super) fn sort(rows: &Rows, by: &Sort) -> Result<Rows, serde_json::Error> {
    let mut keyed = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let value = serde_json::from_str::<Row>(row)?.remove(&by.field).unwrap_or(Value::Null);
        keyed.push((value, row));
    }
    keyed.sort_by(|(a, _), (b, _)| match by.order {
        Order::Asc => compare(a, b),
        Order::Desc => compare(b, a),
    });
    let mut sorted = Rows::new();
    for (_, row) in keyed {
        sorted.push_json(row)?;
    }
    Ok(sorted)
}

/// Compares numbers by value and text by characters. Values of different types are ordered by type.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => kind(a).cmp(&kind(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    }
}

fn numbers(a: &Number, b: &Number) -> Ordering {
    let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
    // Large numbers that are equal as floats are compared as integers. The same rule must apply to all numbers. With
    // two rules, there would be no total order, and the sort would panic.
    #[expect(clippy::cast_possible_truncation, reason = "what is too large is the largest")]
    let whole = |number: &Number| {
        let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        whole.unwrap_or_else(|| float(number) as i128)
    };
    float(a).total_cmp(&float(b)).then_with(|| whole(a).cmp(&whole(b)))
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Number(_) => 1,
        Value::String(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
