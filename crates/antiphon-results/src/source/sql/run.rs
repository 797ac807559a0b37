//! Prepares and runs statements, and reads their results. No other module runs SQL statements.

use std::{borrow::Cow, sync::Arc};

use futures_util::TryStreamExt as _;
use serde_json::Value;
use sqlx::{
    AssertSqlSafe, Column as _, ColumnIndex, Connection as _, Executor, IntoArguments, Row as _,
    SqlSafeStr as _, SqlStr, Statement as _,
};
use tokio::time::timeout_at;

use super::{
    SqlError, SqlQuery,
    dialect::{Column, Described, Dialect, qualified},
    lease::{Failure, Lease},
    parameters,
    statement::{Page, table},
};
use crate::{rows::Rows, source::PageRequest};

/// The description of a query by the database.
#[derive(Debug)]
pub(super) struct Plan<DB: Dialect> {
    columns: Vec<Column<DB>>,
    parameters: Vec<DB::Parameter>,
    /// Parameters of the author's own count statement, if the author set one.
    count_parameters: Option<Vec<DB::Parameter>>,
    /// Columns and table: the text between `SELECT` and `WHERE`.
    select: String,
}

/// Declares text as SQL. No other function declares text as SQL.
///
/// The text is safe, because it consists of the author's SQL, declared names in quotes, type names from the database,
/// and fixed text. Values from clients are bound as parameters.
fn safe(sql: String) -> SqlStr {
    AssertSqlSafe(sql).into_sql_str()
}

impl<DB> SqlQuery<DB>
where
    DB: Dialect,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    usize: ColumnIndex<DB::Row>,
{
    pub(super) async fn read_count(&self, parameters: &Value) -> Result<u64, SqlError> {
        let values = parameters::ordered(&self.parameters, parameters)?;
        let plan = self.prepare().await?;
        let kinds = plan.count_parameters.as_ref().unwrap_or(&plan.parameters);
        let arguments = self.bind(kinds, &values)?;
        let (before, hint) = DB::limited(self.timeout);
        let sql = match &self.count {
            Some(count) => format!("{before}{}", DB::counted(count)),
            None => format!("{before}SELECT {hint}count(*) FROM {}", table(&self.sql)),
        };
        let mut lease = self.lease("count the rows").await?;
        let counting = async {
            let row = sqlx::query_with(safe(sql), arguments).fetch_one(&mut *lease.connection).await?;
            Ok(DB::count(&row)?)
        };
        let counted = timeout_at(lease.deadline, counting).await;
        let count = lease.end(counted)?;
        u64::try_from(count).map_err(|_| SqlError::setup("the query returned a negative row count"))
    }

    pub(super) async fn read_page(
        &self,
        parameters: &Value,
        request: &PageRequest,
    ) -> Result<Rows, SqlError> {
        let values = parameters::ordered(&self.parameters, parameters)?;
        let plan = self.prepare().await?;
        let mut arguments = self.bind(&plan.parameters, &values)?;
        let page = Page::new(&plan.columns, &self.key, request)?;
        let sql = page.sql(&plan.select, self.timeout, &mut arguments, values.len())?;
        let anchors: Vec<bool> = plan.columns.iter().map(|column| page.has(column)).collect();
        let mut lease = self.lease("read the rows").await?;
        lease.asked = request.after.is_some() || request.sort.is_some();
        let reading = async {
            let mut found = sqlx::query_with(safe(sql), arguments).fetch(&mut *lease.connection);
            let mut rows = Rows::new();
            let mut kinds = Vec::new();
            let mut json = Vec::with_capacity(64 * plan.columns.len());
            while let Some(row) = found.try_next().await? {
                if rows.is_empty() {
                    kinds = plan.kinds(&row)?;
                }
                json.clear();
                plan.write(&row, &kinds, &anchors, &mut json)?;
                let text = std::str::from_utf8(&json).map_err(Failure::row)?;
                rows.push_json(text).map_err(Failure::row)?;
                // The pool discards the remaining rows when it gets the connection back.
                if rows.bytes() > request.max_bytes {
                    break;
                }
            }
            Ok(rows)
        };
        let read = timeout_at(lease.deadline, reading).await;
        let read = lease.end(read);
        if matches!(read, Err(SqlError::Value { .. })) {
            // The tables have possibly changed, so the next call requests a new description of the statement from the
            // database.
            self.remember(None);
        }
        read
    }

    fn bind(&self, kinds: &[DB::Parameter], values: &[&Value]) -> Result<DB::Arguments, SqlError> {
        let mut arguments = DB::Arguments::default();
        for ((kind, value), name) in kinds.iter().zip(values).zip(&self.parameters) {
            DB::parameter(kind, value, &mut arguments)
                .map_err(|error| SqlError::invalid(format!("the parameter `{name}` {error}")))?;
        }
        Ok(arguments)
    }

    /// Returns the description of the query. Two concurrent calls can both request the description from the database,
    /// which is harmless.
    pub(super) async fn prepare(&self) -> Result<Arc<Plan<DB>>, SqlError> {
        let known = self.plan.read().expect("no holder of the lock panics").clone();
        if let Some(plan) = known {
            return Ok(plan);
        }
        self.check_names()?;
        let names: Vec<_> = self.columns.iter().map(|column| qualified::<DB>(&column.name)).collect();
        let list = if names.is_empty() { "q.*".to_owned() } else { names.join(", ") };
        let from = table(&self.sql);
        let sql = format!("SELECT {list} FROM {from}");
        let (names, described) = self.describe(sql).await?;
        let count = match &self.count {
            Some(count) => Some(self.describe(count.clone()).await?.1.parameters),
            None => None,
        };
        let counts = [Some(described.parameters.len()), count.as_ref().map(Vec::len)];
        if let Some(found) = counts.into_iter().flatten().find(|found| *found != self.parameters.len()) {
            let named = self.parameters.len();
            return Err(SqlError::setup(format!(
                "the query declares {named} parameters, but its SQL contains {found} placeholders; declare one parameter for each placeholder"
            )));
        }
        let column = |(at, kind): (usize, DB::Kind)| {
            let definition = self.columns.get(at);
            let name = definition.map_or(names[at].as_str(), |definition| &definition.name);
            Column::new(name, definition, kind)
        };
        let columns: Vec<Column<DB>> = described.columns.into_iter().enumerate().map(column).collect();
        let selected: Vec<String> = columns.iter().map(DB::selected).collect();
        let plan = Arc::new(Plan {
            select: format!("{} FROM {from}", selected.join(", ")),
            columns,
            parameters: described.parameters,
            count_parameters: count,
        });
        self.remember(Some(Arc::clone(&plan)));
        Ok(plan)
    }

    fn remember(&self, plan: Option<Arc<Plan<DB>>>) {
        *self.plan.write().expect("no holder of the lock panics") = plan;
    }

    fn check_names(&self) -> Result<(), SqlError> {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        for (at, name) in names.iter().enumerate() {
            if name.is_empty() || name.contains('\0') || names[..at].contains(name) {
                return Err(SqlError::setup("a declared column has an empty, invalid or duplicate name"));
            }
        }
        match self.key.iter().find(|key| !names.contains(&key.as_str())) {
            Some(key) => Err(SqlError::setup(format!("the key column `{key}` is not a declared column"))),
            None => Ok(()),
        }
    }

    async fn describe(&self, sql: String) -> Result<(Vec<String>, Described<DB>), SqlError> {
        let mut lease = self.lease("prepare the query").await?;
        let preparing = async {
            // A connection caches its prepared statements, even if the tables of a statement have changed. Without this
            // call, the connection would always return an outdated description of the statement.
            lease.connection.clear_cached_statements().await?;
            let statement = lease.connection.prepare(safe(sql)).await?;
            let columns = statement.columns();
            let names = columns.iter().map(|column| column.name().to_owned()).collect();
            let types: Vec<_> = columns.iter().map(|column| column.type_info().clone()).collect();
            let described = DB::describe(&mut lease.connection, &types, statement.parameters()).await?;
            Ok((names, described))
        };
        let prepared = timeout_at(lease.deadline, preparing).await;
        lease.end(prepared)
    }

    async fn lease(&self, doing: &'static str) -> Result<Lease<DB>, SqlError> {
        Lease::new(&self.pool, self.timeout, doing).await
    }
}

