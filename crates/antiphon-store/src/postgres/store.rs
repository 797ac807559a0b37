use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::postgres::PgRow;

use super::{
    Inner,
    decode::{bytes, column, interval, number, silent},
    pool::Statement,
};
use crate::{
    error::{Error, Result},
    name,
    store::{Cursor, Page, Record, Revision, Store, check_entries, check_value},
};

/// The maximum number of rows of one page or one read. A backend can return fewer items than `limit`.
const MAX_ROWS: usize = 1000;

/// The maximum number of records of one claim. The number is small, because each record can have half a megabyte.
const MAX_CLAIM: usize = 128;

/// The maximum number of records that one statement deletes, so that no statement holds many locks for long.
const MAX_REMOVED: usize = 2000;

/// The number of bytes after which a page or a read ends.
const MAX_BYTES: i64 = 4 * 1024 * 1024;

/// A [`Store`] in PostgreSQL tables.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

impl PostgresStore {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("space", &self.inner.config.space).finish_non_exhaustive()
    }
}

/// The SQL statements, with the name of the schema.
#[derive(Debug)]
pub(super) struct Sql {
    get: Arc<str>,
    create: Arc<str>,
    update: Arc<str>,
    delete: Arc<str>,
    list: Arc<str>,
    claim: Arc<str>,
    remove: Arc<str>,
    append: Arc<str>,
    read: Arc<str>,
    delete_log: Arc<str>,
}

impl Sql {
    pub(super) fn new(schema: &str) -> Self {
        Self {
            get: format!(
                "select value, revision from {schema}.records
                where space = $1 and key = $2 and (expires_at is null or expires_at > now())"
            )
            .into(),
            create: format!(
                "insert into {schema}.records as record (space, key, value, expires_at, claim_at)
                values ($1, $2, $3, now() + $4, now() + $4)
                on conflict (space, key) do update
                set value = excluded.value, revision = excluded.revision,
                    expires_at = excluded.expires_at, claim_at = excluded.claim_at
                where record.expires_at <= now()
                returning revision"
            )
            .into(),
            // `claim_at` is the time at which a claim checks the record. An update changes `claim_at` only if the new
            // expiry time is well before `claim_at`, because an update that changes no indexed column is cheap.
            update: format!(
                "update {schema}.records
                set value = $3, revision = nextval('{schema}.revisions'), expires_at = now() + $4,
                    claim_at = case
                        when claim_at <= now() + $4 + least($4 / 16, interval '1 minute') then claim_at
                        else now() + $4
                    end
                where space = $1 and key = $2 and revision = $5
                    and (expires_at is null or expires_at > now())
                returning revision"
            )
            .into(),
            delete: format!("delete from {schema}.records where space = $1 and key = $2 and revision = $3")
                .into(),
            // Expired rows count toward the limit of the page, so that one page does not read many expired rows.
            list: format!(
                "select key, case when live then value end, revision from (
                    select key, value, revision, live,
                        sum(size) over (order by key rows unbounded preceding) - size as before
                    from (
                        select key, value, revision, live,
                            case when live then octet_length(value) else 0 end as size
                        from (
                            select key, value, revision, expires_at is null or expires_at > now() as live
                            from {schema}.records
                            where space = $1 and key > $2 and key < $3
                            order by key limit $4
                        ) as page
                    ) as page
                ) as page
                where before < $5
                order by key"
            )
            .into(),
            claim: format!("select key, value, revision from {schema}.claim($1, $2, $3, $4, $5, $6)").into(),
            remove: format!("select {schema}.remove_expired($1, $2, $3, $4, $5)").into(),
            append: format!("select done, size from {schema}.append($1, $2, $3, $4)").into(),
            read: format!(
                "select entry from (
                    select number, entry,
                        sum(octet_length(entry)) over (order by number rows unbounded preceding)
                            - octet_length(entry) as before
                    from (
                        select number, entry from {schema}.entries
                        where log_id = (select id from {schema}.logs where space = $1 and log = $2)
                            and number >= $3
                        order by number limit $4
                    ) as part
                ) as part
                where before < $5
                order by number"
            )
            .into(),
            delete_log: format!("select {schema}.delete_log($1, $2)").into(),
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn now(&self) -> Result<SystemTime> {
        let statement = sqlx::query("select (extract(epoch from now()) * 1000000)::bigint");
        let row = self.inner.pool.row(statement).await?.ok_or_else(silent)?;
        Ok(SystemTime::UNIX_EPOCH + Duration::from_micros(number(&row, 0)?))
    }

