use std::{fmt, future::Future, pin::Pin, sync::Arc};

use super::{PageRequest, Source};
use crate::{error::BoxError, rows::Rows};

type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// A source of rows with two closures: one reads a page of rows, and the other counts all rows.
pub struct Closures {
    pub(crate) execute: Box<dyn Fn(PageRequest) -> BoxFuture<Rows> + Send + Sync>,
    pub(crate) count: Box<dyn Fn() -> BoxFuture<u64> + Send + Sync>,
    pub(crate) sorts: bool,
}

impl Source {
    /// Creates a source from two closures.
    ///
    /// `execute` gets the offset, the limit and the sort, and must sort the rows. If `execute` cannot sort rows, call
    /// [`unsorted`](Self::unsorted).
    ///
    /// ```
    /// use antiphon_results::{Rows, Source, source::PageRequest};
    /// use serde_json::json;
    ///
    /// let numbers = Source::closures(
    ///     |page: PageRequest| async move {
    ///         let mut rows = Rows::new();
    ///         for n in page.offset..1000.min(page.offset + page.limit) {
    ///             rows.push(&json!({"n": n}))?;
    ///         }
    ///         Ok(rows)
    ///     },
    ///     || async { Ok(1000) },
    /// )
    /// .unsorted();
    /// # let _ = numbers;
    /// ```
    pub fn closures<E, EF, R, C, CF>(execute: E, count: C) -> Self
    where
        E: Fn(PageRequest) -> EF + Send + Sync + 'static,
        EF: Future<Output = Result<R, BoxError>> + Send + 'static,
        R: TryInto<Rows>,
        R::Error: Into<BoxError>,
        C: Fn() -> CF + Send + Sync + 'static,
        CF: Future<Output = Result<u64, BoxError>> + Send + 'static,
    {
        Self::Closures(Arc::new(Closures {
            execute: Box::new(move |page| {
                let rows = execute(page);
                Box::pin(async move { rows.await?.try_into().map_err(Into::into) })
            }),
            count: Box::new(move || Box::pin(count())),
            sorts: true,
        }))
    }

    /// Declares that the closures cannot sort rows.
    ///
    /// The server then rejects requests with a sort. The server does not sort each page separately, because the result
    /// set as a whole would still not be sorted.
    #[must_use]
    pub fn unsorted(self) -> Self {
        match self {
            Self::Closures(closures) => match Arc::try_unwrap(closures) {
                Ok(closures) => Self::Closures(Arc::new(Closures { sorts: false, ..closures })),
                Err(shared) => Self::Closures(shared),
            },
            other => other,
        }
    }
}

impl fmt::Debug for Closures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closures").field("sorts", &self.sorts).finish_non_exhaustive()
    }
}
