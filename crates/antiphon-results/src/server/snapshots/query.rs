//! Runs SQL queries over result sets. Each query creates a new result set.

use std::time::Duration;

use chrono::DateTime;

use super::{key, only_snapshots};
use crate::{
    error::{DualResponseError, Result},
    link::{Grant, Scope},
    response::DualResponse,
    server::{Access, Action, CreateOptions, DualResponseServer, Inner, LinkAccess},
    snapshot::{Lineage, SnapshotId},
    source::Source,
    store::Resource,
};

/// The table name of the queried result set in an SQL query.
pub(crate) const ITSELF: &str = "result";

/// Maximum number of additional result sets that one query can read.
const MAX_TABLES: usize = 8;

/// Maximum length of a query in bytes. The queries are short, because models write them.
const MAX_SQL: usize = 16 * 1024;

/// An SQL query over result sets, and the options of the new result set that contains the rows of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryOptions {
    sql: String,
    name: Option<String>,
    /// Additional tables of the query: for each, the table name in the query and the ID of the result set.
    tables: Vec<(String, String)>,
    sample: Option<usize>,
    complete: bool,
}

impl QueryOptions {
    /// Creates options with this SQL query. The result set on which the query runs is the table `result`.
    pub fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), ..Self::default() }
    }

    /// Sets the display name of the new result set. Default: `Query over`, followed by the name of the queried result
    /// set.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Option<String>>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds another result set of the same owner, which the query reads as the table `name`.
    #[must_use]
    pub fn with_table(mut self, name: impl Into<String>, id: impl Into<String>) -> Self {
        self.tables.push((name.into(), id.into()));
        self
    }

    /// Sets the number of rows in the preview of the new result set. Default: the server's default.
    #[must_use]
    pub fn with_sample(mut self, rows: impl Into<Option<usize>>) -> Self {
        self.sample = rows.into();
        self
    }

    /// Makes the call wait until all rows of the new result set are saved, without a time limit. Use this option for a
    /// tool that runs as a task. Default: the call waits as long as
    /// [`create_response`](DualResponseServer::create_response) waits.
    #[must_use]
    pub fn complete(mut self) -> Self {
        self.complete = true;
        self
    }
}

impl DualResponseServer {
    /// Runs a read-only SQL query over a snapshot and other snapshots of the same owner, if `access` allows queries.
    /// The rows of the query become a new result set of the same owner. The [`lineage`](DualResponse::lineage) of the
    /// new result set names the source sets and the query.
    ///
    /// `access` must also allow reading each result set in the query.
    ///
    /// If `access` is a signed link, [`DualResponse::resource_url`] contains a link to the new result set. The new
    /// result set and its link expire no later than the original link. Revoking the links of the original set does not
    /// revoke the new link.
    ///
    /// # Errors
    ///
    /// Returns [`DualResponseError::Refused`] if the query violates a rule. The error contains the name of the
    /// violated rule.
    pub async fn query(&self, id: &str, access: &Access, options: QueryOptions) -> Result<DualResponse> {
        self.begin_cleaning();
        let derived = self.inner.query(id, access, options).await;
        let (rows, refused) = match &derived {
            Ok(response) => (response.sample.len() as u64, None),
            Err(error) => (0, Some(error.code())),
        };
        self.inner.audit(access, Action::Query, id, (rows, 0), refused);
        derived
    }
}

impl Inner {
    async fn query(&self, id: &str, access: &Access, options: QueryOptions) -> Result<DualResponse> {
        let QueryOptions { sql, name, tables, sample, complete } = options;
        let resource = self.open_query(id, access).await?;
        only_snapshots(&resource, "queries are")?;
        check(&sql, &tables)?;
        self.check_ready(&resource).await?;
        let mut known: Vec<(String, SnapshotId)> = vec![(ITSELF.into(), key(&resource))];
        for (table, other) in &tables {
            known.push((table.clone(), key(&self.other(&resource, other, access).await?)));
        }
        let snapshots = self.snapshots()?;
        let place = self.scan(&resource).await?;
        let row_source = self.asked(&resource, snapshots.query(&known, &sql, &resource.owner)).await?;
        drop(place);
        self.count_access(&resource).await?;

        let name = name.unwrap_or_else(|| format!("Query over {}", resource.name));
        let sources = known.into_iter().map(|(table, id)| (table, id.set)).collect();
        let mut create =
            CreateOptions::new(name, Source::snapshot(row_source)).for_owner(resource.owner.clone());
        if let Some(rows) = sample {
            create = create.with_sample_size(rows);
        }
        if let Access::Link(LinkAccess(grant)) = access {
            create = create.with_expiration(self.left_of(grant));
        }
        create.complete = complete;
        create.lineage = Some(Lineage::new(sources, sql));
        let mut response = self.create(create).await?;
        if let Access::Link(LinkAccess(grant)) = access {
            self.pass_on(grant, &mut response);
        }
        Ok(response)
    }

