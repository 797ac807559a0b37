use std::{collections::BTreeMap, sync::Arc};

use super::Query;
use crate::error::{DualResponseError, Result};

/// The named queries of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queries {
    by_name: BTreeMap<String, Arc<dyn Query>>,
}

impl Queries {
    /// Adds a query, and returns whether the name was unused.
    pub(crate) fn add(&mut self, name: String, query: Arc<dyn Query>) -> bool {
        self.by_name.insert(name, query).is_none()
    }

    /// Returns the query with this name.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<dyn Query>> {
        self.by_name.get(name).ok_or_else(|| {
            DualResponseError::Config(format!(
                "the query `{name}` is not registered; register it on every replica with `with_query`"
            ))
        })
    }
}
