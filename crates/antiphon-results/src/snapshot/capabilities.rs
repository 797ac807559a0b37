use super::ExportFormat;

/// The optional operations of a [`SnapshotStore`](super).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotCapabilities {
    /// Whether the store has a query engine. With one, it sorts, filters, groups and runs queries.
    pub queries: bool,
    /// Export formats.
    pub formats: Vec<ExportFormat>,
}

impl SnapshotCapabilities {
    /// Creates capabilities with or without a query engine, and with these formats.
    pub fn new(queries: bool, formats: impl IntoIterator<Item = ExportFormat>) -> Self {
        Self { queries, formats: formats.into_iter().collect() }
    }
}
