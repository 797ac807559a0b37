use std::{sync::PoisonError, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value};

use super::{Access, Action, Consistency, Inner, inferred::inferred};
use crate::{
    column::ColumnDefinition,
    error::{DualResponseError, Result},
    owner::Owner,
    response::{Bounds, DualResponse, Preview, overhead, row_columns, shown_columns},
    rows::Rows,
    snapshot::{Lineage, SetStatus},
    source::{PageRequest, Source},
    store::{Origin, Resource},
};

/// The options of a new result set.
///
/// ```
/// use antiphon_results::{CreateOptions, Owner, Source};
/// use serde_json::json;
/// use std::time::Duration;
///
/// let options = CreateOptions::new("Institutions", Source::query("institutions", json!({"state": "NJ"})))
///     .with_sample_size(20)
///     .with_expiration(Duration::from_secs(30 * 60))
///     .for_owner(Owner::principal("ada").with_tenant("acme"));
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "a result set is made by `DualResponseServer::create_response`"]
pub struct CreateOptions {
    name: String,
    source: Source,
    columns: Option<Vec<ColumnDefinition>>,
    sample_size: Option<usize>,
    expiration: Option<Duration>,
    metadata: Map<String, Value>,
    owner: Owner,
    pub(super) complete: bool,
    pub(super) lineage: Option<Lineage>,
}

impl CreateOptions {
    /// Creates options for a result set with this display name and this source of rows.
    pub fn new(name: impl Into<String>, source: Source) -> Self {
        Self {
            name: name.into(),
            source,
            columns: None,
            sample_size: None,
            expiration: None,
            metadata: Map::new(),
            owner: Owner::nobody(),
            complete: false,
            lineage: None,
        }
    }

    /// Sets the columns of the result set. Default: the columns of the named query, or the columns found in the rows.
    pub fn with_columns(mut self, columns: impl IntoIterator<Item = ColumnDefinition>) -> Self {
        self.columns = Some(columns.into_iter().collect());
        self
    }

    /// Sets the number of rows in the preview. Default: the server's
    /// [`with_default_sample_size`](crate::DualResponseServerOptions::with_default_sample_size).
    pub fn with_sample_size(mut self, rows: usize) -> Self {
        self.sample_size = Some(rows);
        self
    }

    /// Sets the lifetime of the result set. Default: the server's
    /// [`with_default_expiration`](crate::DualResponseServerOptions::with_default_expiration).
    pub fn with_expiration(mut self, life: Duration) -> Self {
        self.expiration = Some(life);
        self
    }

    /// Sets JSON metadata that the server stores with the result set. Default: none.
    pub fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Makes `create_response` wait until all rows of a snapshot are saved, without a time limit. Use this option for
    /// a tool that runs as a task. Default: `create_response` waits for
    /// [`ResultLimits::with_settle`](crate::ResultLimits::with_settle), and the response states whether rows are still
    /// being written.
    ///
    /// The option `complete` has an effect only on snapshots. The rows of all other result sets are available
    /// immediately.
    pub fn complete(mut self) -> Self {
        self.complete = true;
        self
    }

    /// Returns the owner of the result set.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Sets the owner of the result set. Default: no owner.
    pub fn for_owner(mut self, owner: Owner) -> Self {
        self.owner = owner;
        self
    }
}

/// Maximum number of columns of a result set.
const MAX_COLUMNS: usize = 1000;

/// Maximum length of a result set's display name in bytes.
const MAX_NAME: usize = 256;

impl Inner {
    pub(super) async fn create(&self, options: CreateOptions) -> Result<DualResponse> {
        let owner = options.owner.clone();
        let created = self.create_unaudited(options).await;
        let (id, refused) = match &created {
            Ok(response) => (response.resource_id.as_str(), None),
            Err(error) => ("", Some(error.code())),
        };
        self.audit(&Access::Caller(owner), Action::Create, id, (0, 0), refused);
        created
    }

    async fn create_unaudited(&self, options: CreateOptions) -> Result<DualResponse> {
        let CreateOptions {
            name,
            source,
            columns,
            sample_size,
            expiration,
            metadata,
            owner,
            complete,
            lineage,
        } = options;
        self.check_owner(&owner)?;
        let limits = &self.options.limits;
        let sample_size = sample_size.unwrap_or(self.options.default_sample_size);
        let sample_size = (sample_size as u64).min(limits.page_rows);
        let life = expiration.unwrap_or(self.options.default_expiration).min(limits.life);
        within("the metadata of the result set", &Value::Object(metadata.clone()), limits.metadata_bytes)?;

        self.read_clock().await;
        let id = new_id();
        let mut resource = Resource::new(id.clone(), bounded(name), self.now(), life);
        resource.metadata = metadata;
        resource.owner = owner;
        if let Source::Snapshot(row_source) = source {
            let row_source = row_source.lock().unwrap_or_else(PoisonError::into_inner).take();
            let row_source = row_source.ok_or_else(|| {
                DualResponseError::Invalid(
                    "the rows of this source were already saved; create a new `Source::snapshot`".into(),
                )
            })?;
            let row_source = match columns {
                Some(columns) => row_source.with_columns(columns),
                None => row_source,
            };
            return self.save_rows(resource, row_source, sample_size, complete, lineage).await;
        }
        let declared = columns.is_some();
        let taken = self.take(&id, source, sample_size, declared).await?;
        let kept = self.keep(resource, taken, columns, sample_size).await;
        if kept.is_err() {
            self.forget(&id);
        }
        kept
    }

