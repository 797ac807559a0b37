use super::ExportFormat;

/// The optional operations of a [`SnapshotStore`](super).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotCapabilities {
    /// Whether the store has a query engine. With a query engine, the store can sort, filter, aggregate and run SQL
    /// queries.
    pub queries: bool,
    /// Formats in which the store can export rows.
    pub formats: Vec<ExportFormat>,
}

impl SnapshotCapabilities {
    /// Creates capabilities with or without a query engine, and with these formats.
    pub fn new(queries: bool, formats: impl IntoIterator<Item = ExportFormat>) -> Self {
        Self { queries, formats: formats.into_iter().collect() }
    }
}
