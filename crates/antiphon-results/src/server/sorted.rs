//! Rows in hand, sorted once and paged from there.

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

/// How many sorted sets are kept, and how many bytes of them.
const KEPT: usize = 8;
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The last few sorted sets, so that the second page does not sort again.
#[derive(Default)]
pub(super) struct Sorted {
    kept: Mutex<VecDeque<(String, Sort, Arc<Rows>)>>,
}

impl Sorted {
    /// The rows of `id` in this order, if they are kept.
    pub(super) fn get(&self, id: &str, sort: &Sort) -> Option<Arc<Rows>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, by, _)| known == id && by == sort).map(|(_, _, rows)| Arc::clone(rows))
    }

    /// Keeps the rows of `id` in this order, and lets go of the oldest.
    pub(super) fn keep(&self, id: &str, sort: &Sort, rows: &Arc<Rows>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((id.to_owned(), sort.clone(), Arc::clone(rows)));
        while kept.len() > KEPT || kept.iter().map(|(_, _, rows)| rows.bytes()).sum::<usize>() > KEPT_BYTES {
            if kept.pop_front().is_none() {
                break;
            }
        }
    }

    /// Lets go of a set.
    pub(super) fn forget(&self, id: &str) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _, _)| known != id);
    }
}

/// The rows by one of their members. Rows that are equal in it stay in their order, whichever way is sorted. Nothing
/// is greater than all else, as it is in the SQL sources.
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

/// Numbers by size, text by its characters; what differs in kind, by kind.
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
    // Large ones that are the same as floats differ only as whole numbers, which such floats are too. One rule for
    // all of them: whoever sorts by two gets no order, and a panic.
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
