//! Statements that contain the author's SQL.

use std::{fmt::Write as _, time::Duration};

use serde_json::Value;

use super::{
    SqlError,
    dialect::{Column, Dialect},
};
use crate::{page::Order, source::PageRequest};

/// Returns the author's SQL as a table named `q`. The line breaks around the SQL end a possible comment in the last
/// line of the SQL.
pub(super) fn table(sql: &str) -> String {
    format!("(\n{sql}\n) AS q")
}

/// The rows of the query that belong to a page, and their order.
#[derive(Debug)]
pub(super) struct Page<'p, DB: Dialect> {
    /// Sort terms, the most significant first.
    terms: Vec<Term<'p, DB>>,
    after: bool,
    limit: i64,
    offset: i64,
}

#[derive(Debug)]
struct Term<'p, DB: Dialect> {
    column: &'p Column<DB>,
    /// SQL expression by which the rows are sorted and compared.
    expression: String,
    order: Order,
    nullable: bool,
    /// Value of the sort expression in the last row of the previous page.
    last: Option<&'p Value>,
}

impl<'p, DB: Dialect> Page<'p, DB> {
    /// Finds the columns by which the page is sorted. Returns an error if a requested name is not among `columns`.
    pub(super) fn new(
        columns: &'p [Column<DB>],
        key: &[String],
        request: &'p PageRequest,
    ) -> Result<Self, SqlError> {
        let sort = request.sort.iter().map(|sort| (sort.field.as_str(), sort.order, true));
        let key_terms = key.iter().map(|name| (name.as_str(), Order::Asc, false));
        let expected = key.len() + usize::from(request.sort.is_some());
        if let Some(after) = &request.after {
            if key.is_empty() {
                return Err(SqlError::invalid(
                    "the query has no key columns, so it does not support cursors",
                ));
            }
            if after.len() != expected {
                return Err(SqlError::invalid("the cursor does not belong to this query"));
            }
        }
        let mut terms: Vec<Term<'p, DB>> = Vec::with_capacity(expected);
        for (at, (name, order, is_sort)) in sort.chain(key_terms).enumerate() {
            let Some(column) = columns.iter().find(|column| column.name == name) else {
                return Err(SqlError::invalid("the column in `sort` does not exist in the query"));
            };
            // The sort column can also be a key column. In this case, the column is already in the list.
            if terms.iter().any(|term| term.column.name == name) {
                continue;
            }
            let expression = DB::sorted(column).ok_or_else(|| {
                SqlError::invalid(format!("column `{name}` has a type that cannot be sorted"))
            })?;
            let nullable = is_sort && column.nullable && !key.iter().any(|key| key == name);
            let last = request.after.as_ref().map(|after| &after[at]);
            if last.is_some_and(Value::is_null) && !nullable {
                return Err(SqlError::invalid(format!(
                    "the cursor has an invalid value for column `{name}`"
                )));
            }
            terms.push(Term { column, expression, order, nullable, last });
        }
        // If the request sets `after`, the page starts after the row with these values, so the SQL needs no offset.
        let offset = if request.after.is_some() { 0 } else { request.offset };
        Ok(Self { terms, after: request.after.is_some(), limit: rows(request.limit)?, offset: rows(offset)? })
    }

    /// Returns whether the page is sorted by this column, so that a cursor contains its value.
    pub(super) fn has(&self, column: &Column<DB>) -> bool {
        self.terms.iter().any(|term| term.column.name == column.name)
    }

    /// Returns the SQL statement for the page. `arguments` contains the author's parameters, and this function adds
    /// its own values after the parameters.
    pub(super) fn sql(
        &self,
        select: &str,
        limit: Duration,
        arguments: &mut DB::Arguments,
        mut bound: usize,
    ) -> Result<String, SqlError> {
        let (before, hint) = DB::limited(limit);
        let mut sql = format!("{before}SELECT {hint}{select}");
        if self.after {
            sql.push_str(" WHERE ");
            sql.push_str(&self.condition(arguments, &mut bound)?);
        }
        let order = |term: &Term<'_, DB>| DB::ordered(&term.expression, term.order, term.nullable);
        if !self.terms.is_empty() {
            sql.push_str(" ORDER BY ");
            sql.push_str(&self.terms.iter().map(order).collect::<Vec<_>>().join(", "));
        }
        let _ = write!(sql, " LIMIT {} OFFSET {}", DB::placeholder(bound + 1), DB::placeholder(bound + 2));
        for number in [self.limit, self.offset] {
            DB::number(number, arguments)
                .map_err(|_| SqlError::invalid("`limit` or `offset` is not valid"))?;
        }
        Ok(sql)
    }

    /// Returns the condition for the rows after the last row of the previous page. A row matches the condition if the
    /// row comes later in the order of the first sort term. If the values of the first term are equal, the second term
    /// decides, and so on. The condition starts with a simple comparison, so that the database can use an index.
    fn condition(&self, arguments: &mut DB::Arguments, bound: &mut usize) -> Result<String, SqlError> {
        let mut operand = |term: &Term<'_, DB>, value: &Value| {
            *bound += 1;
            DB::operand(term.column, value, DB::placeholder(*bound), arguments).map_err(|_| {
                let name = &term.column.name;
                SqlError::invalid(format!("the cursor has an invalid value for column `{name}`"))
            })
        };
        // Values are bound in the order of the text, because some databases support no other order.
        let mut sql = match self.terms.as_slice() {
            [first, _, ..] => match first.last {
                None | Some(Value::Null) => String::new(),
                Some(value) => {
                    let (left, right) = (&first.expression, operand(first, value)?);
                    match first.order {
                        Order::Asc if first.nullable => format!("({left} >= {right} OR {left} IS NULL) AND "),
                        Order::Asc => format!("{left} >= {right} AND "),
                        Order::Desc => format!("{left} <= {right} AND "),
                    }
                }
            },
            _ => String::new(),
        };
        let mut ways = Vec::with_capacity(self.terms.len());
        for (at, term) in self.terms.iter().enumerate() {
            let mut all = Vec::with_capacity(at + 1);
            for equal in &self.terms[..at] {
                let left = &equal.expression;
                all.push(match equal.last {
                    None | Some(Value::Null) => format!("{left} IS NULL"),
                    Some(value) => format!("{left} = {}", operand(equal, value)?),
                });
            }
            let left = &term.expression;
            let beyond = match (term.last, term.order) {
                // Null is the greatest value, so in ascending order no greater value follows.
                (None | Some(Value::Null), Order::Asc) => continue,
                (None | Some(Value::Null), Order::Desc) => format!("{left} IS NOT NULL"),
                (Some(value), Order::Asc) if term.nullable => {
                    format!("({left} > {} OR {left} IS NULL)", operand(term, value)?)
                }
                (Some(value), Order::Asc) => format!("{left} > {}", operand(term, value)?),
                (Some(value), Order::Desc) => format!("{left} < {}", operand(term, value)?),
            };
            all.push(beyond);
            ways.push(format!("({})", all.join(" AND ")));
        }
        let _ = write!(sql, "({})", ways.join(" OR "));
        Ok(sql)
    }
}

/// Converts a number of rows to the type that databases use.
fn rows(number: u64) -> Result<i64, SqlError> {
    i64::try_from(number).map_err(|_| SqlError::invalid("`offset` or `limit` is too large"))
}