impl<DB: Dialect> Plan<DB> {
    /// Returns the types of the columns in these rows. Rows that do not match the description of the statement are
    /// rejected, because reading them would give wrong values.
    fn kinds(&self, row: &DB::Row) -> Result<Vec<Cow<'_, DB::Kind>>, SqlError> {
        if row.columns().len() != self.columns.len() {
            return Err(SqlError::value("*", "the columns of the table have changed; retry"));
        }
        let mut kinds = Vec::with_capacity(self.columns.len());
        for (column, found) in self.columns.iter().zip(row.columns()) {
            let changed = || SqlError::value(&column.name, "the type of the column has changed; retry");
            kinds.push(DB::found(&column.kind, found.type_info()).ok_or_else(changed)?);
        }
        Ok(kinds)
    }

    fn write(
        &self,
        row: &DB::Row,
        kinds: &[Cow<'_, DB::Kind>],
        anchors: &[bool],
        json: &mut Vec<u8>,
    ) -> Result<(), SqlError>
    where
        usize: ColumnIndex<DB::Row>,
    {
        json.push(b'{');
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                json.push(b',');
            }
            json.extend_from_slice(column.member.as_bytes());
            let value = row.try_get_raw(at).map_err(|error| SqlError::value(&column.name, error))?;
            if DB::is_null(&value) {
                json.extend_from_slice(b"null");
            } else {
                DB::write(column, &kinds[at], value, anchors[at], json)
                    .map_err(|error| SqlError::value(&column.name, error))?;
            }
        }
        json.push(b'}');
        Ok(())
    }
}