    /// Opens a result set for a query. A query can return rows of the result set, so `access` must allow queries and
    /// reading.
    async fn open_query(&self, id: &str, access: &Access) -> Result<Resource> {
        self.open(id, access, Action::Read).await?;
        self.open(id, access, Action::Query).await
    }

    /// Returns the lifetime of a result set that is created with a link. The new result set expires no later than the
    /// link.
    fn left_of(&self, grant: &Grant) -> Duration {
        let left = DateTime::from_timestamp(grant.end, 0).map(|end| end - self.now());
        let left = left.and_then(|left| left.to_std().ok()).unwrap_or_default();
        left.min(self.options.default_expiration)
    }

    /// Opens an additional result set that a query reads. All result sets in a query must have the same owner, and
    /// `access` must allow reading each of them.
    async fn other(&self, first: &Resource, id: &str, access: &Access) -> Result<Resource> {
        // A link is valid only for one set.
        if matches!(access, Access::Link(_)) && id != first.id {
            return Err(DualResponseError::Forbidden);
        }
        let resource = self.open_query(id, access).await?;
        if resource.owner != first.owner {
            return Err(DualResponseError::NotFound);
        }
        only_snapshots(&resource, "queries are")?;
        self.check_ready(&resource).await?;
        Ok(resource)
    }

    /// Puts a link to the new result set into the response, because the caller has no other credentials for the new
    /// set. Like the original link, the new link can allow reading and queries. The new link expires no later than the
    /// original link.
    fn pass_on(&self, grant: &Grant, response: &mut DualResponse) {
        let Some(keys) = &self.options.link_keys else { return };
        let scopes = grant.scopes.iter().copied();
        let scopes = scopes.filter(|scope| matches!(scope, Scope::Read | Scope::Query)).collect();
        let end = DateTime::from_timestamp(grant.end, 0).into_iter().chain(response.expires_at).min();
        let Some(end) = end else { return };
        let fresh = Grant {
            id: response.resource_id.clone(),
            scopes,
            end: end.timestamp(),
            epoch: 0,
            paged: grant.paged,
        };
        response.resource_url = format!("{}?link={}", self.url(&response.resource_id), keys.sign(&fresh));
    }
}

fn check(sql: &str, tables: &[(String, String)]) -> Result<()> {
    if sql.trim().is_empty() {
        return Err(DualResponseError::Invalid(
            "`sql` is empty; write a query such as `SELECT count(*) FROM result`".into(),
        ));
    }
    if sql.len() > MAX_SQL {
        return Err(DualResponseError::TooLarge(format!(
            "`sql` is longer than the limit of {MAX_SQL} bytes"
        )));
    }
    if tables.len() > MAX_TABLES {
        return Err(DualResponseError::Invalid(format!("`tables` has more than {MAX_TABLES} result sets")));
    }
    for (at, (name, _)) in tables.iter().enumerate() {
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let plain = begins && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !plain || name.len() > 63 {
            return Err(DualResponseError::Invalid(
                "a name in `tables` is not valid; use letters, digits and `_`, at most 63".into(),
            ));
        }
        let same = |other: &str| other.eq_ignore_ascii_case(name);
        if same(ITSELF) || tables[..at].iter().any(|(other, _)| same(other)) {
            return Err(DualResponseError::Invalid(format!(
                "two tables have the name `{name}`; choose another name (`{ITSELF}` is the queried set)"
            )));
        }
    }
    Ok(())
}