    async fn get(&self, key: &str) -> Result<Option<Record>> {
        name::check(key)?;
        let row = self.inner.pool.row(self.statement(&self.inner.store.get).bind(key)).await?;
        row.map(|row| record(key.to_owned(), &row, 0)).transpose()
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        name::check(key)?;
        check_value(value.len())?;
        let statement =
            self.statement(&self.inner.store.create).bind(key).bind(&*value).bind(ttl.map(interval));
        written(key, self.inner.pool.row(statement).await?)
    }

    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision> {
        name::check(key)?;
        check_value(value.len())?;
        let statement = self
            .statement(&self.inner.store.update)
            .bind(key)
            .bind(&*value)
            .bind(ttl.map(interval))
            .bind(known(key, revision)?);
        written(key, self.inner.pool.row(statement).await?)
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        name::check(key)?;
        let statement = self.statement(&self.inner.store.delete).bind(key).bind(known(key, revision)?);
        if self.inner.pool.changed(statement).await? { Ok(()) } else { Err(conflict(key)) }
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        let (from, to) = bounds(prefix)?;
        let from = match after {
            Some(Cursor(after)) if after != from => {
                name::check(after)?;
                after.as_str().max(from)
            }
            _ => from,
        };
        let limit = limit.min(MAX_ROWS);
        if limit == 0 {
            return Ok(Page { items: Vec::new(), next: Some(Cursor(from.to_owned())) });
        }
        let statement =
            self.statement(&self.inner.store.list).bind(from).bind(to).bind(count(limit)).bind(MAX_BYTES);
        let rows = self.inner.pool.rows(statement).await?;

        let full = rows.len() == limit;
        let mut last = None;
        let mut size = 0;
        let mut items = Vec::with_capacity(rows.len());
        for row in &rows {
            let key: String = column(row, 0)?;
            last = Some(key.clone());
            if column::<Option<&[u8]>>(row, 1)?.is_some() {
                let record = record(key, row, 1)?;
                size += record.value.len();
                items.push(record);
            }
        }
        let cut = i64::try_from(size).unwrap_or(i64::MAX) >= MAX_BYTES;
        Ok(Page { items, next: last.filter(|_| full || cut).map(Cursor) })
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        let (from, to) = bounds(prefix)?;
        let limit = count(limit.min(MAX_CLAIM));
        if limit == 0 {
            return Ok(Vec::new());
        }
        let first = prefix.split_once('/').map(|(first, _)| first);
        let statement = self
            .statement(&self.inner.store.claim)
            .bind(interval(lease))
            .bind(limit)
            .bind(first)
            .bind(from)
            .bind(to);
        let rows = self.inner.pool.rows(statement).await?;
        rows.iter().map(|row| record(column(row, 0)?, row, 1)).collect()
    }

    async fn remove_expired(&self, prefix: &str, limit: usize) -> Result<usize> {
        let (from, to) = bounds(prefix)?;
        let limit = count(limit.min(MAX_REMOVED));
        if limit == 0 {
            return Ok(0);
        }
        let first = prefix.split_once('/').map(|(first, _)| first);
        let statement = self.statement(&self.inner.store.remove).bind(limit).bind(first).bind(from).bind(to);
        let row = self.inner.pool.row(statement).await?.ok_or_else(silent)?;
        Ok(usize::try_from(number(&row, 0)?).unwrap_or(usize::MAX))
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        name::check(log)?;
        check_entries(&entries)?;
        // No log has `i64::MAX` entries, so an append at a larger position is a conflict.
        let place = i64::try_from(at).unwrap_or(i64::MAX);
        let entries: Vec<&[u8]> = entries.iter().map(|entry| &**entry).collect();
        let statement = self.statement(&self.inner.store.append).bind(log).bind(place).bind(entries);
        let row = self.inner.pool.row(statement).await?.ok_or_else(silent)?;
        let found = number(&row, 1)?;
        if column(&row, 0)? {
            Ok(found)
        } else {
            Err(Error::LogConflict { log: log.to_owned(), expected: at, found })
        }
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        name::check(log)?;
        let (Ok(from), limit @ 1..) = (i64::try_from(from), limit.min(MAX_ROWS)) else {
            return Ok(Vec::new());
        };
        let statement =
            self.statement(&self.inner.store.read).bind(log).bind(from).bind(count(limit)).bind(MAX_BYTES);
        self.inner.pool.rows(statement).await?.iter().map(|row| bytes(row, 0)).collect()
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        name::check(log)?;
        self.inner.pool.row(self.statement(&self.inner.store.delete_log).bind(log)).await?;
        Ok(())
    }
}

impl PostgresStore {
    fn statement<'q>(&'q self, sql: &Arc<str>) -> Statement<'q> {
        self.inner.statement(sql)
    }
}

fn written(key: &str, row: Option<PgRow>) -> Result<Revision> {
    let row = row.ok_or_else(|| conflict(key))?;
    Ok(Revision(number(&row, 0)?))
}

/// Reads the record that a row contains. The columns from `at` on contain the value and the revision.
fn record(key: String, row: &PgRow, at: usize) -> Result<Record> {
    Ok(Record::new(key, bytes(row, at)?, Revision(number(row, at + 1)?)))
}

fn conflict(key: &str) -> Error {
    Error::Conflict { key: key.to_owned() }
}

/// Converts a revision for SQL. Returns a conflict if no record can have the revision `revision`.
fn known(key: &str, revision: Revision) -> Result<i64> {
    i64::try_from(revision.0).map_err(|_| conflict(key))
}

/// Returns two texts between which all keys under `prefix` are sorted. No key is equal to one of the two texts.
fn bounds(prefix: &str) -> Result<(&str, String)> {
    name::check_prefix(prefix)?;
    Ok(match prefix.strip_suffix('/') {
        // `0` is the next character after `/`.
        Some(name) => (prefix, format!("{name}0")),
        // `~` is the largest character in names.
        None => (prefix, "\u{7f}".to_owned()),
    })
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