    /// Stores a result set with the data from its source.
    async fn keep(
        &self,
        mut resource: Resource,
        mut taken: Taken,
        columns: Option<Vec<ColumnDefinition>>,
        sample_size: u64,
    ) -> Result<DualResponse> {
        let columns = columns.unwrap_or(std::mem::take(&mut taken.columns));
        check_width(&columns)?;
        // A source can return more rows than requested. The source can also have more rows now than at the time of the
        // count.
        let shown = sample_size.min(taken.total).min(taken.sample.len() as u64);
        taken.sample.truncate(usize::try_from(shown).unwrap_or(usize::MAX));
        let mut preview = self.preview(&resource, &taken.sample, &columns, None)?;

        resource.query = taken.origin;
        resource.columns = columns;
        resource.key = taken.key;
        resource.sorts = taken.sorts;
        resource.total_count = taken.total;
        resource.bytes = taken.bytes;
        resource.sample_data = std::mem::take(&mut preview.rows);
        let response = self.respond(&resource, &preview);
        self.options.store.save(resource).await?;
        Ok(response)
    }

    /// Returns an error if no caller would be allowed to access the new result set. If the server authenticates
    /// callers, a result set must have an owner. If the server has no authentication, no access policy and no link
    /// keys, a result set must not have an owner.
    fn check_owner(&self, owner: &Owner) -> Result<()> {
        if self.knows_callers() && owner.is_nobody() {
            return Err(DualResponseError::Config(
                "this server authenticates callers, so a result set needs an owner; set it with `CreateOptions::for_owner`".into(),
            ));
        }
        if !self.knows_callers()
            && self.options.authorize.is_none()
            && self.options.link_keys.is_none()
            && !owner.is_nobody()
        {
            return Err(DualResponseError::Config(
                "the result set has an owner, but the server cannot authenticate its owner; configure `with_authenticate` or `with_link_keys`".into(),
            ));
        }
        Ok(())
    }

    /// Stores in-memory rows, or reads the count and the first rows of any other source.
    async fn take(&self, id: &str, source: Source, sample_size: u64, declared: bool) -> Result<Taken> {
        let limits = &self.options.limits;
        match source {
            Source::Rows(rows) => {
                if rows.bytes() > limits.rows_bytes {
                    return Err(DualResponseError::TooLarge(format!(
                        "{} bytes of rows exceed the limit of {} bytes for in-memory rows; use a named query, or raise `ResultLimits::with_rows_bytes`",
                        rows.bytes(),
                        limits.rows_bytes
                    )));
                }
                let sample = rows.slice(0, usize::try_from(sample_size).unwrap_or(usize::MAX));
                let (rows, columns) = if declared {
                    (rows, Vec::new())
                } else {
                    // All rows are parsed, because a column can occur only in the last row. Parsing megabytes would
                    // block other tasks, so the parser runs on another thread.
                    let looked = tokio::task::spawn_blocking(move || {
                        let columns = inferred(&rows);
                        (rows, columns)
                    });
                    let (rows, columns) =
                        looked.await.map_err(|error| DualResponseError::Query(error.into()))?;
                    (rows, columns.map_err(|error| DualResponseError::Query(error.into()))?)
                };
                let taken = Taken {
                    columns,
                    origin: Origin::Rows,
                    key: Vec::new(),
                    sorts: true,
                    total: rows.len() as u64,
                    // The added 2 bytes are the brackets of the JSON array.
                    bytes: Some(rows.bytes() as u64 + 2),
                    sample,
                };
                self.options.store.put_rows(id, rows).await?;
                Ok(taken)
            }
            Source::Query { name, parameters } => {
                within("the parameters of the query", &parameters, limits.metadata_bytes)?;
                let query = self.options.queries.get(&name)?;
                let total = self.counted(query.count(&parameters)).await?;
                let sample = match sample_size {
                    0 => Rows::new(),
                    _ => self.timed(query.page(&parameters, &PageRequest::new(0, sample_size))).await?,
                };
                Ok(Taken {
                    columns: query.columns().to_vec(),
                    key: query.key().to_vec(),
                    sorts: query.sorts(),
                    origin: Origin::Live { query: name, parameters },
                    total,
                    bytes: None,
                    sample,
                })
            }
            // `create_unaudited` saves the rows of a snapshot source and does not call `take` for this source.
            Source::Snapshot(_) => {
                Err(DualResponseError::Invalid("a snapshot source must be saved first".into()))
            }
            Source::Closures(closures) => {
                if self.options.store.is_shared() {
                    return Err(DualResponseError::NotPersistable);
                }
                let total = self.counted((closures.count)()).await?;
                let sample = match sample_size {
                    0 => Rows::new(),
                    _ => self.timed((closures.execute)(PageRequest::new(0, sample_size))).await?,
                };
                let taken = Taken {
                    columns: inferred(&sample).map_err(|error| DualResponseError::Query(error.into()))?,
                    origin: Origin::Closures,
                    key: Vec::new(),
                    sorts: closures.sorts,
                    total,
                    bytes: None,
                    sample,
                };
                self.remember(id, closures);
                Ok(taken)
            }
        }
    }

