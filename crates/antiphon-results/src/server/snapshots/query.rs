//! Going on from a result: a query over sets makes a new one.

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

/// What the set itself is called in a query over it.
pub(crate) const ITSELF: &str = "result";

/// The most other sets of one query.
const MAX_TABLES: usize = 8;

/// The longest query: a model's, not a program's.
const MAX_SQL: usize = 16 * 1024;

/// A query over sets, and what its answer is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryOptions {
    /// The query. The set itself is the table `result`.
    pub sql: String,
    /// What people call the new set. Default: the set's name, and that it is a query over it.
    pub name: Option<String>,
    /// Other sets of the same owner, each with the name it has in the query.
    pub tables: Vec<(String, String)>,
    /// How many rows the preview has. Default: the server's.
    pub sample: Option<usize>,
    /// Whether the answer waits until all rows are saved.
    pub complete: bool,
}

impl QueryOptions {
    /// This query over one set.
    pub fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), ..Self::default() }
    }

    /// Names the new set.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Option<String>>) -> Self {
        self.name = name.into();
        self
    }

    /// Makes another set of the same owner known to the query as `name`.
    #[must_use]
    pub fn with_table(mut self, name: impl Into<String>, id: impl Into<String>) -> Self {
        self.tables.push((name.into(), id.into()));
        self
    }

    /// Sets how many rows the preview has.
    #[must_use]
    pub fn with_sample(mut self, rows: impl Into<Option<usize>>) -> Self {
        self.sample = rows.into();
        self
    }

    /// Waits until all rows are saved, however long that takes: for a tool that runs as a task.
    #[must_use]
    pub fn complete(mut self) -> Self {
        self.complete = true;
        self
    }
}

impl DualResponseServer {
    /// Runs a read-only query over a snapshot, and others of the same owner, for somebody who may. Its rows are a
    /// new set of that owner, which says what it was made from.
    ///
    /// Whoever may query a set must be allowed to read it too.
    ///
    /// Whoever asks with a signed link finds a link to the new set in [`DualResponse::resource_url`]. Both end when
    /// their own link does, at the latest: revoking the links of the set does not reach those of sets made from it.
    ///
    /// # Errors
    ///
    /// [`DualResponseError::Refused`] when the query does what none may, with the rule it broke.
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

    /// The set, for somebody who may ask: its rows can be had by asking, so they must be theirs to read too.
    async fn open_query(&self, id: &str, access: &Access) -> Result<Resource> {
        self.open(id, access, Action::Read).await?;
        self.open(id, access, Action::Query).await
    }

    /// How long a set lives that somebody makes with a link: no longer than the link is good.
    fn left_of(&self, grant: &Grant) -> Duration {
        let left = DateTime::from_timestamp(grant.end, 0).map(|end| end - self.now());
        let left = left.and_then(|left| left.to_std().ok()).unwrap_or_default();
        left.min(self.options.default_expiration)
    }

    /// Another set of the query: of the same owner, and open to whoever asks.
    async fn other(&self, first: &Resource, id: &str, access: &Access) -> Result<Resource> {
        // A link opens its own set.
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

    /// Whoever asked with a link has nothing else to open the new set with: they get a link that allows reading and
    /// asking on, as theirs does, for as long as theirs is good.
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
            "`sql` must be a query, like `SELECT count(*) FROM result`".into(),
        ));
    }
    if sql.len() > MAX_SQL {
        return Err(DualResponseError::TooLarge(format!("a query may have {MAX_SQL} bytes")));
    }
    if tables.len() > MAX_TABLES {
        return Err(DualResponseError::Invalid(format!("a query is over {MAX_TABLES} other sets at most")));
    }
    for (at, (name, _)) in tables.iter().enumerate() {
        let mut letters = name.chars();
        let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        let plain = begins && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !plain || name.len() > 63 {
            return Err(DualResponseError::Invalid(
                "a table's name in `tables` is letters, digits and `_`, 63 at most".into(),
            ));
        }
        let same = |other: &str| other.eq_ignore_ascii_case(name);
        if same(ITSELF) || tables[..at].iter().any(|(other, _)| same(other)) {
            return Err(DualResponseError::Invalid(format!(
                "two tables are called `{name}`; `{ITSELF}` is the set itself"
            )));
        }
    }
    Ok(())
}
