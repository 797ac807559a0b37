use std::{collections::BTreeMap, sync::Arc};

use super::Query;
use crate::error::{DualResponseError, Result};

/// The queries a server knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queries {
    by_name: BTreeMap<String, Arc<dyn Query>>,
}

impl Queries {
    /// Adds one, and says whether the name was free.
    pub(crate) fn add(&mut self, name: String, query: Arc<dyn Query>) -> bool {
        self.by_name.insert(name, query).is_none()
    }

    /// The query of this name.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<dyn Query>> {
        self.by_name.get(name).ok_or_else(|| {
            DualResponseError::Config(format!(
                "no query is registered as `{name}`; every replica must be given it, with `with_query`"
            ))
        })
    }
}
