//! Creates, stores and reads result sets.

mod access;
mod audit;
#[cfg(feature = "rest")]
mod authenticate;
mod cleanup;
mod create;
mod inferred;
mod limits;
mod links;
mod newest;
mod options;
mod pages;
mod snapshots;
mod sorted;

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use tokio::{sync::Semaphore, task::AbortHandle};
use url::Url;

#[cfg(feature = "rest")]
pub use self::authenticate::Authenticate;
pub use self::{
    access::{Access, Action, Authorize, LinkAccess},
    audit::AuditEvent,
    create::CreateOptions,
    limits::ResultLimits,
    options::DualResponseServerOptions,
    pages::{Consistency, Page, PageOptions},
    snapshots::{QueryOptions, SetExport},
};
use self::{
    create::after,
    newest::Newest,
    snapshots::{Looks, Places, Usage, Writes},
    sorted::Sorted,
};
use crate::{
    error::{BoxError, DualResponseError, Result},
    response::DualResponse,
    source::{self, Closures},
    store::{Removal, Resource, ResourceUpdate},
};

/// A server that creates result sets, stores them until they expire, and reads their pages.
///
/// Clones of a `DualResponseServer` refer to the same server.
///
/// ```
/// use antiphon_results::{CreateOptions, DualResponseServer, DualResponseServerOptions, Rows, source::Source};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = DualResponseServer::new(DualResponseServerOptions::new("https://api.example.com/resources"))?;
/// let rows = Rows::try_from(&[json!({"id": 1, "name": "Ada"}), json!({"id": 2, "name": "Grace"})][..])?;
/// let response = server.create_response(CreateOptions::new("People", Source::rows(rows))).await?;
/// assert_eq!(response.total_count, 2);
/// assert!(response.to_mcp_tool_result()["content"][0]["text"].as_str().unwrap().contains("1 | Ada"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DualResponseServer {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) options: DualResponseServerOptions,
    pub(crate) base: Url,
    /// Closures of the result sets that this process created.
    closures: Mutex<HashMap<String, Arc<Closures>>>,
    sorted: Sorted,
    pub(crate) pages: Semaphore,
    pub(crate) streams: Arc<Semaphore>,
    intakes: Places,
    scans: Places,
    exports: Places,
    usage: Usage,
    looks: Looks,
    writes: Writes,
    cleaning: OnceLock<AbortHandle>,
    /// Number of milliseconds by which the store's clock is ahead of the clock of this process.
    difference: Arc<AtomicI64>,
    /// Second listener for audit events, which is called in addition to the listener in the options.
    watcher: OnceLock<audit::Listener>,
    newest: Newest,
}

