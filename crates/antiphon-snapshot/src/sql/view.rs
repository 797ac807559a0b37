//! Views: sorted or filtered rows of a snapshot, written once to a file and then read like a snapshot.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use antiphon_results::{
    DualResponseError, Order,
    snapshot::{SnapshotId, View},
};
use arrow::datatypes::DataType;
use chrono::{DateTime, Utc};
use datafusion::{
    datasource::provider_as_source,
    error::DataFusionError,
    execution::SendableRecordBatchStream,
    logical_expr::{Expr, LogicalPlanBuilder},
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{ObjectMeta, ObjectStoreExt as _, path::Path};

use super::{
    filter,
    scan::{self, SnapshotTable},
};
use crate::{
    engine::{self, Running, refusal},
    error::{Error, Result},
    inner::{Inner, Opened, StoredManifest},
    layout::{SnapshotFolder, data_name, takes_name, writer_name},
    store::ignore_missing,
    writer::Writer,
};

/// The maximum number of sort columns of a view.
const MAX_SORT: usize = 4;
/// The maximum number of views of a snapshot. If a snapshot has the maximum number of views, a new view replaces the
/// oldest view.
const MAX_VIEWS: usize = 16;

/// Creates a view if the view does not exist, and returns the number of rows in the view.
pub(crate) async fn prepare(
    inner: &Arc<Inner>,
    id: &SnapshotId,
    view: &View,
) -> Result<u64, DualResponseError> {
    match inner.opened(id, view).await {
        Ok(opened) => return Ok(opened.manifest.rows),
        Err(error) if error.is_missing() => {}
        // Another replica has removed the rows of this manifest, so the view is created again.
        Err(Error::Altered(_)) => {
            let place = SnapshotFolder::of(&inner.store.prefix, id).view(view);
            remove(inner, &place.manifest()).await?;
        }
        Err(error) => return Err(error.into()),
    }
    let whole = inner.opened(id, &View::default()).await?;
    let plan = Plan::new(inner, Arc::clone(&whole), view)?;
    let place = whole.place.view(view);
    let name = place.folder.to_string();
    let (of, id) = (Arc::clone(inner), id.clone());
    let make = move || async move {
        // Announce the view before waiting for a turn, so that the usage of the tenant includes it.
        let word = place.data(&takes_name(&writer_name()?, whole.manifest.bytes));
        leave_word(&of, &word).await?;
        let limit = of.engine.time;
        let made = match of.engine.turn(id.share()).await {
            Ok(turn) => tokio::time::timeout(limit, make(&of, &whole, &place, plan, Arc::new(turn))).await,
            Err(error) => Ok(Err(error)),
        };
        if let Err(error) = remove(&of, &word).await {
            tracing::debug!(%error, "the marker of a view in progress could not be removed; it counts towards the tenant's usage for a while");
        }
        made.unwrap_or_else(|_| Err(refusal::timeout(limit)))
    };
    inner.engine.flights.join(name, make).await
}

/// The checked plan of a view.
struct Plan {
    table: SnapshotTable,
    filter: Option<Expr>,
    sort: Vec<datafusion::logical_expr::SortExpr>,
}

impl Plan {
    fn new(inner: &Arc<Inner>, whole: Arc<Opened>, view: &View) -> Result<Self> {
        let schema = Arc::clone(whole.schema());
        if view.sort.len() > MAX_SORT {
            let given = view.sort.len();
            return Err(Error::Invalid(format!("`sort` has {given} columns, and the maximum is {MAX_SORT}")));
        }
        let filter = filter::all(&schema, &view.filter)?;
        let mut sort = Vec::new();
        for by in &view.sort {
            let kind = filter::kind(&schema, &by.field)?;
            if kind.is_nested() || matches!(kind, DataType::Null) {
                return Err(Error::Invalid(format!(
                    "column `{}` is nested or empty and cannot be sorted; sort by another column",
                    by.field
                )));
            }
            sort.push(filter::sort_key(&by.field, kind)?.sort(by.order == Order::Asc, false));
        }
        // Without a sort, rows must keep their order, so the plan has only one partition.
        let partitions = if sort.is_empty() { 1 } else { engine::PARTITIONS };
        let mut table = SnapshotTable::new(inner, whole, partitions);
        if !sort.is_empty() {
            let (numbered, number) = table.numbered();
            table = numbered;
            sort.push(filter::column(&number).sort(true, false));
        }
        Ok(Self { table, filter, sort })
    }

    /// Runs the plan and returns the rows of the view.
    async fn run(self, inner: &Inner) -> Result<SendableRecordBatchStream, DataFusionError> {
        let partitions = if self.sort.is_empty() { 1 } else { engine::PARTITIONS };
        let state = inner.engine.state(partitions);
        let fields = self.table.opened.schema().fields().iter();
        let columns: Vec<_> = fields.map(|field| filter::column(field.name())).collect();
        let mut plan = LogicalPlanBuilder::scan("rows", provider_as_source(Arc::new(self.table)), None)?;
        if let Some(filter) = self.filter {
            plan = plan.filter(filter)?;
        }
        if !self.sort.is_empty() {
            plan = plan.sort(self.sort)?;
        }
        // The row number was needed only to sort equal rows in a fixed order.
        scan::run(state, &plan.project(columns)?.build()?).await
    }
}

async fn make(
    inner: &Arc<Inner>,
    whole: &Opened,
    place: &SnapshotFolder,
    plan: Plan,
    turn: Arc<engine::Turn>,
) -> Result<u64, DualResponseError> {
    let begun = Instant::now();
    make_room(inner, whole).await?;
    // Another replica can create the same view. Each replica writes its own file, and the manifest names the valid
    // file.
    let name = data_name(&writer_name()?);
    let data = place.data(&name);
    let schema = SnapshotTable::plain_schema(whole);
    let of = Arc::clone(inner);
    let open = async move {
        let rows = plan.run(&of).await.map_err(refusal::of_view)?;
        Ok(rows.map_err(refusal::of_view).boxed())
    };
    // The turn is held until the view is written and the plan has stopped.
    let mut rows = Running::start(&inner.engine, Arc::clone(&turn), begun, open)?;
    let mut writer = Writer::create(inner, data.clone(), Arc::clone(&schema))?;
    while let Some(batch) = rows.next().await? {
        let batch = batch.with_schema(Arc::clone(&schema)).map_err(Error::from)?;
        writer.write(batch).await?;
    }
    let stored = writer.finish().await?;
    let (columns, truncated) = (whole.manifest.columns.clone(), whole.manifest.truncated);
    let published = inner.publish(place, &StoredManifest::new(&stored, columns, truncated, name)).await;
    if !matches!(published, Ok(true)) {
        remove(inner, &data).await?;
    }
    published?;
    // If the snapshot was removed in the meantime, its view must be removed too.
    match inner.store.objects.head(&whole.place.manifest()).await {
        Ok(_) => Ok(stored.rows),
        Err(object_store::Error::NotFound { .. }) => {
            remove(inner, &place.manifest()).await?;
            remove(inner, &data).await?;
            Err(DualResponseError::NotFound)
        }
        Err(error) => Err(Error::from(error).into()),
    }
}

/// Removes the oldest views of a snapshot until one more view is allowed. The function also removes files of
/// unfinished views.
async fn make_room(inner: &Inner, whole: &Opened) -> Result<()> {
    let folder = whole.place.folder.clone().join("views");
    let listed: Vec<ObjectMeta> = inner.store.objects.list(Some(&folder)).try_collect().await?;
    let mut views: BTreeMap<String, Vec<ObjectMeta>> = BTreeMap::new();
    for meta in listed {
        let Some((view, _)) = meta.location.as_ref().rsplit_once('/') else { continue };
        views.entry(view.into()).or_default().push(meta);
    }
    let is_manifest = |meta: &ObjectMeta| meta.location.filename() == Some("manifest.json");
    let made =
        |metas: &[ObjectMeta]| metas.iter().find(|meta| is_manifest(meta)).map(|meta| meta.last_modified);
    let abandoned =
        inner.store_now().await - chrono::Duration::from_std(inner.config.abandoned).unwrap_or_default();
    let mut finished: Vec<(DateTime<Utc>, String, Vec<ObjectMeta>)> = Vec::new();
    for (view, metas) in views {
        if let Some(made) = made(&metas) {
            finished.push((made, view, metas));
            continue;
        }
        for meta in metas.iter().filter(|meta| meta.last_modified < abandoned) {
            crate::sweep::abort(inner, &meta.location).await?;
            remove(inner, &meta.location).await?;
        }
    }
    finished.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    let surplus = (finished.len() + 1).saturating_sub(MAX_VIEWS);
    for (_, view, mut metas) in finished.into_iter().take(surplus) {
        // The manifest is removed first, because a view exists while its manifest exists.
        metas.sort_by_key(|meta| !is_manifest(meta));
        for meta in metas {
            remove(inner, &meta.location).await?;
        }
        inner.cache.invalidate(&view).await;
    }
    Ok(())
}

/// Writes an empty file as the announcement of a view in progress.
async fn leave_word(inner: &Inner, path: &Path) -> Result<()> {
    inner.store.objects.put(path, object_store::PutPayload::new()).await?;
    Ok(())
}

async fn remove(inner: &Inner, path: &Path) -> Result<()> {
    Ok(inner.store.objects.delete(path).await.or_else(ignore_missing)?)
}
