//! Reads pages of snapshots.

use tokio::sync::SemaphorePermit;

use super::{COME_BACK, cursor::SnapshotCursor, key};
#[cfg(feature = "rest")]
use crate::column::ColumnDefinition;
use crate::{
    error::{DualResponseError, Result},
    server::{Consistency, Inner, Page, PageOptions},
    snapshot::{Filter, SnapshotPage, View},
    store::Resource,
};

/// Maximum number of sort columns of a view.
const MAX_SORTS: usize = 4;

/// Maximum number of filters of a view.
const MAX_FILTERS: usize = 32;

/// A request for rows of a snapshot. The columns in the request exist in the snapshot.
#[derive(Clone, Debug)]
pub(in crate::server) struct Wanted {
    pub(in crate::server) offset: u64,
    pub(in crate::server) view: View,
    pub(in crate::server) columns: Vec<String>,
}

impl Inner {
    /// Returns a page of a result set that is already open.
    pub(in crate::server) async fn snapshot_page(
        &self,
        resource: &Resource,
        options: PageOptions,
        turn: SemaphorePermit<'_>,
    ) -> Result<Page> {
        let limits = &self.options.limits;
        self.check_ready(resource).await?;
        let limit = self.options.page_size(options.limit);
        let wanted = self.wanted(resource, options)?;
        // Each tenant has separate slots for views, so that a request that waits for a view does not block the
        // requests of other tenants.
        let whole = wanted.view.is_whole();
        let _turn = whole.then_some(turn);
        let _place = if whole { None } else { Some(self.scan(resource).await?) };
        let total = self.prepared(resource, &wanted.view).await?;
        let (page, counted) = tokio::join!(
            self.read_page(resource, &wanted, total, limit, limits.page_bytes),
            self.count_access(resource)
        );
        counted?;
        let mut rows = page?;
        super::super::pages::fit(&mut rows, limits.page_bytes)?;
        let Wanted { offset, view, columns } = wanted;
        let end = offset.saturating_add(rows.len() as u64);
        let has_next = !rows.is_empty() && end < total;
        let cursor = SnapshotCursor { offset: end, view, columns };
        let cursor = has_next.then(|| cursor.encode(self.options.link_keys.as_ref(), &resource.id)).flatten();
        Ok(Page {
            rows,
            total_count: total,
            offset,
            has_next,
            cursor,
            consistency: Consistency::Fixed,
            truncated: resource.snapshot.as_ref().and_then(|state| state.truncated),
        })
    }

    /// Reads rows of a prepared view that has `total` rows.
    pub(in crate::server) async fn read_page(
        &self,
        resource: &Resource,
        wanted: &Wanted,
        total: u64,
        limit: u64,
        max_bytes: usize,
    ) -> Result<crate::Rows> {
        let left = total.saturating_sub(wanted.offset).min(limit);
        if left == 0 {
            return Ok(crate::Rows::new());
        }
        let request = SnapshotPage::new(wanted.offset, left)
            .with_view(wanted.view.clone())
            .with_columns(wanted.columns.iter().cloned())
            .with_max_bytes(max_bytes);
        let mut rows = self.asked(resource, self.snapshots()?.page(&key(resource), &request)).await?;
        rows.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        // If the store returns too few rows without reaching the byte limit, the set would be truncated silently.
        if rows.is_empty() || ((rows.len() as u64) < left && rows.bytes() < max_bytes) {
            return Err(DualResponseError::Snapshot("the snapshot store returned too few rows".into()));
        }
        Ok(rows)
    }

    /// Prepares a view, and returns its number of rows. If the preparation of a view takes too long, the caller gets
    /// `NotReady`, and the store continues to prepare the view.
    pub(in crate::server) async fn prepared(&self, resource: &Resource, view: &View) -> Result<u64> {
        if view.is_whole() {
            return Ok(resource.total_count);
        }
        let id = key(resource);
        self.let_make(resource, view).await?;
        let preparing = self.asked(resource, self.snapshots()?.prepare(&id, view));
        let Ok(total) = tokio::time::timeout(self.options.limits.view_wait, preparing).await else {
            return Err(DualResponseError::NotReady { retry_after: COME_BACK });
        };
        self.usage.made(resource, view, total.is_ok());
        total
    }

    /// Prepares a view for a long transfer. The method releases the slot for views before the transfer of the rows
    /// starts.
    pub(in crate::server) async fn prepared_apart(&self, resource: &Resource, view: &View) -> Result<u64> {
        let _place = if view.is_whole() { None } else { Some(self.scan(resource).await?) };
        self.prepared(resource, view).await
    }

    /// Returns the columns of the requested rows.
    #[cfg(feature = "rest")]
    pub(crate) fn shown(&self, resource: &Resource, options: &PageOptions) -> Result<Vec<ColumnDefinition>> {
        let Wanted { columns, .. } = self.wanted(resource, options.clone())?;
        if columns.is_empty() {
            return Ok(resource.columns.clone());
        }
        let known = |name: &String| resource.columns.iter().find(|column| column.name == *name).cloned();
        Ok(columns.iter().filter_map(known).collect())
    }

    /// Checks the options of a request against the columns of the result set.
    pub(in crate::server) fn wanted(&self, resource: &Resource, options: PageOptions) -> Result<Wanted> {
        let PageOptions { offset, sort, filter, columns, cursor, .. } = options;
        let mut wanted = Wanted { offset, view: View { sort, filter }, columns };
        if let Some(cursor) = cursor {
            let cursor = SnapshotCursor::decode(&cursor, self.options.link_keys.as_ref(), &resource.id)?;
            let same = (wanted.view.is_whole() || wanted.view == cursor.view)
                && (wanted.columns.is_empty() || wanted.columns == cursor.columns);
            if !same {
                return Err(DualResponseError::Invalid(
                    "the cursor belongs to a request with another `sort`, `filter` or `columns`; send only the cursor, without these three parameters".into(),
                ));
            }
            wanted = Wanted { offset: cursor.offset, view: cursor.view, columns: cursor.columns };
        }
        check_view(resource, &wanted.view)?;
        check_columns(resource, &wanted.columns)?;
        Ok(wanted)
    }
}

/// Checks a view against the result set's columns.
pub(super) fn check_view(resource: &Resource, view: &View) -> Result<()> {
    if view.sort.len() > MAX_SORTS {
        return Err(DualResponseError::Invalid(format!("`sort` has more than {MAX_SORTS} columns")));
    }
    check_columns(resource, view.sort.iter().map(|sort| &sort.field))?;
    check_filter(resource, &view.filter)
}

pub(super) fn check_filter(resource: &Resource, filter: &[Filter]) -> Result<()> {
    if filter.len() > MAX_FILTERS {
        return Err(DualResponseError::Invalid(format!("`filter` has more than {MAX_FILTERS} conditions")));
    }
    check_columns(resource, filter.iter().map(|filter| &filter.column))
}

/// Returns an error if one of the names is not a column of the result set.
pub(super) fn check_columns<'a>(
    resource: &Resource,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    for name in names {
        if !resource.columns.iter().any(|column| column.name == *name) {
            let name: String = name.chars().filter(|letter| !letter.is_control()).take(64).collect();
            return Err(DualResponseError::Invalid(format!(
                "column `{name}` does not exist; `GET` on the result set lists the columns"
            )));
        }
    }
    Ok(())
}