impl DualResponseServer {
    /// Creates a server.
    ///
    /// # Errors
    ///
    /// Returns [`DualResponseError::Config`] if the base URL is missing or invalid, if the URI scheme is invalid, or
    /// if two queries have the same name. Also returns `Config` if the default or the maximum size of a page is 0.
    pub fn new(mut options: DualResponseServerOptions) -> Result<Self> {
        let base = base(&options.base_url)?;
        if let Some(problem) = options.problems.first() {
            return Err(DualResponseError::Config(problem.clone()));
        }
        if !is_scheme(&options.scheme) {
            return Err(DualResponseError::Config(format!(
                "`{}` is not a valid URI scheme; use letters, digits, `+`, `-` and `.`, with a letter first",
                options.scheme
            )));
        }
        // An empty page would look like the end of the set.
        if options.default_page_size == 0 || options.limits.page_rows == 0 {
            return Err(DualResponseError::Config(
                "`with_default_page_size` and `ResultLimits::with_page_rows` must be at least 1".into(),
            ));
        }
        let difference = Arc::<AtomicI64>::default();
        let (local, ahead) = (options.clock, Arc::clone(&difference));
        options.clock = Arc::new(move || local() + TimeDelta::milliseconds(ahead.load(Ordering::Relaxed)));
        let limits = &options.limits;
        let inner = Inner {
            pages: Semaphore::new(limits.concurrent_pages.min(Semaphore::MAX_PERMITS)),
            streams: Arc::new(Semaphore::new(limits.concurrent_streams.min(Semaphore::MAX_PERMITS))),
            intakes: Places::new(limits.intakes_per_tenant),
            scans: Places::new(limits.scans_per_tenant),
            exports: Places::new(limits.exports_per_tenant),
            usage: Usage::new(limits.tenant_bytes),
            looks: Looks::default(),
            writes: Writes::default(),
            base,
            closures: Mutex::default(),
            sorted: Sorted::default(),
            cleaning: OnceLock::new(),
            difference,
            watcher: OnceLock::new(),
            newest: Newest::default(),
            options,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Creates a result set: counts its rows, reads the first rows for the preview, and stores the result set.
    ///
    /// # Errors
    ///
    /// Returns an error if the source or the store fails. Returns [`DualResponseError::NotPersistable`] if the source
    /// is a closure and the store is shared.
    pub async fn create_response(&self, options: CreateOptions) -> Result<DualResponse> {
        self.begin_cleaning();
        self.inner.create(options).await
    }

    /// Returns the result set with this ID, or `None` if the set does not exist or has expired.
    pub async fn get_resource(&self, id: &str) -> Result<Option<Resource>> {
        found(self.inner.open(id, &Access::Program, Action::Describe).await)
    }

    /// Pins a result set, so that it does not expire. Returns `false` if the result set does not exist.
    pub async fn pin_resource(&self, id: &str) -> Result<bool> {
        Ok(found(self.set_expiry(id, &Access::Program, Expiry::Pinned).await)?.is_some())
    }

    /// Unpins a pinned result set. The lifetime of the result set starts again now. Returns `false` if the result set
    /// does not exist.
    pub async fn unpin_resource(&self, id: &str) -> Result<bool> {
        Ok(found(self.set_expiry(id, &Access::Program, Expiry::Own).await)?.is_some())
    }

    /// Sets the lifetime of a result set, counted from now. Returns `false` if the result set does not exist.
    pub async fn extend_resource(&self, id: &str, life: Duration) -> Result<bool> {
        Ok(found(self.set_expiry(id, &Access::Program, Expiry::For(life)).await)?.is_some())
    }

    /// Deletes a result set and its rows. Returns whether the result set existed.
    pub async fn delete_resource(&self, id: &str) -> Result<bool> {
        Ok(found(self.delete(id, &Access::Program).await)?.is_some())
    }

    /// Returns the metadata of a result set, if `access` allows reading the metadata.
    pub async fn describe(&self, id: &str, access: &Access) -> Result<Resource> {
        let opened = self.inner.open(id, access, Action::Describe).await;
        self.inner.audit(
            access,
            Action::Describe,
            id,
            (0, 0),
            opened.as_ref().err().map(DualResponseError::code),
        );
        opened
    }

    /// Sets the expiry of a result set, if `access` allows this change.
    pub async fn set_expiry(&self, id: &str, access: &Access, life: Expiry) -> Result<Resource> {
        let set = self.set_expiry_unaudited(id, access, life).await;
        self.inner.audit(access, Action::Pin, id, (0, 0), set.as_ref().err().map(DualResponseError::code));
        set
    }

    async fn set_expiry_unaudited(&self, id: &str, access: &Access, life: Expiry) -> Result<Resource> {
        let resource = self.inner.open(id, access, Action::Pin).await?;
        let now = self.inner.now();
        let longest = self.inner.options.limits.life;
        let expires_at = match life {
            Expiry::Pinned => None,
            // Unpinning a set that is not pinned has no effect.
            Expiry::Own if resource.expires_at.is_some() => return Ok(resource),
            Expiry::Own => after(now, resource.life.min(longest)),
            Expiry::For(life) => after(now, life.min(longest)),
        };
        let update = ResourceUpdate::at(now).with_expires_at(expires_at);
        self.inner.options.store.update(id, update).await?.ok_or(DualResponseError::Expired)
    }

    /// Deletes a result set and its rows, if `access` allows the deletion.
    pub async fn delete(&self, id: &str, access: &Access) -> Result<()> {
        let deleted = match self.inner.open(id, access, Action::Delete).await {
            Ok(resource) => match self.inner.options.store.delete(id, Removal::Deleted).await {
                Ok(true) => Ok(resource),
                Ok(false) => Err(DualResponseError::NotFound),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        // A rejected deletion must not remove the closures. The rows are removed after the result set, so that no
        // result set exists without its rows.
        if let Ok(resource) = &deleted {
            self.inner.forget(id);
            self.inner.discard(resource).await;
        }
        self.inner.audit(
            access,
            Action::Delete,
            id,
            (0, 0),
            deleted.as_ref().err().map(DualResponseError::code),
        );
        deleted.map(drop)
    }

    /// Records the result set that a caller received last. For ten minutes, [`newest`](Self::newest) returns the
    /// recorded result set.
    ///
    /// `caller` is the name of the authenticated caller. Use `None` only if the process has a single caller, for
    /// example a server over stdio. A shared store contains the record of the newest result set only for named
    /// callers.
    pub async fn set_newest(&self, caller: Option<&str>, id: &str) -> Result<()> {
        self.inner.newest.set(caller, id, self.inner.now());
        let store = &self.inner.options.store;
        match caller {
            Some(caller) if store.is_shared() => store.set_newest(caller, id).await,
            _ => Ok(()),
        }
    }

    /// Returns the ID of the result set that a caller received last. Returns `None` if the caller received no result
    /// set in the last ten minutes.
    ///
    /// The method does not check whether the caller can access the result set.
    pub async fn newest(&self, caller: Option<&str>) -> Result<Option<String>> {
        let store = &self.inner.options.store;
        // Another replica can have created a newer set.
        if let Some(caller) = caller.filter(|_| store.is_shared())
            && let Some(id) = store.newest(caller).await?
        {
            return Ok(Some(id));
        }
        Ok(self.inner.newest.get(caller, self.inner.now()))
    }

    /// Returns the base URL of the routes, without a slash at the end.
    pub fn base_url(&self) -> &str {
        self.inner.base.as_str().trim_end_matches('/')
    }

    /// Returns the scheme of result set URIs, such as `resource`.
    pub fn scheme(&self) -> &str {
        &self.inner.options.scheme
    }

    /// Returns the default lifetime of a result set.
    pub fn default_expiration(&self) -> Duration {
        self.inner.options.default_expiration
    }

    /// Returns the default number of rows in a page.
    pub fn default_page_size(&self) -> u64 {
        self.inner.options.default_page_size
    }

    /// Stops the clean-up, cancels snapshot writes, and closes the connections of the store. A result set whose rows
    /// are still being written gets the state `failed`, with the shutdown as the reason.
    pub async fn shutdown(&self) -> Result<()> {
        if let Some(cleaning) = self.inner.cleaning.get() {
            cleaning.abort();
        }
        self.inner.end_writes().await;
        self.inner.options.store.close().await
    }
}

/// The new expiry of a result set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// The result set never expires, and exists until it is deleted.
    Pinned,
    /// Unpins a pinned result set. After unpinning, the result set expires after its original lifetime, which starts
    /// again now. A result set that is not pinned does not change.
    Own,
    /// The result set expires after this duration, counted from now. The maximum duration is
    /// [`ResultLimits::with_life`].
    For(Duration),
}

impl Inner {
    /// Compares the clock of the store with the clock of this process. The store caches the difference between the two
    /// clocks, so this call is cheap.
    pub(crate) async fn read_clock(&self) {
        let difference = self.options.store.clock_difference().await;
        self.difference.store(difference.num_milliseconds(), Ordering::Relaxed);
    }

    /// Returns the current time by the clock of the store. The returned time has a precision of one millisecond, like
    /// the times in the store.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        (self.options.clock)().trunc_subsecs(3)
    }

    pub(crate) fn url(&self, id: &str) -> String {
        format!("{}/{id}", self.base.as_str().trim_end_matches('/'))
    }

    /// Returns the URI of a result set. If the scheme is `http` or `https`, the URI is the URL of the result set.
    pub(crate) fn uri(&self, id: &str) -> String {
        match self.options.scheme.as_str() {
            "http" | "https" => self.url(id),
            scheme => format!("{scheme}://{id}"),
        }
    }

    /// Returns whether callers must authenticate.
    #[cfg(feature = "rest")]
    pub(crate) fn knows_callers(&self) -> bool {
        self.options.authenticate.is_some()
    }

    #[cfg(not(feature = "rest"))]
    #[expect(clippy::unused_self, reason = "with the routes it depends")]
    pub(crate) fn knows_callers(&self) -> bool {
        false
    }

    fn closures(&self) -> MutexGuard<'_, HashMap<String, Arc<Closures>>> {
        self.closures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, id: &str, closures: Arc<Closures>) {
        self.closures().insert(id.to_owned(), closures);
    }

    fn forget(&self, id: &str) {
        self.closures().remove(id);
        self.sorted.forget(id);
    }

    /// Waits until a source returns rows, at most for the source timeout.
    async fn timed<T>(&self, rows: impl Future<Output = Result<T, BoxError>>) -> Result<T> {
        let limit = self.options.limits.source_timeout;
        match tokio::time::timeout(limit, rows).await {
            Ok(rows) => rows.map_err(source::failed),
            Err(_) => Err(DualResponseError::Timeout { limit }),
        }
    }

    /// Waits until a source returns a row count, at most for the source timeout.
    async fn counted(&self, count: impl Future<Output = Result<u64, BoxError>>) -> Result<u64> {
        let limit = self.options.limits.source_timeout;
        match tokio::time::timeout(limit, count).await {
            Ok(count) => count.map_err(DualResponseError::Count),
            Err(_) => Err(DualResponseError::Timeout { limit }),
        }
    }
}

/// Converts the errors for a missing result set to `None`.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(DualResponseError::NotFound | DualResponseError::Expired) => Ok(None),
        Err(error) => Err(error),
    }
}

fn base(text: &str) -> Result<Url> {
    let problem = |problem: &str| {
        DualResponseError::Config(format!(
            "the base URL `{text}` is not valid: {problem}; use the URL of the result set routes, for example `https://api.example.com/resources`"
        ))
    };
    let url = Url::parse(text).map_err(|error| problem(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(problem("the URL must begin with `https://` or `http://`"));
    }
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(problem("the URL must not have a query, a fragment or credentials"));
    }
    Ok(url)
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
}

impl fmt::Debug for DualResponseServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DualResponseServer").field(&self.inner.options).finish()
    }
}
