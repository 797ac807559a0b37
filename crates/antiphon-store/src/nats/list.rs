use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    link::{Kind, failed},
    store::NatsStore,
};
use crate::{
    error::Result,
    store::{Cursor, Page, Record},
};

/// The number of records that are read concurrently.
const ABREAST: usize = 32;

/// The maximum number of records of a page.
const PAGE: usize = 1024;

/// The number of bytes after which a page ends.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

impl NatsStore {
    /// Returns records in the order of their keys, after the last key of the previous page.
    ///
    /// The server first lists the matching subjects. After that, this crate reads each record of the page. The stream
    /// is not read in order, because NATS 2.9 has no index for parts of subjects. To read the stream in order, the
    /// server would have to read every value in the stream.
    pub(super) async fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page<Record>> {
        let filter = self.link.subject(Kind::Records, prefix) + ">";
        let subjects = self.link.stream(Kind::Records).info_with_subjects(filter).await.map_err(failed)?;
        let subjects: Vec<_> = subjects.try_collect().await.map_err(failed)?;
        let mut keys: Vec<_> =
            subjects.iter().filter_map(|(subject, _)| self.link.path(Kind::Records, subject)).collect();
        keys.retain(|key| after.is_none_or(|after| key.as_str() > after));
        keys.sort_unstable();

        let mut items: Vec<Record> = Vec::new();
        let mut bytes = 0;
        let mut last = after.map(str::to_owned);
        let most = limit.min(PAGE);
        let mut rest = keys.into_iter().peekable();
        while rest.peek().is_some() && items.len() < most && bytes < PAGE_BYTES {
            let some: Vec<_> = rest.by_ref().take(ABREAST.min(most - items.len())).collect();
            last = some.last().cloned();
            let looks = some.into_iter().map(|key| self.listed(key));
            let found: Vec<_> = stream::iter(looks).buffered(ABREAST).try_collect().await?;
            for record in found.into_iter().flatten() {
                bytes += record.value.len();
                items.push(record);
            }
        }
        let more = rest.peek().is_some();
        Ok(Page { items, next: last.filter(|_| more).map(Cursor) })
    }

    async fn listed(&self, key: String) -> Result<Option<Record>> {
        let found = self.look(&key).await?;
        let now = self.link.clock.now();
        Ok(found.filter(|version| version.is_live(now)).map(|version| version.into_record(&key)))
    }
}