    pub(crate) fn bounds(&self, bytes: usize) -> Bounds {
        let limits = &self.options.limits;
        Bounds { bytes, cell: limits.preview_cell, columns: limits.preview_columns }
    }

    /// Creates the preview of a result set. The preview is so small that the text and the structured content each stay
    /// within the size limit of previews.
    pub(super) fn preview(
        &self,
        resource: &Resource,
        rows: &Rows,
        columns: &[ColumnDefinition],
        lineage: Option<&Lineage>,
    ) -> Result<Preview> {
        let limit = self.options.limits.preview_bytes;
        let overhead = overhead(&self.uri(&resource.id), &self.url(&resource.id), &resource.name, lineage);
        // `overhead` is an upper bound. If `limit` is small, the overhead would leave no room for rows, so rows always
        // get a quarter of the limit.
        let left = limit.saturating_sub(overhead).max(limit / 4);
        Preview::with_columns(rows, columns, self.bounds(left))
            .map_err(|error| DualResponseError::Query(error.into()))
    }

    pub(super) fn respond(&self, resource: &Resource, preview: &Preview) -> DualResponse {
        let limit = self.options.limits.preview_bytes;
        let (columns, _) = shown_columns(&resource.columns, Bounds { bytes: limit, ..preview.bounds });
        let mut cut = preview.cut;
        let omitted = resource.columns.len() - row_columns(&resource.columns, preview.bounds).len();
        cut.omitted_columns = cut.omitted_columns.max(omitted as u64);
        let status = self.status(resource);
        DualResponse {
            resource_uri: self.uri(&resource.id),
            resource_url: self.url(&resource.id),
            resource_id: resource.id.clone(),
            name: resource.name.clone(),
            sample: resource.sample_data.clone(),
            total_count: resource.total_count,
            status,
            exact: status == SetStatus::Ready && Consistency::of(resource) == Consistency::Fixed,
            truncated: resource.snapshot.as_ref().and_then(|state| state.truncated),
            lineage: resource.snapshot.as_ref().and_then(|state| state.lineage.clone()),
            columns,
            expires_at: resource.expires_at,
            created_at: resource.created_at,
            bytes: resource.bytes,
            cut,
            text_bytes: limit,
            bounds: preview.bounds,
        }
    }
}

/// The data that the server gets from a source when a result set is created.
struct Taken {
    origin: Origin,
    columns: Vec<ColumnDefinition>,
    key: Vec<String>,
    sorts: bool,
    total: u64,
    bytes: Option<u64>,
    sample: Rows,
}

/// Returns an error if a result set has more than [`MAX_COLUMNS`] columns.
pub(super) fn check_width(columns: &[ColumnDefinition]) -> Result<()> {
    if columns.len() <= MAX_COLUMNS {
        return Ok(());
    }
    Err(DualResponseError::TooLarge(format!(
        "the result set has {} columns, and the maximum is {MAX_COLUMNS}; return fewer columns",
        columns.len()
    )))
}

fn within(what: &str, value: &Value, limit: usize) -> Result<()> {
    let bytes = value.to_string().len();
    if bytes <= limit {
        return Ok(());
    }
    Err(DualResponseError::TooLarge(format!(
        "{what} have {bytes} bytes, and the limit is {limit} bytes; raise `ResultLimits::with_metadata_bytes`"
    )))
}

fn bounded(name: String) -> String {
    if name.len() <= MAX_NAME { name } else { name.chars().take(MAX_NAME / 4).collect() }
}

/// Returns a new ID of a result set, with 160 random bits. The ID has no upper-case letters, so that it can be the
/// host of a URI.
fn new_id() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bits = [0; 20];
    getrandom::fill(&mut bits).expect("the operating system has random numbers");
    let mut id = String::from("rs_");
    for five in bits.chunks(5) {
        let word = five.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        for letter in (0..8).rev() {
            id.push(char::from(LETTERS[usize::try_from(word >> (5 * letter) & 31).unwrap_or(0)]));
        }
    }
    id
}

/// Returns the time `life` after `at`.
pub(super) fn after(at: DateTime<Utc>, life: Duration) -> Option<DateTime<Utc>> {
    at.checked_add_signed(TimeDelta::from_std(life).ok()?)
}

/// Returns the time `span` before `at`.
pub(super) fn before(at: DateTime<Utc>, span: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(span)
        .ok()
        .and_then(|span| at.checked_sub_signed(span))
        .unwrap_or(DateTime::UNIX_EPOCH)
}
